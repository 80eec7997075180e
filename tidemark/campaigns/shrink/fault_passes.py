"""The passes over faults: each left out, how often one comes with it, then point, second kill and duration.

Free of Kafka and Spark. A fault is one word of a schedule with the count 1: one that is asked for three times is there
three times, so that its count becomes smaller as faults are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.campaigns.shrink.shrinker import Pass, Removal, Rewrite
from tidemark.faults.overlaps import can_overlap
from tidemark.faults.schedule import FaultSpec, read_schedule, write_schedule
from tidemark.formats.faults import POINTS, FaultAction


def fault_passes() -> list[Pass[Shrinkable]]:
    """All of them, coarse to fine."""
    return [
        Removal("faults", lambda one: one.faults, _without_faults),
        Rewrite("point and duration of faults", _simpler_faults),
    ]


def single_faults(schedule: str) -> tuple[str, ...]:
    """The faults of a schedule, each by itself."""
    return tuple(str(replace(spec, count=1)) for spec in read_schedule(schedule) for _ in range(spec.count))


def schedule_of(faults: Sequence[str]) -> str:
    """The schedule of single faults, with counts."""
    return write_schedule(read_schedule(",".join(faults)))


def _without_faults(one: Shrinkable, gone: frozenset[int]) -> Shrinkable:
    return replace(one, faults=tuple(fault for at, fault in enumerate(one.faults) if at not in gone))


def _simpler_faults(one: Shrinkable) -> Iterator[Shrinkable]:
    for at, fault in enumerate(one.faults):
        [spec] = read_schedule(fault)
        for simpler in _simpler(spec):
            yield replace(one, faults=(*one.faults[:at], str(simpler), *one.faults[at + 1 :]))


def _simpler(spec: FaultSpec) -> Iterator[FaultSpec]:
    """Changes of one fault, one each; of faults that overlap those that are left without one of them come first."""
    if spec.beside:
        yield from _fewer(spec)
        return
    if spec.action is FaultAction.KILL_TWICE:
        yield replace(spec, action=FaultAction.KILL)
    points = POINTS[spec.component, spec.action]
    yield from (replace(spec, point=point) for point in points[: points.index(spec.point)])
    if spec.duration_s != FaultSpec.duration_s:
        yield replace(spec, duration_s=FaultSpec.duration_s)


def _fewer(spec: FaultSpec) -> Iterator[FaultSpec]:
    """Each of the faults that overlap left out, if the others still can."""
    parts = spec.parts
    for gone in range(len(parts)):
        first, *rest = (part for at, part in enumerate(parts) if at != gone)
        fewer = replace(first, beside=tuple(rest))
        if not rest or can_overlap(fewer.as_parts):
            yield fewer
