"""The fault injector: injects planned faults, one after the other, in a thread while a trace is published.

The publisher asks now and then whether the thread failed, and publishes only while it is armed: a batch that comes
while it still looks at the one before is lost to it. A fault whose batch was past the point is tried again in the next
batch. The next fault waits until the batch that was hit is committed. The journal has the proof of each; a fault that
could not be injected before the run was over is in it as not injected, with the batches in which it was tried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime

import msgspec

from tidemark.errors import DeadlineExceeded, QueryHung, SinkFailed, TidemarkError
from tidemark.faults.commit_points import Ends, RunningBatch
from tidemark.faults.component import inject_into_component
from tidemark.faults.driver import batch_is_rerun, inject_into_driver, kill_again
from tidemark.faults.executor import inject_into_executors
from tidemark.faults.joint_injection import JointHooks, JointInjection, note_end
from tidemark.faults.network import forget_traffic, inject_into_network, note_traffic
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import by_partition
from tidemark.faults.target import FaultTarget, journal_line
from tidemark.formats.faults import BROKERS, CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.waiting import wait_until

RECOVERY_S = 240.0
"""Calibration: a batch whose executor or driver was killed took up to 40 s on a busy machine; several times that."""

BATCH_S = 900.0
"""Calibration: a job may take ten minutes to plan its first batch on an overloaded machine (``runner.app_query``)."""

STANDBY_S = 240.0
"""Calibration: a standby takes 10 s, on a busy machine several times that. Shorter than the feed waits meanwhile."""

ENDED_S = 60.0
"""Calibration: a broker that was killed is back after some seconds."""

LOG_LINES = 20
"""Of the driver's log, in the error that nothing was committed."""

MOST_TRIES = 12
"""In so many batches a fault is tried while others wait. Calibration: most are injected in the first that they can be,
and one batch in two is without data, where a point of a batch with data cannot be met, or the other way round."""

_INJECT = {
    FaultComponent.DRIVER: inject_into_driver,
    FaultComponent.EXECUTOR: inject_into_executors,
    FaultComponent.EXECUTORS: inject_into_executors,
    FaultComponent.WORKER: inject_into_component,
    FaultComponent.MASTER: inject_into_component,
    **dict.fromkeys((*BROKERS, FaultComponent.REGISTRY), inject_into_component),
}


