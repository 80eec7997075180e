"""Faults of the network between Spark and a broker: cut, delayed, throttled or reset for a time, and healed.

Driver and executors reach each broker through a link of the network proxy; tidemark's own clients do not. The link is
disturbed while the batch is kept at its point. What came of it is counted at both ends of the proxy, before, during and
after: a disturbance that nothing met, or that let through what it should not, counts as not injected.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack

import msgspec

from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.component import at_point
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import Fault, FaultAction
from tidemark.stack import REQUESTS, RESPONSES, ComponentKind, LinkTraffic, StreamTraffic, Toxic
from tidemark.waiting import pause

HEALED_S = 10.0
"""Calibration: clients whose connections are closed come back within 0.1 to 1 s (``reconnect.backoff.max.ms``)."""
MET_S = 10.0
"""For how long a fault goes on beyond its duration, if nothing has met it by then. Calibration: a driver asks the
brokers at every trigger, twice a second; on an overloaded machine a batch that sends nothing may take some seconds."""
POLL_S = 0.02
LEAST_HELD_MS = 2.0
"""Calibration: without a disturbance bytes are held for 0.01 to 0.3 ms on a busy machine."""

_BOTH = (REQUESTS, RESPONSES)
_CUT = {
    FaultAction.CUT: _BOTH,
    FaultAction.CUT_REQUESTS: (REQUESTS,),
    FaultAction.CUT_RESPONSES: (RESPONSES,),
    FaultAction.RESET: _BOTH,
}
"""Actions that let nothing through, and in which directions."""
_NAMES = {REQUESTS: "requests", RESPONSES: "responses"}


class StreamSeen(msgspec.Struct, frozen=True):
    """What one direction of a link has seen in a while of ``seconds``.

    ``received`` bytes arrived at the proxy, ``passed`` were passed on, each was held for ``held_ms`` on average (only
    counted during a fault that lets something through).
    """

    seconds: float
    received: int
    passed: int
    held_ms: float | None = None


def toxics_of(action: FaultAction, amount: float | None) -> list[Toxic]:
    """What an action is, in Toxiproxy's words: https://github.com/Shopify/toxiproxy#toxics."""
    number = round(amount or 0)
    kinds: dict[FaultAction, tuple[str, Mapping[str, int | str]]] = {
        FaultAction.DELAY: ("latency", {"latency": number, "jitter": 0}),
        FaultAction.JITTER: ("latency", {"latency": number, "jitter": number}),
        FaultAction.THROTTLE: ("bandwidth", {"rate": number}),
        FaultAction.RESET: ("reset_peer", {"timeout": 0}),
    }
    kind, attributes = kinds.get(action, ("timeout", {"timeout": 0}))
    return [Toxic(kind, stream, attributes) for stream in _CUT.get(action, _BOTH)]


def seen_between(first: LinkTraffic, last: LinkTraffic, *, holds: bool = False) -> dict[str, StreamSeen]:
    """What both directions have seen between two moments.

    With ``holds``, for how long a byte was held, too. Its time in the proxy is when it was passed on less when it
    arrived, or the last moment less when it arrived if it is still there (Little's law); of the first moment it is
    taken that nothing was in the proxy.
    """
    seconds = last.at_s - first.at_s
    return {
        _NAMES[stream]: _seen(first.streams[stream], last.streams[stream], first.at_s, seconds, holds=holds)
        for stream in _BOTH
    }


def _seen(
    first: StreamTraffic, last: StreamTraffic, begin_s: float, seconds: float, *, holds: bool
) -> StreamSeen:
    received, passed = last.received - first.received, last.passed - first.passed
    held = None
    if holds and received:
        came_byte_s = last.received_byte_s - first.received_byte_s - begin_s * received
        went_byte_s = last.passed_byte_s - first.passed_byte_s - begin_s * passed
        held = round(1000 * (went_byte_s - came_byte_s + (received - passed) * seconds) / received, 2)
    return StreamSeen(round(seconds, 3), received, passed, held)


def has_effect(action: FaultAction, amount: float | None, during: Mapping[str, StreamSeen]) -> bool:
    """Whether what was seen during a fault shows it: something came, and was lost, or was held for long enough."""
    if action in _CUT:
        lost = [during[_NAMES[stream]] for stream in _CUT[action]]
        return sum(seen.received for seen in lost) > 0 and all(seen.passed == 0 for seen in lost)
    held = max(seen.held_ms or 0.0 for seen in during.values())
    least = LEAST_HELD_MS if action is FaultAction.THROTTLE else (amount or 0.0) / 4
    return held >= max(least, LEAST_HELD_MS)


