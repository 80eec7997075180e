"""Rules of the kernel's packet filter for one link: they count it, disturb it, and leave everything else alone.

What Spark sends goes to a chain of rules, what it receives to another. The first rule of each counts what has come to
the link, the last what has passed, and what disturbs it is in between. Which packets go to which chain is for the
backend to say, and how a command is run where the link is; it may be said anew, while the link is counted and
disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidemark.errors import TestbedError
from tidemark.stack.api import REQUESTS, RESPONSES, LinkTraffic, StreamTraffic, Toxic

Command = Callable[[str], tuple[int, str, str]]
"""Runs a command of a shell as root; its exit code, what it printed, and its errors."""

STREAMS = {REQUESTS: "s", RESPONSES: "r"}
"""Direction -> the end of the name of its chain: what executors, or Spark's clients of Kafka, send and receive."""
_PACKETS = "-packets"
_MOST_HOOKS = 10


def packets_of(broker: str) -> str:
    """The name of the link of a broker whose packets are counted; one through the network proxy has the broker's."""
    return broker + _PACKETS


def broker_of(link: str) -> str:
    """The broker of a link that :func:`packets_of` named; of another link nothing."""
    return link.removesuffix(_PACKETS) if link.endswith(_PACKETS) else ""


class Hook(NamedTuple):
    """From where packets come to a chain: ``filter``, ``OUTPUT -p tcp``; ``end`` is that of the chain's name."""

    table: str
    rule: str
    end: str = ""


