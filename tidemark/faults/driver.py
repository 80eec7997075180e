"""Faults in a driver: killed or paused at a commit point of a batch, or killed twice in the same batch."""

from __future__ import annotations

from functools import partial

import msgspec

from tidemark.errors import TidemarkError
from tidemark.faults import commit_points
from tidemark.faults.commit_points import Look, RunningBatch, Unless
from tidemark.faults.executor import kill_executor, stop_executor_at_point
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import (
    AFTER_COMMIT,
    EXECUTOR_STOPPED,
    CommitPoint,
    Fault,
    FaultAction,
)
from tidemark.sparkfiles.eventlog import QueryEvents


def inject_into_driver(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Kill or pause the driver; ``None`` if the batch had passed the point, or never reached it.

    Of a driver that is to be killed twice this is the first kill. ``unless`` raises what ends the wait for its rows.
    """
    spec = fault.spec
    if spec.point in EXECUTOR_STOPPED:
        return _kill_with_executor(target, fault, now, unless=unless)
    proof = stop_driver(target, spec.point, now, unless=unless)
    if proof is None:
        return None
    with commit_points.resuming_on_error(partial(target.stack.resume, target.driver)):
        line = target.injected(fault, now.batch, proof)
        if spec.action is not FaultAction.PAUSE:
            if spec.point is CommitPoint.DELETED_COMMIT:  # before anybody can start the next driver
                _remove_commit(target, now.batch)
                line.proof["commit_removed_utc"] = now_utc()
            target.stack.kill(target.driver)
            return line
        target.rest(spec.duration_s)
        line.ended_at_utc = now_utc()
    target.stack.resume(target.driver)
    return line


def batch_is_rerun(target: FaultTarget, first: Fault) -> bool:
    """Whether the driver that came after the one that was killed runs the batch again: its event log has a job."""
    assert first.batch is not None
    try:
        driver = target.stack.driver(target.driver)
    except TidemarkError:
        return False  # not there yet
    if driver.app_id == first.proof["app_id"] or driver.event_log is None:
        return False
    return QueryEvents(driver.event_log, 0, target.checkpoint.query_id()).job_started(first.batch)


def kill_again(target: FaultTarget, first: Fault) -> Fault | None:
    """Kill the driver that runs the batch again: the one fault that both kills are. ``None`` if it was faster."""
    batch = first.batch
    assert batch is not None
    look: Look = lambda: target.progress.snapshot() if target.checkpoint.running() == batch else None  # noqa: E731
    proof = look_at_driver(target, look)
    if proof is None:
        return None
    with commit_points.resuming_on_error(partial(target.stack.resume, target.driver)):
        both = {**first.proof, "again": target.proof(batch, proof)}
        second = msgspec.structs.replace(first, action=FaultAction.KILL_TWICE, at_utc=now_utc(), proof=both)
        target.stack.kill(target.driver)
    return second


def stop_driver(
    target: FaultTarget, point: CommitPoint, now: RunningBatch, *, unless: Unless
) -> Proof | None:
    """Stop the driver and look; it stays stopped if the batch is at the point, and is resumed otherwise.

    The proof has its ``app_id``.
    """
    if point is CommitPoint.WRITTEN:
        return _stop_written(target, now, unless=unless)
    if point in AFTER_COMMIT:
        return _stop_committed(target, point, now, unless=unless)
    if point is CommitPoint.PLANNED:
        return look_at_driver(target, lambda: commit_points.planned(target, now))
    return look_at_driver(target, lambda: commit_points.no_data(target, now.batch))


def _stop_written(target: FaultTarget, now: RunningBatch, *, unless: Unless) -> Proof | None:
    """Throttle the driver, or else it commits before the rows were seen, until all of them have come.

    Tasks may still need it after the first. A partition without rows never writes, and looks like a late one.
    """
    throttle = _throttle(target)
    look: Look = lambda: _with_app_id(target, commit_points.written(target, now.batch))  # noqa: E731
    return commit_points.throttle_until(target, now, throttle, look, unless)


def _stop_committed(
    target: FaultTarget, point: CommitPoint, now: RunningBatch, *, unless: Unless
) -> Proof | None:
    """Throttle the driver from the first rows on, or else it plans the next batch before it is stopped."""
    throttle = _throttle(target)
    if not commit_points.throttle_until_committed(target, now, throttle, unless):
        return None
    with_rows = point is CommitPoint.DELETED_COMMIT
    proof: Proof | None = None
    try:
        proof = _with_app_id(target, commit_points.committed(target, now.batch, with_rows=with_rows))
    finally:
        if proof is None:
            throttle.resume()
    return proof


def _throttle(target: FaultTarget) -> commit_points.Throttle:
    return commit_points.Throttle(
        partial(target.stack.pause, target.driver), partial(target.stack.resume, target.driver)
    )


def _remove_commit(target: FaultTarget, batch: int) -> None:
    """Remove the entry of a batch from the commit log of a query whose driver is stopped, with Hadoop's checksum."""
    commits = target.checkpoint.path / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def look_at_driver(target: FaultTarget, look: Look) -> Proof | None:
    """Stop the driver, and look. It stays stopped if that gives a proof, and is resumed otherwise."""
    proof: Proof | None = None
    target.stack.pause(target.driver)
    try:
        proof = _with_app_id(target, look())
    finally:
        if proof is None:
            target.stack.resume(target.driver)
    return proof


def _with_app_id(target: FaultTarget, proof: Proof | None) -> Proof | None:
    return None if proof is None else {"app_id": target.stack.driver(target.driver).app_id, **proof}


def _kill_with_executor(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Kill the driver, and the executor that keeps the batch at its point: left alone it would go on writing."""
    stopped = stop_executor_at_point(target, fault, now, unless=unless)
    if stopped is None:
        return None
    with commit_points.resuming_on_error(stopped.resume):
        proof = look_at_driver(target, stopped.look)
    if proof is None:
        stopped.resume()
        return None
    executor = stopped.executor
    with (
        commit_points.resuming_on_error(stopped.resume),
        commit_points.resuming_on_error(partial(target.stack.resume, target.driver)),
    ):
        line = target.injected(fault, now.batch, {"executor_id": executor.executor_id, **proof})
        kill_executor(target, executor, fault.spec.point)
        target.stack.kill(target.driver)
    return line
