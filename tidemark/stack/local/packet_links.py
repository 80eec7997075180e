"""What a worker's executors exchange with their driver and with other executors, as packets: counted, and disturbed.

These connections have ports that nobody knows before, so no proxy can be between. A worker is started in a group of its
own (:func:`group_of`), which its executors inherit. Rules of the kernel's packet filter mark the connections between a
process of that group and the ports at which the driver and other executors listen, or at which its own executors do;
everything else, so also what an executor tells its Python workers, is never looked at. A throttled packet waits in a
class of the traffic control of the loopback interface.

It takes root (``CAP_NET_ADMIN`` and ``CAP_SETGID``), ``iptables`` and, to throttle, ``tc``. Delays are not there: they
need ``sch_netem``, which many kernels do not have.
"""

from __future__ import annotations

import fcntl
import functools
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tidemark import paths
from tidemark.errors import UsageError
from tidemark.processes import ProcessId
from tidemark.stack.api import REQUESTS, RESPONSES, Executor, LinkTraffic, Toxic
from tidemark.stack.packet_rules import STREAMS, PacketRules
from tidemark.stack.registry import ComponentRecord, StateFolder

ANSWER_S = 30
"""Calibration: a command takes 3 to 10 ms; ``-w`` waits while another program changes the rules."""
PORTS_A_RULE = 15
"""As many as ``-m multiport`` takes."""
_HANDLE = "7d"
"""Of the root queue of the loopback interface, while something is throttled."""
_SETGID, _NET_ADMIN = 6, 12
"""Bits of ``CapEff`` in ``/proc/self/status``: ``capabilities(7)``."""
_QUEUED = re.compile(r"overlimits (\d+)")


def can_join_groups() -> bool:
    """Whether a process may be started in a group of its own."""
    return _has(_SETGID)


def must_be_possible(*, throttles: bool = False) -> None:
    """Raise ``UsageError`` if this process may not filter packets, or has no program for it."""
    missing = [name for name in ("iptables", *(("tc",) if throttles else ())) if not shutil.which(name)]
    why = f"there is no {' and no '.join(missing)} on PATH" if missing else ""
    if not (_has(_SETGID) and _has(_NET_ADMIN)):
        why = "this process may not change the packet filter (CAP_NET_ADMIN, CAP_SETGID)"
    if why or (why := _why_refused()):
        raise UsageError(
            "the network between driver and executors cannot be disturbed",
            detail=why,
            hint="run tidemark as root, with iptables and iproute2 installed; or take a link to Kafka, which needs"
            " neither: broker:cut@planned",
        )


def is_possible() -> bool:
    """Whether this process may filter and throttle packets, and has the programs for it."""
    try:
        must_be_possible(throttles=True)
    except UsageError:
        return False
    return True


def group_of(state: StateFolder, worker: str) -> int:
    """The group of a worker and its executors; above all that a system gives away."""
    return 1_000_000_000 + _number(state, worker) % 1_000_000_000


def chain_of(state: StateFolder, worker: str) -> str:
    """The name of the chain of rules of a worker's link; those of its directions begin with it."""
    return f"tidemark-{_number(state, worker):08x}"


def class_of(state: StateFolder, worker: str, stream: str) -> str:
    """The class of the traffic control in which a direction waits while it is throttled."""
    number = 2 * (_number(state, worker) % 0x7000) + 1 + (stream == RESPONSES)
    return f"{_HANDLE}:{number:x}"


