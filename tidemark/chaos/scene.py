"""Where faults strike: a query, what it runs on, and what can be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.chaos.outputs import Output
from tidemark.checkpoint import Checkpoint
from tidemark.stack import Stack


@dataclass(frozen=True)
class Scene:
    """One query on one driver."""

    stack: Stack
    driver: str
    checkpoint: Checkpoint
    output: Output


def now_utc() -> str:
    """The time of a strike, as the journal has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
