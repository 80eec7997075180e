"""What executors exchange with their driver, and the network proxy with a broker, as packets: counted, and disturbed.

Connections of executors have ports that nobody knows before, so no proxy can be between. A worker is started in a
group of its own (:func:`group_of`), which its executors inherit. Rules of the kernel's packet filter mark the
connections between a process of that group and the ports at which the driver and other executors listen, or at which
its own executors do; everything else, so also what an executor tells its Python workers, is never looked at. A
throttled packet waits in a class of the traffic control of the loopback interface. A broker listens for the network
proxy at a port of its own, which tells these packets.

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
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tidemark import paths
from tidemark.errors import TestbedError, UsageError
from tidemark.processes import ProcessId
from tidemark.stack.api import RESPONSES, Executor, LinkTraffic, Toxic
from tidemark.stack.packet_rules import STREAMS, Hook, PacketRules, packets_of
from tidemark.stack.registry import ComponentRecord, StateFolder

ANSWER_S = 30
"""Calibration: a command takes 3 to 10 ms; ``-w`` waits while another program changes the rules."""
PORTS_A_RULE = 15
"""As many as ``-m multiport`` takes."""
_FIRST_GROUP, _GROUPS = 1_000_000_000, 1_000_000_000
_HANDLE = "7d"
"""Of the root queue of the loopback interface, while something is throttled."""
_SETGID, _NET_ADMIN = 6, 12
"""Bits of ``CapEff`` in ``/proc/self/status``: ``capabilities(7)``."""
_OUTPUT = "OUTPUT -o lo -p tcp"
_MARKING, _TELLING = Hook("mangle", _OUTPUT), Hook("filter", _OUTPUT)
"""Where connections are marked, and where their packets are told apart."""
_CLASSIFYING = Hook("mangle", _OUTPUT, "-c")
"""Where packets that are throttled are given a class."""
_QUEUED = re.compile(r"overlimits (\d+)")


def can_join_groups() -> bool:
    """Whether a process may be started in a group of its own: in a user namespace most groups are nobody's."""
    if not _has(_SETGID):
        return False
    try:
        mapped = [
            tuple(map(int, line.split())) for line in Path("/proc/self/gid_map").read_text().splitlines()
        ]
    except OSError:
        return False
    ends = _FIRST_GROUP, _FIRST_GROUP + _GROUPS - 1
    return any(all(first <= end < first + count for end in ends) for first, _, count in mapped)


def why_impossible(*, of_executors: bool = False, throttles: bool = False) -> str:
    """What this machine or this process lacks to count and lose packets, ``of_executors`` too, or to throttle them."""
    missing = [name for name in ("iptables", *(("tc",) if throttles else ())) if not shutil.which(name)]
    if missing:
        return f"there is no {' and no '.join(missing)} on PATH"
    if not _has(_NET_ADMIN):
        return "this process may not change the packet filter (CAP_NET_ADMIN)"
    if of_executors and not can_join_groups():
        return "this process may not start a worker in a group of its own (CAP_SETGID)"
    return _why_refused(of_executors=of_executors) or (_why_not_throttled() if throttles else "")


def must_be_possible(what: str, *, of_executors: bool = False, throttles: bool = False) -> None:
    """Raise ``UsageError`` if it is not; ``what`` is what cannot be disturbed then."""
    if why := why_impossible(of_executors=of_executors, throttles=throttles):
        raise UsageError(
            f"{what} cannot be disturbed",
            detail=why,
            hint=f"run tidemark as root, with iptables{' and iproute2' if throttles else ''} installed; or take a fault"
            " that needs neither: broker:cut@planned",
        )


def is_possible() -> bool:
    """Whether this process may do all that is done to packets."""
    return not why_impossible(of_executors=True, throttles=True)


def group_of(state: StateFolder, worker: str) -> int:
    """The group of a worker and its executors; above all that a system gives away."""
    return _FIRST_GROUP + _number(state, worker) % _GROUPS


def chain_of(state: StateFolder, link: str) -> str:
    """The name of the chain of rules of a link; those of its directions begin with it."""
    return f"tidemark-{_number(state, link):08x}"


def class_of(state: StateFolder, link: str, stream: str) -> str:
    """The class of the traffic control in which a direction waits while it is throttled."""
    number = 2 * (_number(state, link) % 0x7000) + 1 + (stream == RESPONSES)
    return f"{_HANDLE}:{number:x}"


