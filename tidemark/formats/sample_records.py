"""Reads the sample of a topic: a file whose first line is a record as JSON, of which a trace is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.events import decode_object


def read_sample(path: Path) -> dict[str, Any]:
    """The record, its numbers with a fraction as ``Decimal``; raises ``UsageError`` if there is none."""
    try:
        lines = path.read_bytes().strip().splitlines()
    except OSError as error:
        raise UsageError(
            f"the sample {str(path)!r} cannot be read", detail=str(error), hint="--sample names a file: TOPIC=FILE"
        ) from error  # fmt: skip
    record = decode_object(lines[0]) if lines else None
    if record is None:
        raise UsageError(
            f"the sample {str(path)!r} has no record",
            detail="its first line is no JSON object",
            hint="write a record as it is in the topic into the first line",
        )
    return record
