"""Publishing a trace to a running query at the trace's own pace.

``stepped`` needs every slice to be one batch. Two inputs are two sources, whose end offsets Spark fetches one after
the other, so a slice that is published in between would be torn in two. Spark's ``ProcessingTimeExecutor`` fires at
multiples of the trigger interval on the wall clock and sleeps until the next; so: look until the query is seen asleep
twice within one interval, hold the driver (a pause of milliseconds), publish the slice, let go. Two looks, because the
query is also inactive for an instant between a trigger that overran its interval and the next one, but only once in
an interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tidemark.errors import DeadlineExceeded, PipelineFailed
from tidemark.runner.programs import Program
from tidemark.sparkfiles.checkpoint import Checkpoint, PlannedBatch
from tidemark.waiting import wait_until

TRIGGER_MS = 100
"""Calibration: an idle trigger takes 20-40 ms, two looks at the query 10-20 ms; half the interval is lost at every
batch. A busy machine only takes a few more tries."""

BATCH_S = 300.0
"""Calibration: a batch takes about 1 s; after a killed executor up to 30 s, on a busy machine a few times that."""

IDLE_WORDS = ("Waiting for next trigger", "Waiting for data to arrive")
GRACE_S = 15.0
"""Calibration: a no-data batch starts within one trigger interval of the batch that moved the watermark."""

LOOK_S = 1.0
"""How long a timed publisher is left alone before the query is looked after."""

CHECK_S = 0.5
"""How often a query whose batches are awaited is looked after. Calibration: its checkpoint tells the rest, for nothing;
each question is two calls of the driver, and asked at each poll they took a tenth of a small run's CPU time."""

EndOffsets = dict[str, dict[str, int]]


class Followed(Protocol):
    """What pacing needs of a query that runs: see :class:`tidemark.runner.query_runs.Query`."""

    def ask(self, command: str, timeout_s: float) -> dict[str, Any]:
        """The answer of the query's program; raises what makes waiting pointless."""

    def suspended(self) -> AbstractContextManager[bool]:
        """Stops the driver for the length of a block, which is given whether there was one to stop."""

    def began_after(self, batch: int) -> bool:
        """Whether the run that goes on now began when that batch was committed already."""


@dataclass(frozen=True)
class Feed:
    """The running query as pacing sees it."""

    query: Followed
    checkpoint: Checkpoint
    end_offsets: Callable[[], EndOffsets]
    well: Callable[[], object] = lambda: None
    """Raises what makes going on pointless."""
    ready: Callable[[], bool] = lambda: True
    """Whether the next batch may come."""

    def publish_one_batch(self, publish: Callable[[], Any]) -> bool:
        """Publish while the query sleeps, wait until all of it is committed; False if it was torn in two."""
        wait_until(
            self.ready, BATCH_S, lambda: "who strikes to be ready", unless=self._checked_now_and_then()
        )
        first = len(self.checkpoint.planned())
        before = self.end_offsets()
        self._when_asleep(publish)
        if self.end_offsets() == before:
            return True  # an empty slice makes no batch
        return self.wait_until_read().batch == first

    def wait_until_read(self) -> PlannedBatch:
        """Wait until all published records are in committed batches, and the no-data batch that is then due.

        Returns the batch that read the last record.
        """
        wanted = self.end_offsets()
        seen: list[PlannedBatch] = []

        def last_read() -> PlannedBatch | None:
            committed = self.checkpoint.committed()
            for batch in reversed(committed[-3:]):
                planned = self.checkpoint.batch(batch)
                if not planned.has_read(wanted):
                    break
                seen[:] = [planned]
            return seen[0] if seen else None

        planned = self._while_batches_come(
            last_read, lambda: f"a committed batch that ends at {wanted}{self._state()}"
        )
        self._wait_for_no_data_batch(planned)
        return planned

    def _while_batches_come(
        self, look: Callable[[], PlannedBatch | None], describe: Callable[[], str]
    ) -> PlannedBatch:
        """Wait; the deadline begins anew as long as batches are planned and committed."""
        while True:
            before = self.checkpoint.planned(), self.checkpoint.committed()
            try:
                return wait_until(look, BATCH_S, describe, unless=self._checked_now_and_then())
            except DeadlineExceeded:
                if (self.checkpoint.planned(), self.checkpoint.committed()) == before:
                    raise

    def check(self) -> None:
        """Raise ``PipelineFailed`` if the query ended by itself; start it again if its driver died."""
        self.well()
        self.query.ask("status", BATCH_S)

    def _wait_for_no_data_batch(self, planned: PlannedBatch) -> None:
        """A join runs once more when its watermark moved (``shouldRunAnotherBatch``); a query without one does not.

        Nor does one that was started again in between: it waits for data.
        """
        if self.checkpoint.next_watermark_ms(planned.batch) <= planned.watermark_ms:
            return
        deadline = time.monotonic() + GRACE_S

        def is_over() -> bool:
            if self.checkpoint.planned()[-1] > planned.batch:
                return self.checkpoint.running() is None
            return time.monotonic() > deadline or self.query.began_after(planned.batch)

        wait_until(
            is_over, BATCH_S, lambda: f"the no-data batch after batch {planned.batch}{self._state()}",
            unless=self._checked_now_and_then(),
        )  # fmt: skip

    def _checked_now_and_then(self) -> Callable[[], None]:
        """As ``check``, but the query is asked every ``CHECK_S``."""
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
                # Nothing ran since the second look: the interval is the same, and within it the query sleeps.
                if not alive or _window() != window:
                    return False
                act()
            return True

        wait_until(acted, BATCH_S, lambda: f"the query to be idle{self._state()}")

    def _is_idle(self) -> bool:
        status = self.query.ask("status", BATCH_S)
        return not status["isTriggerActive"] and status["message"] in IDLE_WORDS

    def _state(self) -> str:
        try:
            status = self.query.ask("status", 5.0)
        except PipelineFailed as failure:
            return f"; {failure}"
        return f"; planned {self.checkpoint.planned()[-1:]}, committed {self.checkpoint.committed()[-1:]}, {status}"


def now_and_then(check: Callable[[], object]) -> Callable[[], None]:
    """What can be called at each poll, and calls ``check`` every ``CHECK_S``, for the first time after as long."""
    due_s = time.monotonic() + CHECK_S

    def called() -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            check()
            due_s = time.monotonic() + CHECK_S

    return called


def follow_timed(publisher: Program, check: Callable[[], None]) -> None:
    """Wait for a publisher that works through its trace by itself, looking after the query meanwhile."""
    while True:
        try:
            if publisher.answer(LOOK_S).get("done"):
                return
        except DeadlineExceeded:
            check()


def _window() -> int:
    """The number of the trigger interval that the wall clock is in, as Spark counts it."""
    return time.time_ns() // (TRIGGER_MS * 1_000_000)
