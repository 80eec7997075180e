"""``--spark-version``: which Spark ran a query, or which of its batches.

    4.2.0                     all batches
    3.5.7@:11,4.3.0@12:       batches up to 11, and those from 12 on
    3.5.7@:11,4.3.0@11:       the same, and batch 11 was begun by the first and run again by the second

Free of I/O. No checkpoint says which Spark wrote it; who upgraded the query knows the last batch that was planned
before, and whether it was committed.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tidemark.auditor.audit_options import range_of
from tidemark.errors import UsageError
from tidemark.formats.audited_query import SparkSpan

_HINT = "write VERSION, or VERSION@A:B for each Spark, oldest batches first: 3.5.7@:11,4.3.0@12:"
_is_version = re.compile(r"\d+\.\d+[\w.+-]*").fullmatch


def named_sparks(text: str) -> list[tuple[str, int | None, int | None]]:
    """Version, first and last batch of each Spark; raises ``UsageError`` for a text that says something else."""
    found = []
    for part in filter(None, text.split(",")):
        version, at, batches = part.strip().partition("@")
        if "," in text or at:
            if not _is_version(version) or not at or not batches:
                raise UsageError(f"--spark-version {text!r} names no batches in {part!r}", hint=_HINT)
            found.append((version, *range_of(batches, "--spark-version")))
        else:
            found.append((version, None, None))
    return found


def spark_spans(text: str, first: int, last: int) -> list[SparkSpan]:
    """The batches of each Spark, from the first in the log to the last; none if all are of one, or it is not said.

    Raises ``UsageError`` if a batch is of no Spark, or if two Sparks share more than one.
    """
    named = named_sparks(text)
    if len(named) < 2:
        return []
    ends = [
        (
            version,
            begin if begin is not None or at else 0,
            end if end is not None or at < len(named) - 1 else last,
        )
        for at, (version, begin, end) in enumerate(named)
    ]
    for one, other in pairwise(ends):
        if one[2] is None or other[1] is None or other[1] - one[2] not in (0, 1):
            raise UsageError(
                f"--spark-version {text!r} does not say of each batch which Spark ran it",
                detail=f"where does {one[0]} end, and {other[0]} begin?",
                hint="the second begins with the batch after the last of the first, or with that batch, if the first"
                " did not commit it",
            )
    spans = [SparkSpan(version, begin or 0, max(end or 0, begin or 0)) for version, begin, end in ends]
    if spans[0].first > first or spans[-1].last < last:
        raise UsageError(
            f"--spark-version {text!r} does not say of each batch which Spark ran it",
            detail=f"the log has batches {first} to {last}",
            hint="leave out the first and the last end: 3.5.7@:11,4.3.0@12:",
        )
    return spans


def newest_named(text: str) -> str:
    """The Spark that ran the last batches; empty if it is not said."""
    named = named_sparks(text)
    return named[-1][0] if named else ""