class LocalLinks:
    """The links of one stack; :class:`tidemark.stack.runtime.PacketLinks` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def watch(
        self, worker: str, driver: ComponentRecord, own: Sequence[Executor], others: Sequence[Executor]
    ) -> None:
        """Count what passes between the ports of these processes and the worker's group.

        Raises ``TestbedError`` if the executors are not in that group.
        """
        group = group_of(self._state, worker)
        groups = [found for executor in own if (found := _groups(executor.process)) is not None]
        if any(group not in one for one in groups):
            raise TestbedError(
                f"the packets of {worker} cannot be told from others: its processes have no group of their own",
                detail="a worker joins it when it is started, which takes CAP_SETGID",
                hint="`tidemark down`, then start the stack as root",
            )
        ports = _ports(executor.process for executor in own)
        clients = driver.port if driver.address else None  # where the clients of its Connect server come
        theirs = [port for port in _ports(_family(driver)) if port != clients]
        theirs += _ports(executor.process for executor in others)
        mark = self._mark(worker)
        by_it = f"-m owner --gid-owner {group} --suppl-groups"
        by_others = f"-m owner ! --gid-owner {group} --suppl-groups"
        marked = [
            f"-p tcp {owner} -m multiport --dports {some} -j CONNMARK --set-xmark {mark}/{mark}"
            for owner, every in ((by_it, theirs), (by_others, ports))
            for some in _in_pieces(every)
        ]
        sides = {"s": (("dports", theirs), ("sports", ports)), "r": (("sports", theirs), ("dports", ports))}
        told = [
            f"-p tcp -m connmark --mark {mark}/{mark} -m multiport --{which} {some}"
            f" -j {chain_of(self._state, worker)}-{end}"
            for end, parts in sides.items()
            for which, every in parts
            for some in _in_pieces(every)
        ]
        self._rules(worker).watch({_MARKING: marked, _TELLING: told})

    def watch_broker(self, broker: str, port: int) -> None:
        """Count what passes between the network proxy, through which all clients come, and the broker."""
        link = packets_of(broker)
        chain = chain_of(self._state, link)
        told = [f"-p tcp --dport {port} -j {chain}-s", f"-p tcp --sport {port} -j {chain}-r"]
        self._rules(link).watch({_TELLING: told})

    def forget(self, link: str) -> None:
        """Take all rules of a link out, if there are any."""
        if _has(_NET_ADMIN) and shutil.which("iptables"):
            self._stop_throttling(link)
            self._rules(link).forget()

    def disturb(self, link: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a watched link; an error may leave it disturbed in part."""
        for toxic in toxics:
            if toxic.kind == "bandwidth":
                self._throttle(link, toxic)
            else:
                self._rules(link).disturb(toxic)

    def heal(self, link: str) -> None:
        """Take what disturbs a link out, and leave it watched."""
        rules = self._rules(link)
        if rules.are_there():
            rules.heal()
        self._stop_throttling(link)

    def is_disturbed(self, link: str) -> bool:
        """Whether there are rules but those that count."""
        return self._rules(link).are_disturbing() or bool(self._throttled(link))

    def traffic(self, link: str) -> LinkTraffic:
        """Both streams since the link is watched.

        When a byte passed is not known. Of a throttled link it is known how often packets had to wait (``queued``).
        """
        throttled, rules = self._throttled(link), self._rules(link)

        def queued(stream: str) -> int:
            class_id = class_of(self._state, link, stream)
            if class_id not in throttled:
                return 0
            found = _QUEUED.search(rules.run(f"tc -s class show dev lo classid {class_id}"))
            return int(found[1]) if found else 0

        return rules.traffic(queued)

    def _throttle(self, link: str, toxic: Toxic) -> None:
        class_id, rules = class_of(self._state, link, toxic.stream), self._rules(link)
        with _traffic_control():
            if f"htb {_HANDLE}:" not in rules.run("tc qdisc show dev lo root"):
                rules.run(f"tc qdisc add dev lo root handle {_HANDLE}: htb")
            rate = f"{toxic.attributes['rate']}kbps"  # tc's word for kilobytes a second
            rules.run(f"tc class replace dev lo parent {_HANDLE}: classid {class_id} htb rate {rate}")
        chain, end = chain_of(self._state, link), STREAMS[toxic.stream]
        # As packets are told apart, so are they classified: by the rules that lead to the direction's chain.
        for rule in rules.listed("filter"):
            told, _, target = rule.partition(" -j ")
            if target == f"{chain}-{end}":
                rules.run(
                    f"iptables -w -t mangle -A {told.replace(chain, chain + _CLASSIFYING.end, 1)}"
                    f" -j CLASSIFY --set-class {class_id}"
                )

    def _throttled(self, link: str) -> list[str]:
        """The classes of the traffic control that the link has."""
        if not shutil.which("tc"):
            return []
        shown = self._rules(link).run("tc class show dev lo").split()
        return [one for stream in STREAMS if (one := class_of(self._state, link, stream)) in shown]

    def _stop_throttling(self, link: str) -> None:
        if self._rules(link).are_there():
            _command(f"iptables -w -t mangle -F {chain_of(self._state, link)}{_CLASSIFYING.end}")
        if throttled := self._throttled(link):
            with _traffic_control():
                for class_id in throttled:
                    _command(f"tc class del dev lo classid {class_id}")
                if not self._rules(link).run("tc class show dev lo").strip():
                    _command("tc qdisc del dev lo root")

    def _rules(self, link: str) -> PacketRules:
        return PacketRules(chain_of(self._state, link), _command, (_MARKING, _TELLING, _CLASSIFYING))

    @staticmethod
    def _mark(worker: str) -> str:
        """A bit of each worker: a connection between executors of two has both."""
        return f"0x{1 << (8 + int(worker.rpartition('-')[2])):x}"


