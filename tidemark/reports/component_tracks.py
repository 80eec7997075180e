"""When each component ran, and when a fault was injected in it: what is drawn above the batches, by the wall clock.

Free of judgement. An executor is there from the first batch that it ran to the last, or to the fault that killed it;
driver, brokers, master and workers are there from the first batch to the last. A recovery is what the journal of faults
measured: from the injection to the commit of the fault's batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from tidemark.formats.evidence import ExecutorAssignment
from tidemark.formats.faults import NETWORK_ACTIONS, Fault, FaultAction, FaultComponent
from tidemark.formats.time_forms import journal_ms

Span = tuple[int, int]
"""Beginning and end, in milliseconds since the epoch."""


class FaultView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A fault: what was done to which components, at which commit point of which batch, and when.

    ``at_ms`` is the time of the injection, ``recovered_ms`` that of the commit of its batch.
    """

    label: str
    point: str
    components: list[str]
    injected: bool
    batch: int | None = None
    at_ms: int | None = None
    recovered_ms: int | None = None


class ComponentTrack(msgspec.Struct, kw_only=True):
    """A component, and when it was there."""

    name: str
    spans: list[Span]


def fault_views(faults: Iterable[Fault], assignments: Iterable[ExecutorAssignment] = ()) -> list[FaultView]:
    """The faults of a journal, in its order; executors have the names of the batch that they ran."""
    known = {one.batch: {*one.executors.values(), *one.lost} for one in assignments}
    return [
        _fault_view(fault, known.get(-1 if fault.batch is None else fault.batch, set())) for fault in faults
    ]


def _fault_view(fault: Fault, executors: Set[str]) -> FaultView:
    at_ms = time_ms(fault.at_utc) if fault.injected else None
    recovered_ms = None
    if at_ms is not None and fault.recovery_s is not None:
        recovered_ms = at_ms + round(1000 * fault.recovery_s)
    return FaultView(
        label=fault.label,
        point=str(fault.point),
        components=_components(fault, executors),
        injected=fault.injected,
        batch=fault.batch,
        at_ms=at_ms,
        recovered_ms=recovered_ms,
    )


def _components(fault: Fault, executors: Set[str]) -> list[str]:
    """The victims by their names: ``driver``, ``executor 1``, ``broker-1``."""
    proof = fault.proof
    if fault.component is FaultComponent.DRIVER:
        return ["driver"]
    if fault.component is FaultComponent.EXECUTORS or (
        fault.component is FaultComponent.EXECUTOR and fault.action in NETWORK_ACTIONS
    ):
        # A link is that of a worker, with all its executors; the one in `executor_id` only kept the batch at its point.
        found = proof.get("executor_ids")
        names = found if isinstance(found, list) else []
        every = "all executors" if fault.component is FaultComponent.EXECUTORS else "executor"
        return [_named(one, executors) for one in names] or [every]
    if fault.component is FaultComponent.EXECUTOR:
        return [_named(proof["executor_id"], executors)] if "executor_id" in proof else ["executor"]
    return [str(proof.get("component_name", fault.component))]


def _named(number: object, executors: Set[str]) -> str:
    """An executor of a driver that was started again has its start before its number (``2:0``), but not in a proof."""
    later = [one for one in executors if one.endswith(f":{number}")]
    return _executor(number if str(number) in executors or len(later) != 1 else later[0])


def _executor(number: object) -> str:
    return f"executor {number}"


def time_ms(text: object) -> int | None:
    """An ISO time in milliseconds since the epoch; ``None`` for what is none."""
    try:
        return journal_ms(str(text))
    except ValueError:
        return None


def component_tracks(
    spans: Mapping[int, Span], assignments: Iterable[ExecutorAssignment], faults: Sequence[FaultView]
) -> list[ComponentTrack]:
    """A track for each component that is known; ``spans`` are those of the batches, by their ids."""
    if not spans:
        return []
    whole = min(begin for begin, _ in spans.values()), max(end for _, end in spans.values())
    begins = sorted(begin for begin, _ in spans.values())
    found: dict[str, Span] = {"driver": whole}
    for assignment in assignments:
        if assignment.batch not in spans:
            continue
        begin, end = spans[assignment.batch]
        for number in dict.fromkeys([*assignment.executors.values(), *assignment.lost]):
            known = found.get(_executor(number), (begin, end))
            found[_executor(number)] = min(known[0], begin), max(known[1], end)
    for fault in faults:
        for name in fault.components if fault.at_ms is not None else ():
            found.setdefault(name, whole)
    for name, killed_ms in _killed(faults):
        begin, end = found[name]
        if name.startswith("executor ") and begin < killed_ms < end:
            found[name] = begin, killed_ms
    tracks = [ComponentTrack(name=name, spans=[found[name]]) for name in sorted(found, key=_order)]
    for track in tracks:
        if track.name == "driver":
            track.spans = _restarted(
                whole, [at_ms for name, at_ms in _killed(faults) if name == "driver"], begins
            )
    return tracks


def _restarted(whole: Span, killed_ms: Iterable[int], begins: Sequence[int]) -> list[Span]:
    """When a driver was there that was killed at these times: it is back when the first batch after that begins."""
    spans, begin = [], whole[0]
    for at_ms in sorted(killed_ms):
        if begin < at_ms < whole[1]:
            spans.append((begin, at_ms))
            begin = next((one for one in begins if one > at_ms), whole[1])
    return [*spans, (begin, whole[1])]


def _killed(faults: Iterable[FaultView]) -> Iterable[tuple[str, int]]:
    for fault in faults:
        if fault.at_ms is not None and fault.label.startswith(f"{FaultAction.KILL} "):
            yield from ((name, fault.at_ms) for name in fault.components)


def _order(name: str) -> tuple[int, list[int], str]:
    """Brokers, master and workers, the driver, then executors by their numbers."""
    first = 1 if name == "driver" else 2 if name.startswith(("executor", "all executors")) else 0
    parts = name.rpartition(" ")[2].split(":")
    numbers = [int(part) for part in parts if part.isdecimal()]
    return first, [1, *numbers] if len(numbers) == 1 else numbers, name
