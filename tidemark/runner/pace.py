"""Publishing a trace to a running query at the trace's own pace.

``stepped`` needs every slice to be one batch. Two inputs are two sources, whose end offsets Spark fetches one after
the other, so a slice that is published in between would be split into two batches. Spark's ``ProcessingTimeExecutor``
fires at multiples of the trigger interval on the wall clock, and is idle until the next one. So the feed polls until it
has seen the query idle twice within one interval, suspends the driver for some milliseconds, publishes the slice, and
resumes the driver. It polls twice because the query is also idle for an instant between a trigger that overran its
interval and the next one, but only once per interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidemark.errors import DeadlineExceeded, PipelineFailed, QueryHung
from tidemark.runner.programs import Program
from tidemark.runner.run_options import HUNG_AFTER_S
from tidemark.sparkfiles.checkpoint import Checkpoint, PlannedBatch
from tidemark.waiting import wait_until

TRIGGER_MS = 250
"""Calibration: an idle trigger takes 20-40 ms, two polls of the query 10-20 ms, and suspending a driver 2-10 ms for a
process and 40-150 ms for a container; on busy cores each takes longer. All of it has to fit into what is left of one
interval; an attempt that does not is repeated. With 100 ms, runs in containers that share two cores suspend their
drivers in vain most of the time."""

BATCH_S = 300.0
"""Calibration: the injector looks at a batch for a second or two; at one that does not end for as long as it takes."""

IDLE_WORDS = ("Waiting for next trigger", "Waiting for data to arrive")
LAST_READ = "a batch that reads the last record published"
GRACE_S = 15.0
"""Calibration: a no-data batch starts within one trigger interval of the batch that moved the watermark."""

LOOK_S = 1.0
"""How long to wait for a timed publisher before the query is checked."""

CHECK_S = 0.5
"""How often the status of a query is checked while its batches are awaited. Calibration: each check is two calls to the
driver, which at every poll took a tenth of a small run's CPU time; progress is read from the checkpoint, which is
cheap."""

T = TypeVar("T")
EndOffsets = dict[str, dict[str, int]]


class Followed(Protocol):
    """The interface of a running query that pacing uses: see :class:`tidemark.runner.query_runs.Query`."""

    def ask(self, command: str, timeout_s: float) -> dict[str, Any]:
        """The answer of the query's program; raises if the query has failed."""

    def suspended(self) -> AbstractContextManager[bool]:
        """Suspends the driver for the duration of a block; yields whether there was a driver to suspend."""

    def began_after(self, batch: int) -> bool:
        """Whether the current run began after that batch was committed."""


