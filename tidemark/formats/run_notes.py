"""Notes of a manifest that a report reads again, and how each begins."""

from __future__ import annotations

import re

NOT_COMPARED = "not compared with the plan: "
_SPLIT = re.compile(r"slice (\d+) was split into two batches")


def slice_was_split(number: int) -> str:
    """The note of a slice of the trace that more than one batch read."""
    return f"slice {number} was split into two batches"


def split_slice(note: str) -> int | None:
    """The slice of such a note; ``None`` for other notes."""
    found = _SPLIT.fullmatch(note)
    return int(found[1]) if found else None
