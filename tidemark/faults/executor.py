"""Faults in executors: one killed or paused, or all killed, while a batch runs or with a batch half written.

The driver is suspended (SIGSTOP loses nothing) before it is looked whether the batch is still at its point, so that it
cannot commit meanwhile; for the points that an executor keeps it is stopped before, so that its partitions are not
written, their state is not committed, or their transactions stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tidemark.errors import DaemonDied
from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.held_tasks import at_step, held_task
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import (
    EXECUTOR_STOPPED,
    SINK_STEPS,
    TASK_HELD,
    CommitPoint,
    Fault,
    FaultAction,
    FaultComponent,
)
from tidemark.stack import ComponentState, Executor


@dataclass(frozen=True)
class StoppedExecutor:
    """One that is stopped with its batch at a point: ``proof`` shows that, ``look`` whether it is still so."""

    executor: Executor
    proof: Proof
    resume: Callable[[], object]
    look: commit_points.Look


def inject_into_executors(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Kill or pause one executor, or kill all; ``None`` if the batch had passed the point, or there is no executor."""
    spec = fault.spec
    with _at_point(target, fault, now, unless=unless) as (victims, proof):
        if not victims or proof is None:
            return None
        line = target.injected(fault, now.batch, {**identity(spec.component, victims), **proof})
        is_over = line.proof["committed"]  # by the others, just now: the victim's partitions had no rows
        if not is_over and spec.action is FaultAction.KILL:
            for victim in victims:
                kill_executor(target, victim, spec.point)
        elif not is_over and spec.point not in EXECUTOR_STOPPED and not pause_executors(target, victims):
            return None  # one has just ended; at the other points it is stopped already
    if is_over:
        _resume(target, victims)
        return None
    if spec.action is FaultAction.PAUSE:
        try:
            target.rest(spec.duration_s)
            line.ended_at_utc = now_utc()
        finally:
            _resume(target, victims)
    return line


@contextmanager
def _at_point(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Iterator[tuple[list[Executor], Proof | None]]:
    """The driver suspended with the batch at its point: the victims, and the proof; ``None`` if it is not there.

    At a point that an executor keeps, the victim is stopped already; an error resumes it.
    """
    spec, driver = fault.spec, target.driver
    if spec.point in EXECUTOR_STOPPED:
        stopped = stop_executor_at_point(target, fault, now, unless=unless)
        if stopped is None:
            yield [], None
            return
        with commit_points.resuming_on_error(stopped.resume), target.stack.suspended(driver):
            yield [stopped.executor], stopped.proof
        return
    with commit_points.driver_suspended(target, fault, now.batch, unless) as proof:
        alive = target.stack.executors(driver)
        victims = alive if spec.component is FaultComponent.EXECUTORS or not alive else [fault.choose(alive)]
        yield victims, proof


def stop_executor_at_point(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> StoppedExecutor | None:
    """Throttle one executor; it stays stopped as soon as the batch is at the point of the fault.

    That is: others have written and it has not; one of its tasks has committed some state stores and not all, has sent
    rows or its ledger entry and has not committed them, or is at another step of the sink; or it writes a snapshot of a
    store.

    ``None``, and it is resumed, if the batch was over without that. It may have had none of the partitions: a join's
    tasks go where their state is, which after an executor's death is all with the other.
    """
    if fault.spec.point in TASK_HELD:
        return _stop_with_held_task(target, fault.spec.point, now, unless)
    stack, driver = target.stack, target.driver
    alive = stack.executors(driver)
    if not alive:
        return None
    victim = fault.choose(alive)
    resume = partial(stack.resume_executor, driver, victim)
    throttle = commit_points.Throttle(partial(_pause, target, victim), resume)
    look = partial(commit_points.with_executor_stopped, target, fault.spec.point, now)
    is_coarse = fault.spec.point is CommitPoint.HALF_WRITTEN
    until = commit_points.throttle_until if is_coarse else commit_points.throttle_finely_until
    try:
        proof = until(target, now, throttle, look, unless)
    except _Ended:
        return None
    return None if proof is None else StoppedExecutor(victim, proof, resume, look)


def _stop_with_held_task(
    target: FaultTarget, point: CommitPoint, now: RunningBatch, unless: Unless
) -> StoppedExecutor | None:
    """Stop the executor of the first task that comes to a step of the sink, where it waits until that is done."""
    stack, driver = target.stack, target.driver
    with held_task(target, point, now.batch, unless) as held:
        alive = {executor.executor_id: executor for executor in stack.executors(driver)}
        victim = None if held is None else alive.get(held["executor_id"])
        if held is None or victim is None or not pause_executors(target, [victim]):
            return None
    resume = partial(stack.resume_executor, driver, victim)
    look = partial(at_step, target, point, now.batch, held)
    proof: Proof | None = None
    try:
        proof = look()
    finally:
        if proof is None:
            resume()
    return None if proof is None else StoppedExecutor(victim, proof, resume, look)


class _Ended(Exception):
    """An executor has ended, after an earlier fault, just before it was to be paused."""


def pause_executors(target: FaultTarget, victims: Sequence[Executor]) -> bool:
    """Pause them; ``False``, and none is paused, if one has just ended. An error leaves none paused, either."""
    paused = list[Executor]()
    try:
        for victim in victims:
            _pause(target, victim)
            paused.append(victim)
    except BaseException as error:
        _resume(target, paused)
        if isinstance(error, _Ended):
            return False
        raise
    return True


def _pause(target: FaultTarget, victim: Executor) -> None:
    try:
        target.stack.pause_executor(target.driver, victim)
    except DaemonDied as error:
        if target.stack.executor_state(victim) is ComponentState.STOPPED:
            raise _Ended from error
        raise


def kill_executor(target: FaultTarget, victim: Executor, point: CommitPoint) -> None:
    """Kill an executor; at a step of the sink with its Python workers, which would go on."""
    target.stack.kill_executor(target.driver, victim, with_workers=point in SINK_STEPS)


def identity(component: FaultComponent, victims: list[Executor]) -> Proof:
    """Who the victims are, for the proof."""
    if component is FaultComponent.EXECUTORS:
        return {"executor_ids": [victim.executor_id for victim in victims]}
    [victim] = victims
    return {"executor_id": victim.executor_id, "worker": victim.worker, "pid": victim.pid}


def _resume(target: FaultTarget, victims: Sequence[Executor]) -> None:
    for victim in victims:
        target.stack.resume_executor(target.driver, victim)