class LocalLinks:
    """The links of the workers of one stack; :class:`tidemark.stack.runtime.PacketLinks` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def watch(
        self, worker: str, driver: ComponentRecord, own: Sequence[Executor], others: Sequence[Executor]
    ) -> None:
        """Begin to count what passes between the ports of these processes and the worker's group."""
        ports = _ports(executor.process for executor in own)
        of_driver = [
            port for port in _ports(_family(driver)) if port != driver.port
        ]  # its clients come there
        others_ports = of_driver + _ports(executor.process for executor in others)
        chain, mark = chain_of(self._state, worker), self._mark(worker)
        by_it, by_others = (f"-p tcp {self._sent(worker, by_it=by_it)}" for by_it in (True, False))
        marked = [
            f"-A {chain} {by_it} -m multiport --{ends} {some} -j CONNMARK --set-mark {mark}"
            for ends, every in (("dports", others_ports), ("sports", ports))
            for some in _in_pieces(every)
        ]
        told = [
            f"-A {chain} {by_it} -m connmark --mark {mark} -j {chain}-s",
            f"-A {chain} {by_others} -m connmark --mark {mark} -j {chain}-r",
            *(
                f"-A {chain} {by_others} -m connmark ! --mark {mark} -m multiport --dports {some} -j {chain}-r"
                for some in _in_pieces(ports)  # the first packet of a connection
            ),
        ]
        self._rules(worker).watch(marked, told)

    def forget(self, worker: str) -> None:
        """Take all rules of a worker's link out, if there are any."""
        if _has(_NET_ADMIN) and shutil.which("iptables"):
            self.heal(worker)
            self._rules(worker).forget()

    def disturb(self, worker: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a watched link; an error leaves it healed."""
        try:
            for toxic in toxics:
                if toxic.kind == "bandwidth":
                    self._throttle(worker, toxic)
                else:
                    self._rules(worker).disturb(toxic)
        except BaseException:
            self.heal(worker)
            raise

    def heal(self, worker: str) -> None:
        """Take what disturbs a link out, and leave it watched."""
        rules = self._rules(worker)
        if not rules.are_there():
            return
        rules.heal()
        throttled = self._throttled(worker)
        for rule in throttled:
            rules.run(f"iptables -w -t mangle -D {rule}")
        if throttled:
            with _traffic_control():
                for stream in STREAMS:
                    _command(f"tc class del dev lo classid {class_of(self._state, worker, stream)}")
                if not rules.run("tc class show dev lo").strip():
                    _command("tc qdisc del dev lo root")

    def is_disturbed(self, worker: str) -> bool:
        """Whether there are rules but those that count."""
        return self._rules(worker).are_disturbing() or bool(self._throttled(worker))

    def traffic(self, worker: str) -> LinkTraffic:
        """Both streams since the link is watched.

        When a byte passed is not known. Of a throttled link it is known how many packets had to wait (``queued``).
        """
        is_throttled, rules = bool(self._throttled(worker)), self._rules(worker)

        def queued(stream: str) -> int:
            if not is_throttled:
                return 0
            class_id = class_of(self._state, worker, stream)
            found = _QUEUED.search(rules.run(f"tc -s class show dev lo classid {class_id}"))
            return int(found[1]) if found else 0

        return rules.traffic(queued)

    def _throttle(self, worker: str, toxic: Toxic) -> None:
        class_id, rules = class_of(self._state, worker, toxic.stream), self._rules(worker)
        with _traffic_control():
            if f"htb {_HANDLE}:" not in rules.run("tc qdisc show dev lo root"):
                rules.run(f"tc qdisc add dev lo root handle {_HANDLE}: htb")
            rate = f"{toxic.attributes['rate']}kbps"  # tc's word for kilobytes a second
            rules.run(f"tc class add dev lo parent {_HANDLE}: classid {class_id} htb rate {rate}")
        rules.run(
            f"iptables -w -t mangle -A {rules.chain} -m connmark --mark {self._mark(worker)}"
            f" {self._sent(worker, by_it=toxic.stream == REQUESTS)} -j CLASSIFY --set-class {class_id}"
        )

    def _throttled(self, worker: str) -> list[str]:
        """The rules that send packets to a class of the traffic control."""
        return [rule for rule in self._rules(worker).listed("mangle") if "CLASSIFY" in rule]

    def _rules(self, worker: str) -> PacketRules:
        hooks = [f"{table} OUTPUT -o lo -p tcp" for table in ("mangle", "filter")]
        return PacketRules(chain_of(self._state, worker), _command, hooks)

    def _sent(self, worker: str, *, by_it: bool) -> str:
        """Matches what the worker's executors send, or what others do."""
        group = group_of(self._state, worker)
        return f"-m owner {'' if by_it else '! '}--gid-owner {group} --suppl-groups"

    def _mark(self, worker: str) -> str:
        return f"0x{_number(self._state, worker):x}"


def _family(driver: ComponentRecord) -> Iterator[ProcessId]:
    """The process of a driver; of a user's job also the JVM that it has started."""
    living = driver.process.process() if driver.process is not None else None
    if living is not None:
        for process in (living, *living.children(recursive=True)):
            yield ProcessId.of(process.pid)


def _ports(processes: Iterable[ProcessId]) -> list[int]:
    """At which these processes listen."""
    found = (process.process() for process in processes)
    return [
        connection.laddr.port
        for process in found
        if process is not None
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


def _number(state: StateFolder, worker: str) -> int:
    """One of a worker of a stack, the same for every program that uses the stack."""
    return zlib.crc32(f"{state.path}/{worker}".encode())


def _in_pieces(ports: Sequence[int]) -> Iterator[str]:
    for at in range(0, len(ports), PORTS_A_RULE):
        yield ",".join(map(str, ports[at : at + PORTS_A_RULE]))


def _command(command: str) -> tuple[int, str]:
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr or done.stdout


@contextmanager
def _traffic_control() -> Iterator[None]:
    """One stack at a time: the loopback interface and its root queue are everybody's."""
    folder = paths.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "traffic-control.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _has(capability: int) -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return bool(found and int(found[1], 16) >> capability & 1)


@functools.cache
def _why_refused() -> str:
    """What the kernel says to the rules that are needed; nothing if it takes them. They are tried in a chain apart."""
    chain = "tidemark-tried"
    owner = "-m owner --gid-owner 1000000000 --suppl-groups"
    rules = [
        "*mangle", f":{chain} -", f"-A {chain} -p tcp {owner} -m multiport --dports 1 -j CONNMARK --set-mark 0x1",
        f"-A {chain} -m connmark --mark 0x1 {owner} -j CLASSIFY --set-class {_HANDLE}:1", f"-F {chain}", f"-X {chain}",
        "COMMIT", "*filter", f":{chain} -", f"-A {chain} -m statistic --mode random --probability 0.5 -j DROP",
        f"-A {chain} -p tcp -j REJECT --reject-with tcp-reset", f"-A {chain} -m comment --comment passed",
        f"-F {chain}", f"-X {chain}", "COMMIT",
    ]  # fmt: skip
    text = "\n".join(rules)
    try:
        code, printed = _command(f"iptables-restore -w --noflush <<'END'\n{text}\nEND")
    except subprocess.TimeoutExpired as error:
        return str(error)
    return printed if code else ""
