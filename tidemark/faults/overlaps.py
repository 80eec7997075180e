"""Faults that overlap: which can be in effect at once, in which order, and why others cannot.

Free of I/O. Each is injected in the same batch while those before it are in effect. Two things make that impossible:
what is in effect may keep the batch from the point of the next, or leave the next without a victim. A schedule that
asks for it is refused, because it would never be injected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidemark.formats.faults import (
    AFTER_COMMIT,
    BROKERS,
    EXECUTOR_STOPPED,
    IN_ROLE,
    NETWORK_ACTIONS,
    POINTS,
    SINK_STEPS,
    CommitPoint,
    FaultAction,
    FaultComponent,
    fault_label,
)

_C, _A, _P = FaultComponent, FaultAction, CommitPoint

SLOWING = (_A.DELAY, _A.JITTER, _A.THROTTLE, _A.LOSS)
"""Of the network: the batch goes on, later."""
MOST_DRIVER_KILLS = 2
"""In one batch: one whose driver dies ``FRUITLESS_RUNS`` times without a commit is given up, by itself or not."""

_ORDER = (_P.PLANNED, _P.HALF_WRITTEN, _P.STATE, _P.SNAPSHOT, *SINK_STEPS, _P.WRITTEN)
_DAEMONS = ((_C.WORKER,), (_C.MASTER,), BROKERS, (_C.REGISTRY,))


class FaultPart(NamedTuple):
    """One of the faults that overlap."""

    component: FaultComponent
    action: FaultAction
    point: CommitPoint

    def __str__(self) -> str:
        action = "" if self.action is _A.KILL else f":{self.action}"
        return f"{self.component}{action}@{self.point}"

    @property
    def label(self) -> str:
        """``kill driver at written``."""
        return f"{fault_label(self.component, self.action)} at {self.point}"

    @property
    def kills_driver(self) -> bool:
        """Whether the batch is run again by another driver after it."""
        return self.component is _C.DRIVER and self.action is _A.KILL

    @property
    def disturbs_executors(self) -> bool:
        """Whether it disturbs what executors exchange with their driver and with each other."""
        return self.component is _C.EXECUTOR and self.action in NETWORK_ACTIONS

    @property
    def holds_batch(self) -> bool:
        """Whether the batch may get no further while it is in effect."""
        if self.component in (*BROKERS, _C.REGISTRY) or self.disturbs_executors:
            return self.action not in SLOWING
        return self.action is _A.PAUSE


class Impossible(NamedTuple):
    """Why faults cannot overlap, and what to write instead."""

    reason: str
    hint: str


def steps(parts: Sequence[FaultPart]) -> list[list[int]]:
    """The numbers of the parts, those together that are injected while the batch is kept at one point.

    A driver's kill ends a step: what follows waits until the batch is run again.
    """
    found: list[list[int]] = [[0]]
    for number in range(1, len(parts)):
        before, part = parts[number - 1], parts[number]
        if before.kills_driver or part.point is not before.point:
            found.append([])
        found[-1].append(number)
    return found


def why_impossible(parts: Sequence[FaultPart]) -> Impossible | None:
    """Why these faults cannot be in effect at once, in this order; ``None`` if they can."""
    if any(part.action is _A.KILL_TWICE for part in parts):
        return Impossible(
            f"{_A.KILL_TWICE} is two faults already",
            f"write it as two kills: {_C.DRIVER}@{_P.WRITTEN}+{_C.DRIVER}@{_P.PLANNED}",
        )
    if after := [part for part in parts if part.point in AFTER_COMMIT]:
        return Impossible(
            f"{after[0]} is injected in a batch that is over", "write it as a fault of its own, after a comma"
        )
    if len({part.point is _P.NO_DATA for part in parts}) > 1:
        return Impossible(
            f"a batch that is at {_P.NO_DATA} reads nothing, and has no other point",
            f"give all of them the point {_P.NO_DATA}, or none",
        )
    if sum(part.kills_driver for part in parts) > MOST_DRIVER_KILLS:
        return Impossible(
            f"the driver is killed more than {MOST_DRIVER_KILLS} times in a batch: a query may be given up for that",
            f"kill it at most {MOST_DRIVER_KILLS} times",
        )
    return next(
        (why for number in range(1, len(parts)) if (why := _why_not_next(parts[:number], parts[number]))),
        None,
    )


def _why_not_next(before: Sequence[FaultPart], part: FaultPart) -> Impossible | None:
    """Why a fault cannot be injected while these are in effect."""
    same_run = _since_last_kill(before)
    past = [one.point for one in before if one.kills_driver and one.point in _ORDER[1:]]
    if past and part.point in EXECUTOR_STOPPED:
        return Impossible(
            f"what was written before a driver was killed at {past[-1]} stays written",
            f"kill it at {_P.PLANNED} first, or take another point than {part.point}",
        )
    moves = before[-1].kills_driver or part.point is not before[-1].point
    holding = next((one for one in before if one.holds_batch), None)
    if moves and holding is not None:
        return Impossible(
            f"while {holding} is in effect the batch does not come to {part}",
            f"give both the same point, or take a fault that lets the batch go on: broker:{SLOWING[0]}",
        )
    if (
        same_run
        and part.point is not _P.NO_DATA
        and _ORDER.index(part.point) < _ORDER.index(same_run[-1].point)
    ):
        return Impossible(
            f"a batch that is at {same_run[-1].point} was at {part.point} before",
            "write them in the order of their points: the first that is injected comes first",
        )
    return _why_no_victim(before, same_run, part)


def _why_no_victim(
    before: Sequence[FaultPart], same_run: Sequence[FaultPart], part: FaultPart
) -> Impossible | None:
    twice = Impossible(
        f"{part.component} has a fault already that is in effect then", "leave out one of the two"
    )
    if part.component is _C.WORKER and any(one.disturbs_executors for one in before):
        return Impossible(
            "the link of a worker that is gone is disturbed by nobody", "leave out one of the two"
        )
    daemon = next((daemon for daemon in _DAEMONS if part.component in daemon), ())
    if any(one.component in daemon for one in before):
        return twice
    if part.component is _C.DRIVER and any(one.component is _C.DRIVER for one in same_run):
        return twice
    if part.disturbs_executors and any(
        one.disturbs_executors or one.component is _C.WORKER for one in before
    ):
        return twice
    if part.component not in (_C.EXECUTOR, _C.EXECUTORS):
        return None
    if any(one.component is _C.EXECUTORS and one.action is _A.KILL for one in same_run):
        return Impossible(
            "no executor is left to be a victim", f"write {part} before what kills the executors"
        )
    paused = [one.component for one in same_run if one.action is _A.PAUSE]
    if part.component is _C.EXECUTORS and part.action is _A.KILL and {_C.EXECUTOR, _C.EXECUTORS} & {*paused}:
        return Impossible(
            "an executor that is paused is killed with all others", f"kill one: {_C.EXECUTOR}@{part.point}"
        )
    return twice if _C.EXECUTORS in paused and part.action is _A.PAUSE else None


def _since_last_kill(before: Sequence[FaultPart]) -> Sequence[FaultPart]:
    """Those of the run of the batch that goes on: after the last kill of a driver."""
    kills = [number for number, one in enumerate(before) if one.kills_driver]
    return before[kills[-1] + 1 :] if kills else before


def can_overlap(parts: Sequence[FaultPart]) -> bool:
    """Whether these faults can be in effect at once, in this order."""
    return why_impossible(parts) is None


def every_fault() -> list[FaultPart]:
    """Every fault at every point at which it can be injected."""
    return [FaultPart(*what, point) for what, points in POINTS.items() for point in points]


def drawn_pairs() -> list[tuple[FaultPart, FaultPart]]:
    """The pairs of faults that a soak draws from: all that can overlap, but for those that mostly miss.

    With an executor gone the others may have all partitions, and then no batch is half written; once one is, its state
    is committed, but with Spark's own sink. Steps of the sink and snapshots are drawn alone: most last for some
    milliseconds, and a batch may be without. So are brokers in a role, which only a stack of several has. The query of
    a soak asks no schema registry.
    """
    alone = (*SINK_STEPS, _P.SNAPSHOT)
    without = (*IN_ROLE, _C.REGISTRY)
    every = [one for one in every_fault() if one.component not in without and one.point not in alone]
    return [
        (first, then)
        for first in every
        for then in every
        if can_overlap([first, then]) and not _mostly_misses(first, then)
    ]


def _mostly_misses(first: FaultPart, then: FaultPart) -> bool:
    """Whether a batch that is at the first seldom comes to the second, if ever."""
    is_short_of_executors = _takes_executors(first) and then.point in EXECUTOR_STOPPED
    # The exactly-once sink writes in a stage of its own: all state is committed by then.
    return is_short_of_executors or (first.point is _P.HALF_WRITTEN and then.point is _P.STATE)


def _takes_executors(part: FaultPart) -> bool:
    killed = part.component in (_C.EXECUTOR, _C.EXECUTORS, _C.WORKER) and part.action is _A.KILL
    return killed and part.point is _P.PLANNED
