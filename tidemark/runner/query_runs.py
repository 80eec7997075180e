"""The query under test over all of its runs: if its driver dies, it is restarted on the same checkpoint.

In a run with faults it is also restarted if it fails or its program dies, as a supervisor in production would do.

A *run* is Spark's (``runId``): from a start to a stop, or to the end of the driver. All runs share the checkpoint and
therefore the query id, so their batches form one sequence.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidemark.errors import (
    DeadlineExceeded,
    PipelineFailed,
    QueryHung,
    StartHung,
    StopHung,
    TestbedError,
    TidemarkError,
)
from tidemark.runner.programs import Program
from tidemark.runner.standby import Standby
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver, Stack

START_S = 120.0
"""Calibration: a query starts in 0.1 s on a warm driver, in 10 s on a cold one on a busy machine."""

_HUNG: dict[str, tuple[type[QueryHung], str]] = {
    "plan": (StartHung, "the plan of the query"),
    "start": (StartHung, "the query to start"),
    "status": (QueryHung, "an answer of the driver"),
    "explain": (StopHung, "the plan of the query"),
    "stop": (StopHung, "the query to stop"),
}
"""What a query that does not answer is asked, and what is awaited then."""

FRUITLESS_RUNS = 4
"""Consecutive runs without a committed batch after which the query is not restarted any more."""


@dataclass(frozen=True)
class QueryRun:
    """One run: its driver, the size of the driver's event log at its start (bytes), and its first batch.

    ``replays``: an earlier run had planned that batch, so it is run again.
    """

    driver: Driver
    log_start: int
    first_batch: int
    replays: bool


class Query:
    """A query on one driver, started and asked through a program (``start(driver, session_id)``). A context manager.

    Not for several threads at once. ``start_s`` is how long it may take to start. With a ``standby`` it goes on there
    when its driver dies.
    """

    start_s = START_S
    standby: Standby | None = None

    def __init__(
        self, stack: Stack, driver: Driver, checkpoint: Checkpoint, start: Callable[[Driver, str], Program],
        *, again: bool = False,
    ) -> None:  # fmt: skip
        """``again``: restart the query also if it fails by itself."""
        self.runs: list[QueryRun] = []
        self.failures: list[str] = []
        self._again = again
        self.query_id: str | None = None
        self._stack = stack
        self._driver = driver
        self._checkpoint = checkpoint
        self._start = start
        self._opened = ExitStack()

    @property
    def driver_name(self) -> str:
        """The component that is the query's driver."""
        return self._driver.name

    def __enter__(self) -> Self:
        self._open(self._driver)  # the program starts while others do
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self._opened.close()

    def start(self) -> None:
        """Start the query."""
        answer = self.ask("start", self.start_s)
        self.query_id = str(answer["query_id"])
        if (app_id := answer["app_id"]) != self._driver.app_id:
            self._stack.note_application(self._driver.name, app_id)
            self._driver = self._stack.driver(self._driver.name)
            self.runs[-1] = replace(self.runs[-1], driver=self._driver, log_start=0)
        self._prepare_standby()

    def plan(self) -> dict[str, Any]:
        """The ``plan`` of the query before it is started, as text, and the session's watermark ``policy``."""
        return self.ask("plan", self.start_s)

    def ask(self, command: str, timeout_s: float) -> dict[str, Any]:
        """Send a command to the program, or to its successor if the query was restarted.

        Raises:
            PipelineFailed: the query ended by itself.
            QueryHung: its driver lives, and it does not answer.
            TestbedError: it cannot be restarted.
        """
        while True:
            try:
                return self._program.ask(command, timeout_s, unless=self._must_live)
            except (_DriverDied, TidemarkError) as error:
                if self._lives():
                    if isinstance(error, DeadlineExceeded) and command in _HUNG:
                        hint = "see the driver's log in the run directory; --hung-after waits for longer"
                        hung, what = _HUNG[command]
                        raise hung(
                            what, timeout_s, detail=error.detail, hint=hint, is_answering=False
                        ) from error
                    if not self._goes_on_after(error):
                        raise
                elif self._fruitless():
                    raise self._given_up() from None
            self._start_again(command)

    @contextmanager
    def suspended(self) -> Iterator[bool]:
        """Suspend the driver for the duration of the block; yields ``False`` if there is none to suspend."""
        with ExitStack() as holding:
            try:
                holding.enter_context(self._stack.suspended(self._driver.name))
            except TestbedError:
                if self._lives():
                    raise
                alive = False
            else:
                alive = True
            yield alive

    def began_after(self, batch: int) -> bool:
        """Whether the current run began after that batch was committed."""
        return self.runs[-1].first_batch > batch

    def event_log(self) -> tuple[Path, int] | None:
        """The event log of the current driver, and where in it (bytes) the current run began."""
        run = self.runs[-1] if self.runs else None
        return None if run is None or run.driver.event_log is None else (run.driver.event_log, run.log_start)

    def _open(self, driver: Driver) -> None:
        log = driver.event_log
        log_start = log.stat().st_size if log is not None and log.exists() else 0
        replays = self._checkpoint.running() is not None
        self.runs.append(QueryRun(driver, log_start, self._checkpoint.next_batch(), replays))
        self._driver = driver
        session_id = str(uuid.uuid4())
        self._opened.enter_context(self._stack.register_session(session_id, driver.name))
        self._program = self._opened.enter_context(self._start(driver, session_id))

    def _goes_on_after(self, error: Exception) -> bool:
        """Whether the query is restarted on its current driver, after it failed or its program died."""
        failed = isinstance(error, PipelineFailed) or self._program.has_ended
        if not (self._again and failed and self.query_id is not None) or self._fruitless():
            return False
        self.failures.append(str(error))
        return True

    def _fruitless(self) -> bool:
        """Whether the last runs all began with the batch that the next run would begin with."""
        last = self.runs[-FRUITLESS_RUNS:]
        firsts = {self._checkpoint.next_batch(), *(run.first_batch for run in last)}
        return len(last) == FRUITLESS_RUNS and len(firsts) == 1

    def _given_up(self) -> TestbedError:
        return TestbedError(
            f"the driver of the query died {FRUITLESS_RUNS} times in a row without committing a batch",
            detail=f"batch {self.runs[-1].first_batch} was run each time; the driver died {len(self.runs)} "
            f"times in total",
            hint="see the driver's log in the run directory; also check that the machine has enough free memory",
        )

    def _start_again(self, command: str) -> None:
        """Restart the driver if it is gone, and the query on it."""
        self._program.kill()
        self._opened.close()
        self._opened = ExitStack()
        if not self._lives():
            self._driver = self._next_driver()
        self._open(self._stack.driver(self._driver.name))
        if command not in ("plan", "start"):  # otherwise the caller sends that command again
            self.ask("start", self.start_s)
            self._prepare_standby()

    def _next_driver(self) -> Driver:
        """The standby, if it is ready, or else the driver that died, started again."""
        taken = self.standby.take() if self.standby else None
        if taken is not None:
            return taken
        self._stack.start(self._driver.name, warm=False)  # the batch that is run again is its first job
        return self._stack.driver(self._driver.name)

    def _prepare_standby(self) -> None:
        """Have the next standby started, once the first batch of this run is committed."""
        first = self.runs[-1].first_batch
        if self.standby:
            self.standby.prepare(lambda: first in self._checkpoint.committed())

    def _must_live(self) -> None:
        if not self._lives():
            raise _DriverDied

    def _lives(self) -> bool:
        """Whether the driver that the query was started on is still running."""
        try:
            return self._stack.driver(self._driver.name).app_id == self._driver.app_id
        except TidemarkError:
            return False


class _DriverDied(Exception):
    """The driver died while an answer was awaited."""
