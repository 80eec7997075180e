"""Faults in what a query runs on: a broker, worker or master killed or paused, and back after the outage.

The driver is suspended while it is looked whether the batch is at its point, so that the component goes in the middle
of it; with the batch half written an executor is stopped, too, whose partitions then cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.driver import stop_driver
from tidemark.faults.executor import stop_executor_at_point
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import CommitPoint, Fault, FaultAction
from tidemark.stack import ComponentKind, Stack

Effect = Callable[[str], object]


def effects(stack: Stack, action: FaultAction) -> tuple[Effect, Effect]:
    """How an outage begins, and how it ends."""
    known: dict[FaultAction, tuple[Effect, Effect]] = {
        FaultAction.KILL: (stack.kill, stack.start),
        FaultAction.PAUSE: (stack.pause, stack.resume),
    }
    return known[action]


def inject_into_component(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Inject a fault into one of the components of that kind; ``None`` if the batch had passed the point."""
    spec = fault.spec
    victim = fault.choose(target.stack.components(ComponentKind(spec.component)))
    with ExitStack() as outage:
        with at_point(target, fault, now, unless=unless) as proof:
            if proof is None:
                return None
            line = target.injected(fault, now.batch, {"component_name": victim, **proof})
            begin, end = effects(target.stack, spec.action)
            begin(victim)
            outage.callback(end, victim)
        target.rest(spec.duration_s)
        line.ended_at_utc = now_utc()
    return line


@contextmanager
def at_point(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Iterator[Proof | None]:
    """The batch kept at its point for the length of the block; gives the proof, ``None`` if it is not there."""
    point = fault.spec.point
    if point is CommitPoint.HALF_WRITTEN:
        stopped = stop_executor_at_point(target, fault, now, unless=unless)
        if stopped is None:
            yield None
            return
        try:
            with target.stack.suspended(target.driver):
                # It may be over: the others have written, and the partitions of the stopped executor had no rows.
                runs = target.checkpoint.running() == now.batch
                yield {"executor_id": stopped.executor.executor_id, **stopped.proof} if runs else None
        finally:
            stopped.resume()
    elif point is CommitPoint.WRITTEN:
        written = stop_driver(target, point, now, unless=unless)
        try:
            yield written
        finally:
            if written is not None:
                target.stack.resume(target.driver)
    else:
        with commit_points.driver_suspended(target, fault, now.batch, unless) as proof:
            yield proof
