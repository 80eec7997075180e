"""Faults of the network: cut, delayed, throttled, lossy or reset for a time, and healed.

What a link is:

- from Spark to a broker on local processes: connections through the network proxy; tidemark's own do not go through it.
  The proxy cannot lose packets, so a loss is between the proxy and the broker, by the kernel's packet filter.
- from Spark to a broker in containers: packets, by the packet filter of the broker's container; what makes bytes wait
  is done to connections through the network proxy.
- of a schema registry, on local processes: connections through the network proxy, of the programs of the query.
- of an executor: what the executors of its worker exchange with their driver and with those of other workers, as
  packets.

A link is disturbed while the batch is kept at its point. What came of it is counted at both its ends, before, during
and after: a disturbance that nothing met, or that let through what it should not, counts as not injected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack

import msgspec

from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.component import asked_to_commit, at_point
from tidemark.faults.schedule import FaultSpec, PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import Fault, FaultAction, FaultComponent
from tidemark.stack import REGISTRY, REQUESTS, RESPONSES, ComponentKind, LinkTraffic, StreamTraffic, Toxic
from tidemark.waiting import pause

HEALED_S = 10.0
"""Calibration: clients whose connections are closed come back within 0.1 to 1 s (``reconnect.backoff.max.ms``)."""
MET_S = 20.0
"""For how long a fault goes on beyond its duration, if nothing has met it by then. Calibration: a driver asks the
brokers at every trigger, twice a second; a batch whose executors were killed sends nothing for up to 10 s."""
POLL_S = 0.02
LEAST_HELD_MS = 2.0
"""Calibration: without a disturbance bytes are held for 0.01 to 0.3 ms on a busy machine."""

_BOTH = (REQUESTS, RESPONSES)
_CUT = {
    FaultAction.CUT: _BOTH,
    FaultAction.CUT_REQUESTS: (REQUESTS,),
    FaultAction.CUT_RESPONSES: (RESPONSES,),
    FaultAction.CUT_SENT: (REQUESTS,),
    FaultAction.CUT_RECEIVED: (RESPONSES,),
    FaultAction.RESET: _BOTH,
}
"""Actions that let nothing through, and in which directions."""
_NAMES = {
    FaultComponent.BROKER: {REQUESTS: "requests", RESPONSES: "responses"},
    FaultComponent.EXECUTOR: {REQUESTS: "from_executor", RESPONSES: "to_executor"},
    FaultComponent.REGISTRY: {REQUESTS: "requests", RESPONSES: "responses"},
}
"""Of a link of each component, what its directions are called in the journal."""


class StreamSeen(msgspec.Struct, frozen=True):
    """What one direction of a link has seen in a while of ``seconds``.

    ``received`` bytes arrived at the link, ``passed`` were passed on, each was held for ``held_ms`` on average (only
    counted during a fault that lets something through, and only in the proxy). ``queued`` is how often packets of a
    throttled link of executors had to wait; in containers, how many were lost beyond the rate.
    """

    seconds: float
    received: int
    passed: int
    held_ms: float | None = None
    queued: int | None = None


def toxics_of(action: FaultAction, amount: float | None) -> list[Toxic]:
    """What an action is, in Toxiproxy's words: https://github.com/Shopify/toxiproxy#toxics. It has no ``loss``."""
    number = round(amount or 0)
    kinds: dict[FaultAction, tuple[str, Mapping[str, int | str]]] = {
        FaultAction.DELAY: ("latency", {"latency": number, "jitter": 0}),
        FaultAction.JITTER: ("latency", {"latency": number, "jitter": number}),
        FaultAction.THROTTLE: ("bandwidth", {"rate": number}),
        FaultAction.RESET: ("reset_peer", {"timeout": 0}),
        FaultAction.LOSS: ("loss", {"percent": f"{amount or 0:g}"}),
    }
    kind, attributes = kinds.get(action, ("timeout", {"timeout": 0}))
    return [Toxic(kind, stream, attributes) for stream in _CUT.get(action, _BOTH)]


