"""Commit points: bring a batch to one, look, and say what was seen.

A point is made, not hit by chance. ``written``: the driver is throttled while the batch runs (:class:`Throttle`), or it
would commit before the rows were seen, and is looked at while it is stopped (SIGSTOP); executors finish and write, and
the driver cannot record it. ``half-written``: one executor is throttled, and the others write first. ``state``,
``snapshot``, ``rows-sent`` and ``entry-sent``: one executor is throttled until one of its tasks has committed some of
its state stores, it writes a snapshot of one, or a task has rows or a ledger entry in a transaction that is open.
``planned`` and ``no-data``: the driver is stopped as soon as the batch is planned. Then what the point needs is read
(checkpoint, state files, ledger, offsets), and a fault is injected only if that shows the point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tidemark.errors import DeadlineExceeded
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget
from tidemark.formats.faults import OF_TRANSACTION, CommitPoint
from tidemark.sparkfiles.state_files import half_committed, snapshots_begun
from tidemark.waiting import pause, wait_until

BATCH_S = 120.0
"""Calibration: a batch takes about 1 s, with an executor that has to be replaced 30 s."""

LATE_S = 15.0
"""Calibration: partitions of a batch write within 1 s of one another, under a throttle within several; one without
rows never writes."""

FINISH_S = 3.0
"""Calibration: executors finish a batch's tasks within 1 s, if they do not need the driver any more."""

STILL_S = 0.3
"""Calibration: a task that a stopped driver had launched already writes its first row within 0.1 s."""

RUN_S, STOP_S = 0.01, 0.04
"""Calibration: tasks that start together are done within 20 ms of one another; at a fifth of its speed one takes some
hundred milliseconds longer than another."""

STEP_RUN_S = 0.001
"""Calibration: a snapshot, or an open transaction, lasts for some milliseconds; in steps of 3 ms, beside other work,
two of five runs of ``tests/chaos/test_points_in_sink.py`` and ``test_points_in_state.py`` met none.
"""

ENDS_POLL_S = 0.002
"""Calibration: the end offsets cost a broker a fraction of a millisecond."""

STILL_POLL_S = 0.03
"""How often to check that nothing moves while the driver is stopped."""

Ends = dict[int, int]
Unless = Callable[[], object]
Look = Callable[[], Proof | None]


class RunningBatch(NamedTuple):
    """A batch that was seen running, and the end offsets of the output just before it was planned.

    ``ends`` is ``None`` if they were not read then: it cannot be shown that nothing of the batch has been written.
    """

    batch: int
    ends: Ends | None


class Throttle:
    """Lets a process run for a moment at a time. It runs at first."""

    def __init__(self, stop: Callable[[], object], resume: Callable[[], object]) -> None:
        self._stop = stop
        self._resume = resume
        self._is_stopped = False

    def step(self, run_s: float = RUN_S) -> None:
        """Let it run for a moment, and stop it again."""
        self.resume()
        pause(run_s)
        self.stop()

    def stop(self) -> None:
        """Stop it, if it runs."""
        if not self._is_stopped:
            self._stop()
            self._is_stopped = True

    def resume(self) -> None:
        """Resume it, if it is stopped."""
        if self._is_stopped:
            self._resume()
            self._is_stopped = False


@contextmanager
def resuming_on_error(resume: Callable[[], object]) -> Iterator[None]:
    """For a process that is stopped already: an error in the block resumes it before the error is passed on."""
    try:
        yield
    except BaseException:
        resume()
        raise


@contextmanager
def driver_suspended(
    target: FaultTarget, fault: PlannedFault, batch: int, unless: Unless, *, is_rerun: bool = False
) -> Iterator[Proof | None]:
    """After the fault's delay, the driver suspended for the length of the block; gives the proof of the point.

    For ``planned``: that the batch runs, reads something, and by the sink's ledger is not written by all partitions,
    unless by the driver before (``is_rerun``); for ``no-data``: that it runs, and reads nothing. ``None`` if it does
    not.
    """
    unless()
    target.rest(fault.delay_s)
    unless()
    with target.stack.suspended(target.driver):
        if fault.spec.point is CommitPoint.NO_DATA:
            yield no_data(target, batch)
        else:
            proof = target.progress.snapshot() if _runs(target, batch, with_data=True) else None
            yield proof if is_rerun or not _is_written(proof, batch) else None