class PacketRules:
    """The rules of one link; ``chain`` is their name, at most 24 letters, and no other link's."""

    def __init__(self, chain: str, command: Command, hooks: Sequence[Hook]) -> None:
        self.chain = chain
        self._command = command
        self._hooks = hooks

    def watch(self, chosen: Mapping[Hook, Sequence[str]]) -> None:
        """Begin to count, or go on with other packets: rules, without ``-A CHAIN``, of the chain of each hook.

        Those of the table ``filter`` send packets to ``{chain}-s`` and ``{chain}-r``. The chain of a hook that is not
        among them is left as it is.
        """
        ends = [end for end in STREAMS.values() if not self._is_there("filter", f"-{end}")]
        counters = [
            f"-A {self.chain}-{end} -m comment --comment {at}"
            for end in ends
            for at in ("received", "passed")
        ]
        lines = {"filter": [*(f":{self.chain}-{end} -" for end in ends), *counters]}
        for hook in self._hooks:
            own = f"{self.chain}{hook.end}"
            if hook in chosen or not self._is_there(hook.table, hook.end):
                rules = [f"-A {own} {rule}" for rule in chosen.get(hook, ())]
                lines.setdefault(hook.table, []).extend([f":{own} -", *rules])
        for table, texts in sorted(
            lines.items(), reverse=True
        ):  # what is marked is marked before it is looked at
            text = "\n".join([f"*{table}", *texts, "COMMIT"])
            self.run(f"iptables-restore -w --noflush <<'END'\n{text}\nEND")
        for hook in self._hooks:
            end = f"{hook.rule} -j {self.chain}{hook.end}"
            if not self._succeeds(f"iptables -w -t {hook.table} -C {end}"):
                self.run(f"iptables -w -t {hook.table} -A {end}")

    def forget(self) -> None:
        """Take all rules out, if there are any: those of a watcher that was killed may be there in part."""
        code, all_rules, _ = self._command("iptables-save")
        if not code and self.chain not in all_rules:
            return
        for hook in self._hooks:
            for _ in range(_MOST_HOOKS):
                end = f"{hook.rule} -j {self.chain}{hook.end}"
                if not self._succeeds(f"iptables -w -t {hook.table} -D {end}"):
                    break
        chains = [(hook.table, hook.end) for hook in self._hooks]
        chains += [("filter", f"-{end}") for end in STREAMS.values()]
        for operation in ("-F", "-X"):
            for table, end in chains:
                self._succeeds(f"iptables -w -t {table} {operation} {self.chain}{end}")

    def are_there(self) -> bool:
        """Whether the link is watched."""
        return self._is_there("filter", "-s")

    def disturb(self, toxic: Toxic) -> None:
        """Take packets of one direction away: all, a share (``loss``), or what is beyond a ``bandwidth``."""
        for rule in reversed(_rules_of(toxic, f"{self.chain}-{STREAMS[toxic.stream]}")):
            self.run(f"iptables -w -I {self.chain}-{STREAMS[toxic.stream]} 2 {rule}")

    def heal(self) -> None:
        """Take what disturbs the link out, and go on counting."""
        for end in STREAMS.values():
            for _ in self._disturbing(end):
                self.run(f"iptables -w -D {self.chain}-{end} 2")

    def are_disturbing(self) -> bool:
        """Whether there are rules but the counters."""
        return any(self._disturbing(end) for end in STREAMS.values())

    def traffic(self, queued: Callable[[str], int] = lambda _stream: 0) -> LinkTraffic:
        """Both streams since the link is watched, in bytes with all headers; what is sent again counts again.

        ``queued`` gives how often packets of a stream had to wait; those that are lost beyond a rate are added.
        """

        def counted(stream: str) -> StreamTraffic:
            lines = self.run(f"iptables -w -nvxL {self.chain}-{STREAMS[stream]}").splitlines()[2:]
            received, passed = (int(line.split()[1]) for line in (lines[0], lines[-1]))
            beyond = sum(int(line.split()[0]) for line in lines[1:-1] if " limit: above " in line)
            return StreamTraffic(received=received, passed=passed, queued=queued(stream) + beyond)

        return LinkTraffic(time.monotonic(), {stream: counted(stream) for stream in STREAMS})

    def listed(self, table: str, end: str = "") -> list[str]:
        """The rules of one of its chains, each as it was added, without ``-A``."""
        shown = self.run(f"iptables -w -t {table} -S {self.chain}{end}")
        return [line.removeprefix("-A ") for line in shown.splitlines() if line.startswith("-A")]

    def run(self, command: str) -> str:
        """What a command printed; raises ``TestbedError`` if it failed."""
        code, printed, errors = self._command(command)
        if code:
            raise TestbedError(
                f"`{command.splitlines()[0]}` failed",
                detail=(errors or printed).strip(),
                hint="`iptables -S` shows the rules, `tc qdisc show dev lo` the queue of the loopback interface",
            )
        return printed

    def _disturbing(self, end: str) -> list[str]:
        """The rules between the two counters."""
        return self.listed("filter", f"-{end}")[1:-1]

    def _is_there(self, table: str, end: str) -> bool:
        return self._succeeds(f"iptables -w -t {table} -nL {self.chain}{end}")

    def _succeeds(self, command: str) -> bool:
        return self._command(command)[0] == 0


def _rules_of(toxic: Toxic, name: str) -> list[str]:
    """The rules of a disturbance that takes packets away; ``name`` is that of the counter of what passes.

    A reset is answered with a packet that comes to the same rules: it is let through. Of a bandwidth a second's share
    passes at once. The packet filter sees what the kernel sends as one before it is cut into pieces, up to 64 kB, and
    counts it as a second's share at most (Linux, ``net/netfilter/xt_hashlimit.c``).
    """
    if toxic.kind == "bandwidth":
        rate = f"{toxic.attributes['rate']}kb"
        return [
            f"-m hashlimit --hashlimit-name {name} --hashlimit-above {rate}/s --hashlimit-burst {rate} -j DROP"
        ]
    if toxic.kind == "loss":
        share = float(toxic.attributes["percent"]) / 100
        return [f"-m statistic --mode random --probability {share:g} -j DROP"]
    if toxic.kind == "reset_peer":
        return ["-p tcp --tcp-flags RST RST -j RETURN", "-p tcp -j REJECT --reject-with tcp-reset"]
    return ["-j DROP"]