def _family(driver: ComponentRecord) -> Iterator[ProcessId]:
    """The process of a driver; of a user's job also the JVM that it has started."""
    living = driver.process.process() if driver.process is not None else None
    with suppress(psutil.Error):  # it is just ending
        for process in (living, *living.children(recursive=True)) if living is not None else ():
            yield ProcessId.of(process.pid)


def _ports(processes: Iterable[ProcessId]) -> list[int]:
    """At which these processes listen; at none, if they are gone."""
    found: list[int] = []
    for process in processes:
        living = process.process()
        with suppress(psutil.Error):
            connections = living.net_connections("tcp") if living is not None else []
            found += [one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN]
    return found


def _groups(process: ProcessId) -> set[int] | None:
    """The groups of a process beside its first; ``None`` if it is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"^Groups:(.*)$", status, re.MULTILINE)
        return set(map(int, found[1].split())) if found else set()
    return None


def _number(state: StateFolder, link: str) -> int:
    """One of a link of a stack, the same for every program that uses the stack; a worker's is that of its link."""
    return zlib.crc32(f"{state.path}/{link}".encode())


def _in_pieces(ports: Sequence[int]) -> Iterator[str]:
    for at in range(0, len(ports), PORTS_A_RULE):
        yield ",".join(map(str, ports[at : at + PORTS_A_RULE]))


def _command(command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


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
def _why_refused(*, of_executors: bool) -> str:
    """What the kernel says to the rules that are needed; nothing if it takes them. They are tried in a chain apart."""
    chain = "tidemark-tried"
    owner = "-m owner --gid-owner 1000000000 --suppl-groups"
    marked = [
        f"-A {chain} -p tcp {owner} -m multiport --dports 1 -j CONNMARK --set-xmark 0x1/0x1",
        f"-A {chain} -p tcp -m connmark --mark 0x1/0x1 -m multiport --sports 1 -j CLASSIFY --set-class {_HANDLE}:1",
    ]
    rules = [
        "*mangle", f":{chain} -", *(marked if of_executors else ()), f"-F {chain}", f"-X {chain}", "COMMIT",
        "*filter", f":{chain} -", f"-A {chain} -m statistic --mode random --probability 0.5 -j DROP",
        f"-A {chain} -p tcp -j REJECT --reject-with tcp-reset", f"-A {chain} -m comment --comment passed",
        f"-F {chain}", f"-X {chain}", "COMMIT",
    ]  # fmt: skip
    text = "\n".join(rules)
    try:
        code, printed, errors = _command(f"iptables-restore -w --noflush <<'END'\n{text}\nEND")
    except subprocess.TimeoutExpired as error:
        return str(error)
    return errors or printed if code else ""


def _why_not_throttled() -> str:
    """What the queue of the loopback interface is, if it is somebody else's."""
    code, printed, errors = _command("tc qdisc show dev lo root")
    is_free = not code and ("noqueue" in printed or f"htb {_HANDLE}:" in printed or not printed.strip())
    return "" if is_free else f"the loopback interface has a queue already: {printed or errors}"