def _is_written(proof: Proof | None, batch: int) -> bool:
    """Whether a ledger shows that nothing of a batch is left to be written."""
    return proof is not None and set(proof.get("ledger", {}).values()) == {batch + 1}


def planned(target: FaultTarget, now: RunningBatch) -> Proof | None:
    """With the driver stopped: whether a batch with data runs, and nothing of it has been written."""
    if now.ends is None or not _runs(target, now.batch, with_data=True):
        return None
    deadline = time.monotonic() + STILL_S
    while time.monotonic() < deadline:
        if target.checkpoint.running() != now.batch or target.progress.ends() != now.ends:
            return None
        pause(STILL_POLL_S)
    return target.progress.snapshot()


def no_data(target: FaultTarget, batch: int) -> Proof | None:
    """With the driver stopped: whether a batch runs that reads nothing."""
    if not _runs(target, batch, with_data=False):
        return None
    offsets = target.checkpoint.batch(batch).end_offsets
    return {"end_offsets": offsets, **target.progress.snapshot()}


def written(target: FaultTarget, batch: int) -> Proof | None:
    """With the driver stopped: whether all is written and nothing committed. It waits for executors to finish."""
    return _progress_of(target, batch, target.progress.written)


def half_written(target: FaultTarget, batch: int) -> Proof | None:
    """With an executor stopped: whether some partitions have written and no other one does."""
    return _progress_of(target, batch, target.progress.half_written)


def state_half_committed(target: FaultTarget, batch: int) -> Proof | None:
    """With an executor stopped: whether some state stores of a partition have committed a batch, and others do not."""
    kept = _kept(target, batch, half_committed)
    return {"state": kept, **target.progress.snapshot()} if kept else None


def snapshot_begun(target: FaultTarget, batch: int) -> Proof | None:
    """With an executor stopped: whether a snapshot of a state store is being written, and is not finished."""
    kept = _kept(target, batch, lambda path, number: dict.fromkeys(snapshots_begun(path, number), "begun"))
    return {"snapshots": list(kept), **target.progress.snapshot()} if kept else None


def _kept(
    target: FaultTarget, batch: int, look: Callable[[Path, int], Mapping[str, object]]
) -> dict[str, object]:
    """What a checkpoint shows of a running batch twice: in between another executor has finished its own."""
    seen = look(target.checkpoint.path, batch)
    if not seen:
        return {}
    pause(STILL_S)
    still = look(target.checkpoint.path, batch)
    kept = {name: value for name, value in still.items() if seen.get(name) == value}
    return kept if target.checkpoint.running() == batch else {}


def in_transaction(target: FaultTarget, point: CommitPoint, now: RunningBatch) -> Proof | None:
    """With an executor stopped: whether a task of a batch has sent rows or its entry, and has not committed them."""
    look = partial(target.progress.in_transaction, point, now.batch, now.ends or {})
    seen = look()
    if seen is None:
        return None
    pause(STILL_S)  # by then another executor, which runs, has committed its own
    still = look()
    is_there = still is not None and target.checkpoint.running() == now.batch
    return still if is_there else None


def with_executor_stopped(target: FaultTarget, point: CommitPoint, now: RunningBatch) -> Proof | None:
    """With an executor stopped: whether a batch is at one of the points that keeps it there."""
    if point in OF_TRANSACTION:
        return in_transaction(target, point, now)
    looks = {CommitPoint.STATE: state_half_committed, CommitPoint.SNAPSHOT: snapshot_begun}
    return looks.get(point, half_written)(target, now.batch)


def committed(target: FaultTarget, batch: int, *, with_rows: bool) -> Proof | None:
    """With the driver stopped: whether a batch with data is committed, and the next one not planned.

    ``with_rows``: and every sink partition has written rows of it, which the proof counts.
    """

    def is_there() -> bool:
        planned = target.checkpoint.planned()
        return batch in target.checkpoint.committed() and planned[-1] == batch

    if not is_there() or not target.carries_data(batch):
        return None
    if not with_rows:
        return target.progress.snapshot()
    proof = _awaited(lambda: target.progress.written(batch))
    return proof if is_there() else None


