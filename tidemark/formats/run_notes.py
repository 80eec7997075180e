"""Notes of a manifest that a report reads again, and how each begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

NOT_COMPARED = "not compared with the plan: "
MADE_SMALLER = "made smaller: "
GAPS = "offsets without a record: "
CHECKPOINT = "the checkpoint: "
_SPLIT = re.compile(r"slice (\d+) was split into two batches")


def slice_was_split(number: int) -> str:
    """The note of a slice of the trace that more than one batch read."""
    return f"slice {number} was split into two batches"


def split_slice(note: str) -> int | None:
    """The slice of such a note; ``None`` for other notes."""
    found = _SPLIT.fullmatch(note)
    return int(found[1]) if found else None


def made_smaller(after: Sequence[int], before: Sequence[int], *, is_derived: bool) -> str:
    """The note of evidence that ``tidemark shrink`` has left: how many input rows, output rows and batches."""
    names = ("input rows", "output rows", "batches")
    kept = (f"{left:,} of {of:,} {name}" for left, of, name in zip(after, before, names, strict=True))
    watermarks = "; its watermarks are those that these rows give" if is_derived else ""
    return f"{MADE_SMALLER}{', '.join(kept)}; no query has written this evidence as it is{watermarks}"