@dataclass(frozen=True)
class Feed:
    """The running query as pacing sees it."""

    query: Followed
    checkpoint: Checkpoint
    end_offsets: Callable[[], EndOffsets]
    well: Callable[[], object] = lambda: None
    """Raises if the run cannot continue."""
    ready: Callable[[], bool] = lambda: True
    """Whether the next batch may start."""
    waits: Callable[[str], object] = lambda _what: None
    """Hears what is waited for, whenever that changes."""
    hung_after_s: float = HUNG_AFTER_S
    """A query that plans and commits nothing for so long, while something is waited for, has hung (``QueryHung``)."""
    grace_s: float = GRACE_S
    """How long a no-data batch is waited for after the watermark has moved."""

    def publish_one_batch(self, publish: Callable[[], Any]) -> bool:
        """Publish while the query is idle, and wait until all is committed; False if it was split into two batches."""
        self.waits("the fault injector to arm")
        wait_until(
            self.ready,
            max(BATCH_S, 2 * self.hung_after_s),  # it says itself that the query hung
            lambda: "the fault injector to arm",
            unless=self._checked_now_and_then(),
        )
        first = self.checkpoint.next_planned()
        before = self.end_offsets()
        self.waits("the query to be idle")
        self._when_asleep(publish)
        if self.end_offsets() == before:
            return True  # an empty slice makes no batch
        return self.wait_until_read().batch == first

    def wait_until_read(self) -> PlannedBatch:
        """Wait until all published records are in committed batches, and the no-data batch after them has ended.

        Returns the batch that read the last record. Raises ``QueryHung``.
        """
        wanted = self.end_offsets()
        self.waits(LAST_READ)
        seen: list[PlannedBatch] = []

        def last_read() -> PlannedBatch | None:
            committed = self.checkpoint.committed()
            for batch in reversed(committed[-3:]):
                planned = self.checkpoint.batch(batch)
                if not planned.has_read(wanted):
                    break
                seen[:] = [planned]
            return seen[0] if seen else None

        planned = self._while_batches_come(last_read, lambda: f"the ends are {wanted}")
        try:
            self._wait_for_no_data_batch(planned)
        except FileNotFoundError:  # its commit was removed by a fault, and it is run again
            return self.wait_until_read()
        self.waits("")
        return planned

    def _while_batches_come(
        self, look: Callable[[], PlannedBatch | None], describe: Callable[[], str]
    ) -> PlannedBatch:
        """Wait; the deadline restarts whenever a batch was planned or committed."""
        while True:
            before = self.checkpoint.planned(), self.checkpoint.committed()
            try:
                return self._wait(look, LAST_READ, describe)
            except QueryHung:
                if (self.checkpoint.planned(), self.checkpoint.committed()) == before:
                    raise

    def _wait(
        self,
        look: Callable[[], T | None],
        what: str,
        describe: Callable[[], str] = str,
        unless: Callable[[], object] | None = None,
    ) -> T:
        """Wait for what the query has to do, ``what``; raises ``QueryHung``, whose detail is what ``describe`` says."""
        said: list[str] = []

        def described() -> str:
            said.append(f"{describe()}{self._state()}".lstrip("; "))
            return what

        try:
            return wait_until(
                look, self.hung_after_s, described, unless=unless or self._checked_now_and_then()
            )
        except DeadlineExceeded as error:
            if not said:  # an answer of the query, or a driver that is started again
                raise
            hint = "see the logs of driver and executors; --hung-after waits for longer"
            raise QueryHung(what, self.hung_after_s, detail=said[0], hint=hint) from error

    def check(self) -> None:
        """Raise ``PipelineFailed`` if the query ended by itself; restart it if its driver died."""
        self.well()
        self._status()

    def _status(self) -> dict[str, Any]:
        return self.query.ask("status", self.hung_after_s)

    def _wait_for_no_data_batch(self, planned: PlannedBatch) -> None:
        """A join runs a no-data batch after its watermark moved (``shouldRunAnotherBatch``).

        A query without a watermark does not, nor does a query that was restarted in between: it waits for data.
        """
        if self.checkpoint.next_watermark_ms(planned.batch) <= planned.watermark_ms:
            return
        deadline = time.monotonic() + self.grace_s
        self.waits(f"the no-data batch after batch {planned.batch}")

        def is_over() -> bool:
            if self.checkpoint.planned()[-1] > planned.batch:
                return self.checkpoint.running() is None
            return time.monotonic() > deadline or self.query.began_after(planned.batch)

        self._wait(is_over, f"the no-data batch after batch {planned.batch}")

    def _checked_now_and_then(self) -> Callable[[], None]:
        """Like ``check``, but the query is asked only every ``CHECK_S``."""
        ask = now_and_then(self.check)

        def check() -> None:
            self.well()
            ask()

        return check

    def _when_asleep(self, act: Callable[[], Any]) -> None:
        def acted() -> bool:
            window = _window()
            if not (self._is_idle() and self._is_idle()):
                return False
            with self.query.suspended() as alive:
                # No trigger ran since the second poll: the interval is the same, and the query is idle until its end.
                if not alive or _window() != window:
                    return False
                act()
            return True

        self._wait(acted, "the query to be idle", unless=self.well)

    def _is_idle(self) -> bool:
        status = self._status()
        return not status["isTriggerActive"] and status["message"] in IDLE_WORDS

    def _state(self) -> str:
        try:
            status = self.query.ask("status", min(5.0, self.hung_after_s))
        except (PipelineFailed, QueryHung) as failure:
            return f"; {failure.message}"
        return f"; planned {self.checkpoint.planned()[-1:]}, committed {self.checkpoint.committed()[-1:]}, {status}"


def now_and_then(check: Callable[[], object]) -> Callable[[], None]:
    """A function to be called at each poll: it calls ``check`` every ``CHECK_S``, first after ``CHECK_S``."""
    due_s = time.monotonic() + CHECK_S

    def called() -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            check()
            due_s = time.monotonic() + CHECK_S

    return called


def follow_timed(publisher: Program, check: Callable[[], None]) -> None:
    """Wait for a publisher that replays its trace by itself, and check the query in the meantime."""
    while True:
        try:
            if publisher.answer(LOOK_S).get("done"):
                return
        except DeadlineExceeded:
            check()


def _window() -> int:
    """The number of the trigger interval that the wall clock is in, as Spark counts it."""
    return time.time_ns() // (TRIGGER_MS * 1_000_000)