def _runs(target: FaultTarget, batch: int, *, with_data: bool) -> bool:
    return target.checkpoint.running() == batch and target.carries_data(batch) is with_data


def _progress_of(target: FaultTarget, batch: int, look: Callable[[int], Proof | None]) -> Proof | None:
    if target.checkpoint.running() != batch:
        return None
    proof = _awaited(lambda: look(batch))
    return proof if target.checkpoint.running() == batch else None


def _awaited(look: Look) -> Proof | None:
    try:
        return wait_until(look, FINISH_S, lambda: "the batch's rows in the output", poll_s=0.02)
    except DeadlineExceeded:
        return None


def throttle_until_committed(
    target: FaultTarget, now: RunningBatch, throttle: Throttle, unless: Unless
) -> bool:
    """Throttle a driver from the first rows of a batch until it is committed; it is stopped then.

    ``False``, and it is resumed, if that does not come. The next batch is planned some milliseconds later at the
    earliest, after its end offsets were fetched. An error resumes the driver, too.
    """

    def is_committed() -> bool:
        return now.batch in target.checkpoint.committed()

    def stepped() -> bool:
        throttle.step()
        return is_committed()

    with resuming_on_error(throttle.resume):
        try:
            wait_until(
                lambda: target.progress.ends() != now.ends or is_committed(), BATCH_S,
                lambda: "rows in the output", unless=unless, poll_s=ENDS_POLL_S,
            )  # fmt: skip
            return wait_until(stepped, BATCH_S, lambda: "the commit", unless=unless, poll_s=0.0)
        except DeadlineExceeded:
            throttle.resume()
            return False


def throttle_finely_until(
    target: FaultTarget, now: RunningBatch, throttle: Throttle, look: Look, unless: Unless
) -> Proof | None:
    """Throttle an executor, and look after each step of some milliseconds; it stays stopped once that gives a proof.

    ``None``, and it is resumed, if the batch was over before. An error resumes it, too.
    """

    def stepped() -> Proof | bool | None:
        throttle.step(STEP_RUN_S)
        return target.checkpoint.running() != now.batch or look()

    with resuming_on_error(throttle.resume):
        try:
            found = wait_until(stepped, BATCH_S, lambda: "the batch at its point", unless=unless, poll_s=0.0)
        except DeadlineExceeded:
            found = None
        if isinstance(found, dict):
            return found
    throttle.resume()
    return None


def throttle_until(
    target: FaultTarget, now: RunningBatch, throttle: Throttle, look: Look, unless: Unless
) -> Proof | None:
    """Throttle a process, and look each time that rows have come; it stays stopped once ``look`` gives a proof.

    ``None``, and it is resumed, if the batch was over before, or no more rows came. An error resumes it, too.
    """
    within = BATCH_S
    with resuming_on_error(throttle.resume):
        while _moves(target, now, throttle, unless, within):
            now, within = now._replace(ends=target.progress.ends()), LATE_S
            if proof := look():
                return proof
    throttle.resume()
    return None


def _moves(target: FaultTarget, now: RunningBatch, throttle: Throttle, unless: Unless, within: float) -> bool:
    """Throttle a process until the output's ends differ from those in ``now``; false if the batch was over before.

    The ends are read while it is stopped, however long that takes on a busy machine: it runs for a moment in between.
    """
    over = False

    def moved() -> bool:
        nonlocal over
        throttle.step()
        stop_ends = time.monotonic() + STOP_S
        while True:
            over = target.checkpoint.running() != now.batch
            if over or target.progress.ends() != now.ends:
                return True
            if time.monotonic() >= stop_ends:
                return False
            pause(ENDS_POLL_S)

    try:
        wait_until(moved, within, lambda: "rows in the output", unless=unless, poll_s=0.0)
    except DeadlineExceeded:
        return False
    return not over
