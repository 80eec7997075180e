"""What is kept of a query that hung: since when, what was awaited, and what its threads did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from tidemark.errors import QueryHung, TidemarkError
from tidemark.formats.liveness import Hang, HangPhase
from tidemark.runner.app_query import AppQuery
from tidemark.runner.evidence_collector import Collector
from tidemark.runner.query_runs import Query
from tidemark.runner.run_options import RunOptions
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Stack

FOLDER = "stacks"
STOP_S = 20.0
"""How long a query that hung, and still answers, may take to stop. Calibration: a query stops within 1 s."""


class HangRecorder:
    """Keeps what shows why the query of a run hung, at the first ``QueryHung``; what follows from it is a note."""

    def __init__(
        self, stack: Stack, checkpoint: Checkpoint, run_dir: Path, collector: Collector, options: RunOptions
    ) -> None:
        """To be made when the query is about to be started."""
        self._stack = stack
        self._checkpoint = checkpoint
        self._run_dir = run_dir
        self._collector = collector
        self._options = options
        self._started = datetime.now(UTC)

    def keep(self, error: QueryHung, driver: str) -> None:
        """Keep since when, what was awaited, and the threads of this driver and its executors.

        Raises the error if the query was to commit something, and has.
        """
        if self._collector.hang is not None:
            self._collector.note(f"of the query that hung, later: {error.message}")
            return
        hang = hang_of(error, self._checkpoint, self._started, self._options.given_up_after_s)
        if hang is None:
            raise error
        stacks, failed = keep_stacks(self._stack, driver, self._run_dir)
        self._collector.hang = replace(hang, stacks=stacks)
        self._options.say(hang.said())
        for note in filter(None, [failed, error.detail, *getattr(error, "__notes__", ())]):
            self._collector.note(f"of the query that hung: {note}")

    def stop(self, error: QueryHung, query: Query | AppQuery) -> None:
        """Stop a query that hung before its end, if it answers."""
        if not error.is_answering:
            self._collector.note("the query that hung was not asked to stop: its driver does not answer")
            return
        try:
            self._collector.stopped(query.ask("stop", STOP_S))
        except TidemarkError as later:
            self._collector.note(f"the query that hung did not stop: {later.message}")


def hang_of(error: QueryHung, checkpoint: Checkpoint, started: datetime, hung_after_s: float) -> Hang | None:
    """That the query committed nothing more; ``None`` if it has committed something within this time.

    ``started`` is the time of its start. A query that does not start or stop, or whose output does not end, did not
    since that was awaited, whatever it has committed.
    """
    committed, now, phase = checkpoint.committed(), datetime.now(UTC), HangPhase(error.phase)
    since = now - timedelta(seconds=error.timeout_s)
    if phase is HangPhase.RUN:
        since = checkpoint.committed_at(committed[-1]) if committed else started
        if (now - since).total_seconds() < hung_after_s:
            return None
    return Hang(
        since_utc=since.isoformat(timespec="milliseconds"),
        seen_utc=now.isoformat(timespec="milliseconds"),
        waited_for=error.waited_for,
        committed=committed[-1] if committed else None,
        planned=checkpoint.running(),
        phase=phase,
    )


def keep_stacks(stack: Stack, driver: str, run_dir: Path) -> tuple[list[str], str]:
    """Write the thread stacks of a driver and its executors; their files below the run directory, and what failed."""
    try:
        found = stack.thread_stacks(driver)
    except TidemarkError as error:
        return [], f"the thread stacks could not be collected: {error.message}"
    files = []
    for name, text in found.items():
        file = run_dir / FOLDER / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        files.append(f"{FOLDER}/{file.name}")
    return files, ""
