"""What is kept of a query that hung: since when, what was awaited, and what its threads did."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tidemark.errors import QueryHung, TidemarkError
from tidemark.formats.liveness import Hang
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Stack

FOLDER = "stacks"
STOP_S = 20.0
"""How long a query that hung, and still answers, may take to stop. Calibration: a query stops within 1 s."""


def hang_of(error: QueryHung, checkpoint: Checkpoint, started: datetime, hung_after_s: float) -> Hang | None:
    """That the query committed nothing more; ``None`` if it has committed something within this time.

    ``started`` is the time of its start.
    """
    committed, now = checkpoint.committed(), datetime.now(UTC)
    since = checkpoint.committed_at(committed[-1]) if committed else started
    if (now - since).total_seconds() < hung_after_s:
        return None
    return Hang(
        since_utc=since.isoformat(timespec="milliseconds"),
        seen_utc=now.isoformat(timespec="milliseconds"),
        waited_for=error.waited_for,
        committed=committed[-1] if committed else None,
        planned=checkpoint.running(),
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
