"""Reads Spark's progress reports of a query, wherever they were kept: as JSON Lines, or in Spark's event log.

Free of Spark. A line is a report, as ``StreamingQueryProgress.json`` gives it to a listener, or an event of Spark's
event log, of which the progress events are taken (``tidemark.sparkfiles.log_lines``).

Spark makes a report once a batch is committed. A trigger that ran no batch has one, too, which says nothing of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tidemark.errors import UsageError
from tidemark.formats.consistency import ran_no_batch
from tidemark.formats.events import read_time_us
from tidemark.sparkfiles.log_lines import (
    EVENT,
    HEAD,
    PROGRESS_EVENT,
    broken_line,
    log_files,
    log_lines,
    parsed_line,
)

Offsets = dict[str, dict[str, int]]
"""Kafka topic -> partition -> offset."""


class BatchReport(NamedTuple):
    """What a report says of a batch: the run of the query, the eviction watermark, where each topic began and ended.

    A topic that had no start yet is not in ``start_offsets``.
    """

    batch: int
    run_id: str
    watermark_ms: int
    start_offsets: Offsets
    end_offsets: Offsets


def read_reports(paths: Iterable[Path], query_id: str) -> list[BatchReport]:
    """The reports of a query in files and folders, in the order of files and lines.

    Raises ``UsageError`` for a file that cannot be read, and if there is no report of this query.
    """
    files = [file for path in paths for file in log_files(path)]
    found: list[BatchReport] = []
    others: set[str] = set()
    for file in files:
        for number, report in _reports(file):
            if report.get("id") != query_id:
                others.add(str(report.get("id")))
            elif not ran_no_batch(report):
                found.append(_batch_report(file, number, report))
    if not found:
        names = ", ".join(sorted(others)) or "none at all"
        raise UsageError(
            f"there is no progress report of the query {query_id!r}",
            detail=f"{len(files)} files were read; they have reports of: {names}",
            hint="name the reports of the query that wrote this checkpoint (`id` in its file `metadata`)",
        )
    return found


def _reports(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The reports of a file, each with the number of its line."""
    for number, line in log_lines(file):
        if line.startswith(EVENT):
            if PROGRESS_EVENT not in line[:HEAD]:
                continue
            report = parsed_line(file, number, line).get("progress")
        else:
            report = parsed_line(file, number, line)
        if not isinstance(report, dict) or "batchId" not in report:
            raise broken_line(file, number, "it is neither a progress report nor an event of Spark")
        yield number, report


def _batch_report(file: Path, number: int, report: dict[str, Any]) -> BatchReport:
    try:
        watermark = (report.get("eventTime") or {}).get("watermark")
        time_us = 0 if watermark is None else read_time_us(watermark)
        if time_us is None:
            raise ValueError(f"its watermark is {watermark!r}")
        sources = report["sources"]
        return BatchReport(
            batch=int(report["batchId"]),
            run_id=str(report["runId"]),
            watermark_ms=time_us // 1000,
            start_offsets=_offsets(source.get("startOffset") for source in sources),
            end_offsets=_offsets(source.get("endOffset") for source in sources),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise broken_line(file, number, f"{type(error).__name__}: {error}") from error


def _offsets(ends: Iterable[Any]) -> Offsets:
    """The offsets of Kafka sources: an object, or its text in an event log; those of another source are left out."""
    found: Offsets = {}
    for end in ends:
        offsets = json.loads(end) if isinstance(end, str) and end.startswith("{") else end
        if isinstance(offsets, dict):
            found |= {
                topic: {str(part): int(offset) for part, offset in parts.items()}
                for topic, parts in offsets.items()
                if isinstance(parts, dict)
            }
    return found