def note_traffic(target: FaultTarget) -> None:
    """Note what the links have seen until now: from here on it is the traffic before the fault."""
    for broker in target.stack.components(ComponentKind.BROKER):
        target.traffic[broker] = target.stack.link_traffic(broker)


def inject_into_network(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Disturb the link to one of the brokers for the fault's duration, heal it, and wait for the first bytes after.

    Where nothing has met the fault by then, it lasts until something does, at most ``MET_S`` seconds longer.

    ``None`` if the batch had passed the point, or nothing shows the effect.
    """
    link = DisturbedLink(target, fault, unless)
    with ExitStack() as outage:
        with at_point(target, fault, now, unless=unless) as proof:
            if proof is None:
                return None
            line = target.injected(fault, now.batch, {"component_name": link.broker, **proof})
            outage.callback(link.heal)
            link.disturb()
        target.rest(fault.spec.duration_s)
        link.await_effect()
    line.proof |= link.proof()
    line.ended_at_utc = line.proof["healed_at_utc"]
    return line if link.has_effect else None


class DisturbedLink:
    """The link to one of the brokers: disturbed, and healed, with what came through it before, during and after."""

    def __init__(self, target: FaultTarget, fault: PlannedFault, unless: Unless) -> None:
        self.broker = fault.choose(target.stack.components(ComponentKind.BROKER))
        self.has_effect = False
        """Whether what was seen shows the effect; known after :meth:`await_effect`."""
        self._target = target
        self._spec = fault.spec
        self._unless = unless
        self._toxics = toxics_of(fault.spec.action, fault.spec.amount)
        self._during: dict[str, StreamSeen] = {}

    def disturb(self) -> None:
        """Begin; :meth:`heal` has to follow, also after an error."""
        stack = self._target.stack
        self._latest = stack.link_traffic(self.broker)
        stack.disturb_link(self.broker, self._toxics)
        self._first = stack.link_traffic(self.broker)

    def await_effect(self) -> None:
        """Wait until something has met the disturbance, at most ``MET_S`` seconds."""
        action, amount = self._spec.action, self._spec.amount
        begun = time.monotonic()
        while not self.has_effect:
            latest = self._target.stack.link_traffic(self.broker)
            self._during = seen_between(self._first, latest, holds=action not in _CUT)
            self.has_effect = has_effect(action, amount, self._during)
            if self.has_effect or time.monotonic() - begun >= MET_S:
                return
            self._unless()
            pause(POLL_S)

    def seen(self) -> str:
        """``disturbed``, if the proxy says that it is; else nothing."""
        return "disturbed" if self._target.stack.link_is_disturbed(self.broker) else ""

    def heal(self) -> None:
        """End it."""
        self._target.stack.heal_link(self.broker)

    def proof(self) -> Proof:
        """Once it is healed: what was done and seen; waits for the first bytes."""
        healed_at = now_utc()
        after, first_bytes_s = _traffic_after(self._target, self.broker)
        before = seen_between(self._target.traffic[self.broker], self._latest)
        return {
            "toxics": [_shown(toxic) for toxic in self._toxics],
            "traffic": msgspec.to_builtins({"before": before, "during": self._during, "after": after}),
            "healed_at_utc": healed_at,
            "first_bytes_after_s": first_bytes_s,
        }


def _traffic_after(target: FaultTarget, broker: str) -> tuple[dict[str, StreamSeen], float | None]:
    """What came through the healed link until bytes had passed both ways, and after how many seconds they had."""
    healed = target.stack.link_traffic(broker)
    begun = time.monotonic()
    while True:
        seen = seen_between(healed, target.stack.link_traffic(broker))
        waited_s = time.monotonic() - begun
        if all(one.passed for one in seen.values()):
            return seen, round(waited_s, 2)
        if waited_s > HEALED_S:
            return seen, None
        pause(POLL_S)


def _shown(toxic: Toxic) -> Mapping[str, object]:
    return {"type": toxic.kind, "stream": _NAMES[toxic.stream], **toxic.attributes}
