"""Rules of the kernel's packet filter for one link: they count it, disturb it, and leave everything else alone.

What is sent goes to a chain of rules, what is received to another. The first rule of each counts what has come to the
link, the last what has passed, and what disturbs it is in between. Which packets go to which chain is for the backend
to say, and how a command is run where the link is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tidemark.errors import TestbedError
from tidemark.stack.api import REQUESTS, RESPONSES, LinkTraffic, StreamTraffic, Toxic

Command = Callable[[str], tuple[int, str]]
"""Runs a command of a shell as root; its exit code, and what it printed, errors as well."""

STREAMS = {REQUESTS: "s", RESPONSES: "r"}
"""Direction -> the end of the name of its chain: what executors send, and what they receive."""


class PacketRules:
    """The rules of one link; ``chain`` is their name, at most 26 letters, and no other link's."""

    def __init__(self, chain: str, command: Command, hooks: Sequence[str]) -> None:
        """``hooks`` are where packets come from: a table and the start of a rule, ``filter OUTPUT -p tcp``."""
        self.chain = chain
        self._command = command
        self._hooks = [hook.partition(" ")[::2] for hook in hooks]

    def watch(self, mangle: Sequence[str], told: Sequence[str]) -> None:
        """Begin to count, from zero. ``told`` are rules that send packets to ``{chain}-s`` and ``{chain}-r``."""
        self.forget()
        counters = [
            f"-A {self.chain}-{end} -m comment --comment {at}"
            for end in "sr"
            for at in ("received", "passed")
        ]
        self._restore("mangle", [f":{self.chain} -", *mangle])
        self._restore("filter", [*(f":{self.chain}{end} -" for end in ("", "-s", "-r")), *told, *counters])

    def forget(self) -> None:
        """Take all rules out, if there are any."""
        if not self.are_there():
            return
        for table, rest in self._hooks:
            self._succeeds(f"iptables -w -t {table} -D {rest} -j {self.chain}")
        for table, ends in (("mangle", [""]), ("filter", ["", "-s", "-r"])):
            for operation in ("-F", "-X"):
                for end in ends:
                    self._succeeds(f"iptables -w -t {table} {operation} {self.chain}{end}")

    def are_there(self) -> bool:
        """Whether the link is watched."""
        return self._succeeds(f"iptables -w -nL {self.chain}")

    def disturb(self, toxic: Toxic) -> None:
        """Take packets of one direction away: ``timeout``, ``reset_peer`` or ``loss``."""
        self.run(f"iptables -w -I {self.chain}-{STREAMS[toxic.stream]} 2 {_rule(toxic)}")

    def heal(self) -> None:
        """Take what disturbs the link out, and go on counting."""
        for end in STREAMS.values():
            for _ in self._disturbing(end):
                self.run(f"iptables -w -D {self.chain}-{end} 2")

    def are_disturbing(self) -> bool:
        """Whether there are rules but the counters."""
        return any(self._disturbing(end) for end in STREAMS.values())

    def traffic(self, queued: Callable[[str], int] = lambda _stream: 0) -> LinkTraffic:
        """Both streams since the link is watched, in bytes with all headers; what is sent again counts again."""

        def counted(stream: str) -> StreamTraffic:
            lines = self.run(f"iptables -w -nvxL {self.chain}-{STREAMS[stream]}").splitlines()[2:]
            received, passed = (int(line.split()[1]) for line in (lines[0], lines[-1]))
            return StreamTraffic(received=received, passed=passed, queued=queued(stream))

        return LinkTraffic(time.monotonic(), {stream: counted(stream) for stream in STREAMS})

    def listed(self, table: str, end: str = "") -> list[str]:
        """The rules of one of its chains, each as it was added, without ``-A``."""
        shown = self.run(f"iptables -w -t {table} -S {self.chain}{end}")
        return [line.removeprefix("-A ") for line in shown.splitlines() if line.startswith("-A")]

    def run(self, command: str) -> str:
        """What a command printed; raises ``TestbedError`` if it failed."""
        code, printed = self._command(command)
        if code:
            raise TestbedError(
                f"`{command.splitlines()[0]}` failed",
                detail=printed.strip(),
                hint="`iptables -S` shows the rules, `tc qdisc show dev lo` the queue of the loopback interface",
            )
        return printed

    def _restore(self, table: str, lines: Sequence[str]) -> None:
        """Add chains and rules at once, and have packets come there."""
        hooked = [f"-A {rest} -j {self.chain}" for of, rest in self._hooks if of == table]
        text = "\n".join([f"*{table}", *lines, *hooked, "COMMIT"])
        self.run(f"iptables-restore -w --noflush <<'END'\n{text}\nEND")

    def _disturbing(self, end: str) -> list[str]:
        """The rules between the two counters."""
        return self.listed("filter", f"-{end}")[1:-1]

    def _succeeds(self, command: str) -> bool:
        return self._command(command)[0] == 0


def _rule(toxic: Toxic) -> str:
    """The rule of a disturbance that takes packets away."""
    if toxic.kind == "loss":
        share = int(toxic.attributes["percent"]) / 100
        return f"-m statistic --mode random --probability {share:g} -j DROP"
    return "-p tcp -j REJECT --reject-with tcp-reset" if toxic.kind == "reset_peer" else "-j DROP"
