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
    spec, stack = fault.spec, target.stack
    broker = fault.choose(stack.components(ComponentKind.BROKER))
    toxics = toxics_of(spec.action, spec.amount)
    earlier = target.traffic[broker]
    with ExitStack() as outage:
        with at_point(target, fault, now, unless=unless) as proof:
            if proof is None:
                return None
            line = target.injected(fault, now.batch, {"component_name": broker, **proof})
            latest = stack.link_traffic(broker)
            outage.callback(stack.heal_link, broker)
            stack.disturb_link(broker, toxics)
            first = stack.link_traffic(broker)
        target.rest(spec.duration_s)
        during = _traffic_until_met(target, fault, broker, first, unless=unless)
    line.ended_at_utc = healed_at = now_utc()
    after, first_bytes_s = _traffic_after(target, broker)
    line.proof |= {
        "toxics": [_shown(toxic) for toxic in toxics],
        "traffic": msgspec.to_builtins(
            {"before": seen_between(earlier, latest), "during": during, "after": after}
        ),
        "healed_at_utc": healed_at,
        "first_bytes_after_s": first_bytes_s,
    }
    return line if has_effect(spec.action, spec.amount, during) else None


def _traffic_until_met(
    target: FaultTarget, fault: PlannedFault, broker: str, first: LinkTraffic, *, unless: Unless
) -> dict[str, StreamSeen]:
    """What was seen since the fault began; a fault that nothing has met yet goes on for a while."""
    spec, begun = fault.spec, time.monotonic()
    while True:
        seen = seen_between(first, target.stack.link_traffic(broker), holds=spec.action not in _CUT)
        if has_effect(spec.action, spec.amount, seen) or time.monotonic() - begun >= MET_S:
            return seen
        unless()
        pause(POLL_S)


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