def seen_between(
    component: FaultComponent, first: LinkTraffic, last: LinkTraffic, *, holds: bool = False
) -> dict[str, StreamSeen]:
    """What both directions of a link of a component have seen between two moments, by their names.

    With ``holds``, for how long a byte was held, too. Its time in the proxy is when it was passed on less when it
    arrived, or the last moment less when it arrived if it is still there (Little's law); of the first moment it is
    taken that nothing was in the proxy.
    """
    seconds = last.at_s - first.at_s
    return {
        _NAMES[component][stream]: _seen(
            first.streams[stream], last.streams[stream], first.at_s, seconds, holds=holds
        )
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
    return StreamSeen(round(seconds, 3), received, passed, held, last.queued or None)


def has_effect(
    component: FaultComponent, action: FaultAction, amount: float | None, during: Mapping[str, StreamSeen]
) -> bool:
    """Whether what was seen during a fault shows it: something came, and was lost, or was held for long enough."""
    if action in _CUT:
        lost = [during[_NAMES[component][stream]] for stream in _CUT[action]]
        return sum(seen.received for seen in lost) > 0 and all(seen.passed == 0 for seen in lost)
    if action is FaultAction.LOSS:
        return any(seen.received > seen.passed for seen in during.values())
    if component is FaultComponent.EXECUTOR:
        return any(seen.queued for seen in during.values())
    held = max(seen.held_ms or 0.0 for seen in during.values())
    least = LEAST_HELD_MS if action is FaultAction.THROTTLE else (amount or 0.0) / 4
    return held >= max(least, LEAST_HELD_MS)


def note_traffic(target: FaultTarget, spec: FaultSpec) -> None:
    """Note what the links that a fault may disturb have seen until now: from here on it is the traffic before it."""
    brokers = target.stack.components(ComponentKind.BROKER)
    kinds = {_kind(part) for part in spec.parts if part.disturbs(FaultComponent.BROKER)}
    links = [target.stack.watch_broker_link(broker, kind) for kind in kinds for broker in brokers]
    links += [REGISTRY] if spec.disturbs(FaultComponent.REGISTRY) else []
    if spec.disturbs(FaultComponent.EXECUTOR):
        links += target.stack.watch_links(target.driver)
    for link in links:
        target.traffic[link] = target.stack.link_traffic(link)


def _kind(spec: FaultSpec) -> str:
    """Of the toxics of a fault; those of both directions have the same."""
    return toxics_of(spec.action, spec.amount)[0].kind


def forget_traffic(target: FaultTarget, specs: Iterable[FaultSpec]) -> None:
    """Watch no links any more."""
    if any(spec.is_of_network for spec in specs):
        target.stack.unwatch_links()


def inject_into_network(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Disturb a link for the fault's duration, heal it, and wait for the first bytes after.

    Where nothing has met the fault by then, it lasts until something does, at most ``MET_S`` seconds longer.

    ``None`` if the batch had passed the point, nothing shows the effect, or no executor runs.
    """
    with ExitStack() as outage:
        with at_point(target, fault, now, unless=unless) as proof:
            link = None if proof is None else disturbed_link(target, fault, now.batch, proof)
            if proof is None or link is None:
                return None
            line = target.injected(fault, now.batch, {**link.victim, **proof})
            outage.callback(link.heal)
            link.disturb()
        target.rest(fault.spec.duration_s)
        await_effects([link], lambda _link: None, unless)
    line.proof |= link.proof()
    line.ended_at_utc = line.proof["healed_at_utc"]
    return line if link.has_effect else None


def disturbed_link(
    target: FaultTarget, fault: PlannedFault, batch: int, proof: Proof
) -> DisturbedLink | None:
    """The link that a fault is to disturb; ``None`` if no executor runs. New executors are watched from now on.

    Where a proof says that ledger entries are pending, it is that of a broker which is asked to commit one.
    """
    if fault.spec.component is FaultComponent.BROKER:
        asked = asked_to_commit(target, batch, proof)
        broker = fault.choose(asked or target.stack.components(ComponentKind.BROKER))
        link = target.stack.watch_broker_link(broker, _kind(fault.spec))
        return DisturbedLink(target, fault, link, {"component_name": broker})
    if fault.spec.component is FaultComponent.REGISTRY:
        return DisturbedLink(target, fault, REGISTRY, {"component_name": REGISTRY})
    executors = target.stack.executors(target.driver)
    if not executors:
        return None
    target.stack.watch_links(target.driver)  # at the ports at which its executors listen by now
    chosen = fault.choose(executors)
    ids = [executor.executor_id for executor in executors if executor.worker == chosen.worker]
    victim = {"component_name": chosen.worker, "executor_ids": ids}
    return DisturbedLink(target, fault, chosen.worker, victim)


def await_effects(
    links: Sequence[DisturbedLink], met: Callable[[DisturbedLink], object], unless: Unless
) -> None:
    """Wait until something has met each disturbance, at most ``MET_S`` seconds; says ``met`` of each that was."""
    begun, left = time.monotonic(), [*links]
    while True:
        for link in [link for link in left if link.look()]:
            left.remove(link)
            met(link)
        if not left or time.monotonic() - begun >= MET_S:
            return
        unless()
        pause(POLL_S)


class DisturbedLink:
    """A link: disturbed, and healed, with what came through it before, during and after."""

    def __init__(self, target: FaultTarget, fault: PlannedFault, link: str, victim: Proof) -> None:
        """``victim`` says in the journal whose link it is."""
        self.victim = victim
        self._link = link
        self.has_effect = False
        """Whether what was seen shows the effect; known after :meth:`look`."""
        self._target = target
        self._spec = fault.spec
        self._toxics = toxics_of(fault.spec.action, fault.spec.amount)
        self._during: dict[str, StreamSeen] = {}

    def disturb(self) -> None:
        """Begin; :meth:`heal` has to follow, also after an error."""
        stack = self._target.stack
        self._latest = stack.link_traffic(self._link)
        noted = self._target.traffic.get(self._link)
        if noted is None or any(
            self._latest.streams[one].received < noted.streams[one].received for one in _BOTH
        ):  # a link that was started again counts from the start
            self._target.traffic[self._link] = self._latest
        stack.disturb_link(self._link, self._toxics)
        self._first = stack.link_traffic(self._link)

    def look(self) -> bool:
        """Look at what has come since it was disturbed; whether that shows the effect."""
        action, amount = self._spec.action, self._spec.amount
        latest = self._target.stack.link_traffic(self._link)
        is_slowed = action not in (*_CUT, FaultAction.LOSS)
        holds = self._spec.component is not FaultComponent.EXECUTOR and is_slowed
        self._during = seen_between(self._spec.component, self._first, latest, holds=holds)
        self.has_effect = has_effect(self._spec.component, action, amount, self._during)
        return self.has_effect

    def seen(self) -> str:
        """``disturbed``, if the proxy, or the packet filter, says that it is; else nothing."""
        return "disturbed" if self._target.stack.link_is_disturbed(self._link) else ""

    def heal(self) -> None:
        """End it."""
        self._target.stack.heal_link(self._link)

    def proof(self) -> Proof:
        """Once it is healed: what was done and seen; waits for the first bytes."""
        healed_at = now_utc()
        after, first_bytes_s = self._traffic_after()
        before = seen_between(self._spec.component, self._target.traffic[self._link], self._latest)
        names = _NAMES[self._spec.component]
        return {
            "toxics": [
                {"type": toxic.kind, "stream": names[toxic.stream], **toxic.attributes}
                for toxic in self._toxics
            ],
            "traffic": msgspec.to_builtins({"before": before, "during": self._during, "after": after}),
            "healed_at_utc": healed_at,
            "first_bytes_after_s": first_bytes_s,
        }

    def _traffic_after(self) -> tuple[dict[str, StreamSeen], float | None]:
        """What came through the healed link until bytes had passed both ways, and after how many seconds they had."""
        stack, component = self._target.stack, self._spec.component
        healed = stack.link_traffic(self._link)
        begun = time.monotonic()
        while True:
            seen = seen_between(component, healed, stack.link_traffic(self._link))
            waited_s = time.monotonic() - begun
            if all(one.passed for one in seen.values()):
                return seen, round(waited_s, 2)
            if waited_s > HEALED_S:
                return seen, None
            pause(POLL_S)
