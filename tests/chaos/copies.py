"""Rows that are in an output more than once."""

from __future__ import annotations

from collections import Counter

from tidemark.formats.evidence import RunDirectory


def copies(evidence: RunDirectory) -> Counter[int]:
    """Batch -> how many of its rows are in the output once more than once."""
    counted = Counter((dict(record.headers)["batch"], record.value) for record in evidence.output())
    again: Counter[int] = Counter()
    for (batch, _), count in counted.items():
        again[int(batch or "")] += count - 1
    return +again
