"""The query of a user's job over all of its runs: a program with its own driver, started again if that dies.

What the job does is read from its checkpoint, and its plan from Spark's event log: it answers no questions. A run with
faults starts it again also if it ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidemark.errors import (
    DeadlineExceeded,
    PipelineFailed,
    StartHung,
    TestbedError,
    TidemarkError,
    UsageError,
)
from tidemark.runner.app_jobs import AppJob
from tidemark.runner.project_path import is_installed
from tidemark.runner.query_runs import FRUITLESS_RUNS, QueryRun
from tidemark.sparkfiles.checkpoint import POLICY, Checkpoint
from tidemark.sparkfiles.event_plans import LoggedQuery, logged_queries
from tidemark.stack import Stack
from tidemark.waiting import wait_until

START_S = 600.0
"""Calibration: a classic driver of Python plans its first batch in 10 s, thirty times that on an overloaded machine."""
_ERROR = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$", re.MULTILINE)
_FRAME = re.compile(r'^ *File "([^"<]+)", line (\d+), in (.+)$', re.MULTILINE)
IDLE = {"isTriggerActive": False, "message": "Waiting for next trigger"}
BUSY = {"isTriggerActive": True, "message": "Processing new data"}


class AppQuery:
    """A job as the query of a run. A context manager; not for several threads at once.

    ``start_s`` is how long it may take to plan its first batch.
    """

    start_s = START_S

    def __init__(
        self, stack: Stack, checkpoint: Checkpoint, job: AppJob, log: Path, *, again: bool = False
    ) -> None:
        """``again``: start the job again also if it has ended by itself; ``log`` has in the end what it printed."""
        self.runs: list[QueryRun] = []
        self.failures: list[str] = []
        self.query_id: str | None = None
        self.driver_name = job.driver_name
        self._stack = stack
        self._checkpoint = checkpoint
        self._job = job
        self._again = again
        self._is_started = False
        self._seen = 0
        self._firsts: list[int] = []
        """The first batch of each start, also of one that failed at once."""
        self._file = log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        if self._is_started:
            try:
                self._note_event_log()
            finally:
                self._job.close()

    def start(self) -> None:
        """Start the job, and wait until it has planned a batch. Raises ``StartHung``."""
        self._open(self._job.start)
        self.query_id = self._checkpoint.query_id()

    def plan(self) -> dict[str, Any]:
        """Nothing: the plan of a job is not seen before its first batch has begun."""
        return {"event": "plan", "plan": "", "policy": "", "sources": {}}

    def ask(self, command: str, _timeout_s: float) -> dict[str, Any]:
        """What the checkpoint says; raises ``PipelineFailed`` if the job has ended by itself."""
        match command.partition(" ")[0]:
            case "explain":
                query = self._logged()
                policy = self._checkpoint.conf().get(POLICY, "min")
                plan = query.plan if query is not None else ""
                return {"event": "plan", "plan": plan, "policy": policy, "sources": {}}
            case "stop":
                self._note_event_log()
                self._job.kill()
                return {"event": "stopped", "progress": []}
        if not self._lives():
            self._go_on()
        return {"event": "status", **(BUSY if self._checkpoint.running() is not None else IDLE)}

    @contextmanager
    def suspended(self) -> Iterator[bool]:
        """Suspend the job for the length of the block; yields ``False`` if there is none to suspend."""
        with ExitStack() as holding:
            try:
                holding.enter_context(self._stack.suspended(self.driver_name))
            except TestbedError:
                yield False
                return
            yield True

    def began_after(self, batch: int) -> bool:
        """Whether the current run began after that batch was committed."""
        return self.runs[-1].first_batch > batch

    def event_log(self) -> tuple[Path, int] | None:
        """The event log of the current driver, which a job makes some seconds after its start, from its beginning."""
        log = self._newest_event_log()
        return None if log is None else (log, 0)

    def _open(self, start: Callable[[], object]) -> None:
        replays, first = self._checkpoint.running() is not None, self._checkpoint.next_batch()
        self._is_started = True
        self._firsts.append(first)
        try:
            start()
            driver = self._job.driver()
        except TestbedError:
            raise self._ended() from None
        # That of a classic program is not there yet: it is noted once it has ended (`_note_event_log`).
        self.runs.append(QueryRun(driver, self._job.log_start(), first, replays))
        planned = f"the job to plan batch {first}"
        try:
            wait_until(
                lambda: self._checkpoint.next_batch() > first or self._has_planned(first),
                self.start_s,
                lambda: planned,
                unless=self._must_live,
            )
        except DeadlineExceeded as error:
            log = self._log()[-2000:]
            end = f"the end of its log:\n{log}" if log else "it has printed nothing"
            hint = f"its whole log is {self._file}; --hung-after waits for longer"
            raise StartHung(planned, self.start_s, detail=end, hint=hint) from error

    def _has_planned(self, first: int) -> bool:
        planned = self._checkpoint.planned()
        is_new = not self.runs[:-1] or self._newest_event_log() != self.runs[-2].driver.event_log
        return bool(planned) and planned[-1] >= first and is_new

    def _go_on(self) -> None:
        """Start the job again on its checkpoint, or raise ``PipelineFailed``."""
        while not self._lives():
            self._note_event_log()
            last = self._firsts[-FRUITLESS_RUNS:]
            fruitless = len({self._checkpoint.next_batch(), *last}) == 1
            if not self._again or (len(last) == FRUITLESS_RUNS and fruitless):
                raise self._ended()
            log = self._log()
            if _ERROR.search(log):  # it was not killed
                self.failures.append(self._ended().message)
            self._seen += len(log)
            try:
                self._open(self._job.start_again)
            except PipelineFailed:
                continue  # it was killed once more, or fails each time

    def _must_live(self) -> None:
        if not self._lives():
            raise self._ended()

    def _lives(self) -> bool:
        try:
            self._job.driver()
        except TidemarkError:
            return False
        return True

    def _ended(self) -> PipelineFailed:
        """The error of a job that has ended: the line of its last exception, and the user's line in its traceback."""
        log = self._log()
        lines = [line for line in log.splitlines() if line.strip()]
        said = _ERROR.findall(log)[-1:] or [line for line in lines if not line[0].isspace()][-1:]
        places = [
            f"{file}:{line} in {name}" for file, line, name in _FRAME.findall(log) if not is_installed(file)
        ]
        return PipelineFailed(
            f"the job ended: {said[0][:300] if said else 'it said nothing'}",
            detail=places[-1] if places else "\n".join(line[:300] for line in lines[-6:]),
            hint=f"its whole log is {self._file}",
        )

    def _log(self) -> str:
        """The log of the current run."""
        return self._job.said()[self._seen :]

    def _logged(self) -> LoggedQuery | None:
        """The query as the newest event log says that has a batch of it."""
        for log in reversed(self._event_logs()):
            try:
                found = logged_queries(log)
            except UsageError:  # it has no batch of a join yet
                continue
            if query := next((one for one in found if one.id == self.query_id), None):
                return query
        return None

    def _newest_event_log(self) -> Path | None:
        return next(reversed(self._event_logs()), None)

    def _event_logs(self) -> list[Path]:
        """The oldest first."""
        folder = self._stack.state_dir / "event-logs" / self.driver_name
        return sorted(folder.glob("*-*"), key=lambda path: path.stat().st_mtime_ns)

    def _note_event_log(self) -> None:
        """Note the event log of the current run, which a job makes some seconds after its start."""
        if not self.runs:
            return
        log = self._newest_event_log()
        known = [run.driver.event_log for run in self.runs[:-1]]
        if log is not None and log not in known:
            app_id = log.name.removesuffix(".inprogress")
            self.runs[-1] = replace(
                self.runs[-1], driver=replace(self.runs[-1].driver, app_id=app_id, event_log=log)
            )