class FaultInjector:
    """Injects faults into one query."""

    def __init__(
        self,
        target: FaultTarget,
        faults: Sequence[PlannedFault],
        say: Callable[[str], object] = lambda _text: None,
        recovery_s: float = RECOVERY_S,
    ) -> None:
        """``recovery_s`` is how long a batch may take after a fault until the query counts as hung (``QueryHung``)."""
        self._recovery_s = recovery_s
        self.journal: list[Fault] = []
        self.planned = len(faults)
        self.waits_for = ""
        """What its thread waits for; nothing, once it has ended."""
        self._completed = 0
        self._is_journaled = False
        """Whether the next fault was injected already, and its recovery is awaited."""
        self._tried: list[dict[str, float]] = []
        """Of the next fault: in which batch it was tried, and for how long."""
        self.error: Exception | None = None
        """What ended the thread before its work was done."""
        self._ends: dict[int, Ends] = {}
        """Batch -> where the output ended just before it was planned; of the latest batch and the next."""
        self._aborted = threading.Event()
        self._armed = threading.Event()
        self._target = replace(target, rest=self._rest)
        self._faults = faults
        self._say = say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-injector", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def check(self) -> None:
        """Raise what ended the thread before its work was done: a component that did not come back, say."""
        if self.error is not None:
            raise self.error

    def is_armed(self) -> bool:
        """Whether it waits for a batch, or for the end of an outage; true as well once the thread has ended."""
        return self._armed.is_set()

    def abort(self) -> None:
        """The run ends here: what is paused or down for some seconds comes back at once."""
        self._aborted.set()
        self._over.set()

    def finish(self) -> list[Fault]:
        """End the thread; returns the journal."""
        self._over.set()
        try:
            self._thread.join()
        except BaseException:  # Ctrl-C: what lasts ends before the journal does
            self.abort()
            self._thread.join(ENDED_S)
            raise
        finally:
            if self._is_journaled:
                self._completed += 1
                self._forget_tries()
            for fault in self._faults[self._completed :]:
                self._journal_missed(fault)
                self._forget_tries()
            forget_traffic(self._target, [fault.spec for fault in self._faults])
        return self.journal

    def _run(self) -> None:
        try:
            for number, fault in enumerate(self._faults, 1):
                try:
                    batch = self._inject(fault, others_wait=number < len(self._faults))
                except _GivenUp:
                    self._journal_missed(fault)
                    self._say(f"{fault.spec.once} was tried in {MOST_TRIES} batches, and was not injected")
                    self._completed += 1
                    self._forget_tries()
                    continue
                self._completed += 1
                self._forget_tries()
                self._repeat(fault, batch)
        except _Over:
            return
        except Exception as error:  # noqa: BLE001 (handed to the runner, which decides; a thread has nobody to raise to)
            self.error = error
        finally:
            self.waits_for = ""
            self._armed.set()

    def _journal_missed(self, fault: PlannedFault) -> None:
        """Journal a fault that was not injected, with where it was tried."""
        tried = {"tried": self._tried} if self._tried else {}
        typed = str(fault.spec.once) if fault.spec.beside else None
        for part in fault.spec.parts:
            line = journal_line(fault.of_part(part), injected=False, proof=tried)
            self.journal.append(msgspec.structs.replace(line, together=typed))
            tried = {}

    def _rest(self, seconds: float) -> None:
        self._armed.set()
        self._aborted.wait(seconds)
        self._armed.clear()

    def _forget_tries(self) -> None:
        self._is_journaled = False
        self._tried = []

    def _repeat(self, fault: PlannedFault, first: int) -> None:
        """Inject a fault again and again, if it has to be repeated until something holds; a run may end before."""
        until, begun_s, latest = fault.spec.until, time.monotonic(), first

        def batches() -> int:
            return max(self._target.checkpoint.committed(), default=first) - first

        try:
            while until is not None and not until.holds(time.monotonic() - begun_s, batches()):
                latest = self._inject(replace(fault, batch=latest + 1))
        finally:
            self._forget_tries()

    def _inject(self, fault: PlannedFault, *, others_wait: bool = False) -> int:
        """Try batch after batch until the fault is injected, and in the journal with its recovery; in which it was.

        Raises ``_GivenUp`` after ``MOST_TRIES`` of them if other faults wait for their turn.
        """
        not_before, is_complete, waits_for_standby = fault.batch, False, fault.spec.kills_driver
        note_traffic(self._target, fault.spec)
        while not is_complete:
            if others_wait and len(self._tried) >= MOST_TRIES:
                raise _GivenUp
            waits_for_standby = waits_for_standby and self._await_standby()
            now = self._await_batch(not_before)
            if fault.spec.beside:
                is_complete = self._inject_together(fault, now)
                not_before = now.batch + 1
                fault = fault.retry()
                continue
            line: Fault | None = None
            # Brokers that are just back may not answer yet; they will, in a later batch.
            with self._noting_try(now.batch), suppress(SinkFailed):
                of_component = _INJECT[fault.spec.component]
                inject = inject_into_network if fault.spec.is_of_network else of_component
                line = inject(self._target, fault, now, unless=self._raise_if_over)
            if line is not None:
                is_complete = self._journal_recovery(line, fault, now)
            not_before = now.batch + 1
            fault = fault.retry()
        return not_before - 1

    def _inject_together(self, fault: PlannedFault, now: RunningBatch) -> bool:
        """Inject faults that overlap, and journal their recovery; whether all of them were, at the same instant."""
        hooks = JointHooks(self.journal, self._raise_if_over, self._until_recovered)
        joint = JointInjection(self._target, fault, now, hooks)
        is_complete = False
        with self._noting_try(now.batch), suppress(SinkFailed):
            is_complete = joint.inject()
        if not joint.lines:
            return False
        self._is_journaled = is_complete
        said = str(fault.spec.once) if is_complete else " and ".join(line.label for line in joint.lines)
        self._say(f"{said}, in batch {now.batch}")
        committed_at = self._await_commit(joint.lines, now.batch, said)
        note_end(joint.lines, committed_at.isoformat(timespec="milliseconds"))
        return is_complete

    @contextmanager
    def _noting_try(self, batch: int) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._tried.append({"batch": batch, "seconds": round(time.monotonic() - begun, 2)})

    def _journal_recovery(self, line: Fault, fault: PlannedFault, now: RunningBatch) -> bool:
        """Journal a fault, and its recovery; whether all of it was injected: a second kill may have come too late."""
        line.proof["ends_before"] = by_partition(now.ends or {})
        is_complete = True
        if fault.spec.action is FaultAction.KILL_TWICE:
            line, is_complete = self._second_kill(msgspec.structs.replace(line, action=FaultAction.KILL))
            self._is_journaled = is_complete
        else:
            self.journal.append(line)
            self._is_journaled = True
        self._say(f"{line.label} at {line.point} of batch {now.batch}")
        self._await_commit([line], now.batch, line.label)
        return is_complete

    def _await_commit(self, lines: Sequence[Fault], batch: int, said: str) -> datetime:
        """Wait for the commit of a batch that was hit, and note the recovery; returns when it was."""

        if lines[0].point is CommitPoint.COMMITTED:
            batch += 1  # what was hit is done; the next one comes when the next slice does
            self._armed.set()

        def committed() -> bool:
            self._note_ends()  # in a backlog the next batch is planned within milliseconds of the commit
            return batch in self._target.checkpoint.committed()

        recovered = f"batch {batch} to be committed after {said}"
        self._until_recovered(committed, recovered)
        self._armed.clear()
        # By the file, because an outage may outlast the batch: the component was not needed for it.
        committed_at = self._target.checkpoint.committed_at(batch)
        ends_after = by_partition(self._target.progress.ends())
        for line in lines:
            line.recovery_s = _seconds_since(line.at_utc, committed_at)
            if "healed_at_utc" in line.proof:
                healed_at = line.proof["healed_at_utc"]
                line.proof["committed_after_heal_s"] = _seconds_since(healed_at, committed_at)
            line.proof["ends_after"] = ends_after
            if line.killed(FaultComponent.DRIVER):
                line.proof["recovered_on"] = self._target.driver
        first_s = max(line.recovery_s or 0.0 for line in lines)
        self._say(f"batch {batch} is committed, {first_s:.1f} s after {said}")
        return committed_at

    def _second_kill(self, first: Fault) -> tuple[Fault, bool]:
        """Kill the next driver, too; whether it was in time. Until then the journal has the first kill alone."""
        self.journal.append(first)
        self._until_recovered(
            lambda: batch_is_rerun(self._target, first),
            f"the driver after {first.proof['app_id']} to run batch {first.batch} again",
        )
        second: Fault | None = None
        with suppress(SinkFailed):
            second = kill_again(self._target, first)
        if second is None:
            return first, False
        self.journal[-1] = second
        return second, True

    def _await_standby(self) -> bool:
        """Wait until a driver that is killed has one that follows; whether it is worth to wait for it again."""
        try:
            self._until(self._target.standby_is_settled, "the standby of the driver", STANDBY_S)
        except DeadlineExceeded:
            self._say(
                f"the next fault in the driver does not wait: its standby took more than {STANDBY_S:g} s"
            )
            return False
        return True

    def _await_batch(self, not_before: int) -> RunningBatch:
        """The first batch from ``not_before`` on that runs, and where the output ended just before it was planned."""

        def running() -> int:
            """Its id plus one, so that it is truthy."""
            self._note_ends()
            batch = self._target.checkpoint.running()
            if batch is not None and batch >= not_before:
                return batch + 1
            self._armed.set()
            return 0

        # Longer than the feed waits: it has published the records of this batch, and reports a query that hung.
        longest_s = max(BATCH_S, 2 * self._recovery_s)
        while True:
            latest = self._latest()
            try:
                found = self._until(running, "a running batch", longest_s) - 1
                break
            except DeadlineExceeded:  # of one that is far off others come first
                if self._latest() == latest:
                    raise
        self._armed.clear()
        return RunningBatch(found, self._ends.get(found))

    def _latest(self) -> tuple[list[int], list[int]]:
        """The latest batch that is planned, and the latest that is committed."""
        return self._target.checkpoint.planned()[-1:], self._target.checkpoint.committed()[-1:]

    def _note_ends(self) -> None:
        """Note where the output ends, for the batch that is planned next.

        The ends are read first: a batch that is not in the checkpoint afterwards had written nothing by then.
        """
        ends = self._target.progress.ends()
        planned = self._target.checkpoint.planned()
        following = planned[-1] + 1 if planned else 0
        latest = {batch: noted for batch, noted in self._ends.items() if batch == following - 1}
        self._ends = {**latest, following: ends}

    def _raise_if_over(self) -> None:
        if self._over.is_set():
            raise _Over

    def _until_recovered(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for what the query has to do after a fault; raises ``QueryHung``."""
        try:
            self._until(condition, what, self._recovery_s)
        except DeadlineExceeded as error:
            hint = f"{error.hint}; --hung-after waits for longer"
            raise QueryHung(what, self._recovery_s, detail=error.detail, hint=hint) from error

    def _until(self, condition: Callable[[], int | bool], what: str, timeout_s: float = RECOVERY_S) -> int:
        def look() -> int:
            is_over = self._over.is_set()  # read first: what was true when the run ended counts
            value = condition()
            if is_over and not value:
                raise _Over
            return value

        self.waits_for = what
        try:
            return wait_until(look, timeout_s, lambda: what, poll_s=0.01)
        except DeadlineExceeded as error:
            error.hint = "logs/ in the run directory has the logs of driver and executors"
            with suppress(TidemarkError):
                error.detail = self._target.stack.logs(self._target.driver, LOG_LINES)
            raise


def _seconds_since(text: str, moment: datetime) -> float:
    """Seconds from a time of the journal to a moment; 0 if that was before."""
    return round(max(0.0, (moment - datetime.fromisoformat(text)).total_seconds()), 2)


class _GivenUp(Exception):
    """A fault was tried in vain for long enough; the next one has its turn."""


class _Over(Exception):
    """The run has ended; the remaining faults are not injected."""
