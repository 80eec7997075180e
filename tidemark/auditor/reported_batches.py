"""The log of a query, completed by Spark's progress reports: batches that were trimmed, and restarts.

Free of I/O. Where both speak of a batch they must agree, else one of them is of another query, or was changed. A report
is made once a batch is committed. A query that is started again has another run id, and begins with the first batch
that is not committed: that batch may have been begun before, and what it wrote then is in the output, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidemark.errors import UsageError
from tidemark.sparkfiles.checkpoint import PlannedBatch
from tidemark.sparkfiles.progress_reports import BatchReport
from tidemark.sparkfiles.query_log import QueryLog


@dataclass(frozen=True)
class ReportedBatches:
    """A log, completed. ``first`` and ``last`` are the ends of the batches in a row of which there are reports.

    Both are -1 if all reports are of batches that were planned after the log was read. ``restarts`` are the batches
    with which the query was started again. The first that was reported may be one, too.
    """

    log: QueryLog
    first: int
    last: int
    restarts: frozenset[int]


def with_reports(log: QueryLog, reports: Sequence[BatchReport]) -> ReportedBatches:
    """Complete a log. Raises ``UsageError`` where log and reports, or two reports, contradict each other."""
    by_batch: dict[int, BatchReport] = {}
    runs: dict[int, list[str]] = defaultdict(list)
    for report in reports:
        runs[report.batch].append(report.run_id)
        one = by_batch.setdefault(report.batch, report)
        _must_agree(report.batch, ("one progress report", one), ("another", report))
    for planned in log.planned:
        if planned.batch in by_batch:
            _must_agree(
                planned.batch, ("the checkpoint", planned), ("its progress report", by_batch[planned.batch])
            )
    _must_follow(by_batch)
    oldest, newest = log.planned[0].batch, log.planned[-1].batch
    last = max((batch for batch in by_batch if batch <= newest), default=-1)
    first = last
    while first - 1 in by_batch:
        first -= 1
    gained = range(first, oldest) if last >= oldest - 1 else range(0)
    known = {*gained, *(batch.batch for batch in log.planned)}
    whole = replace(
        log,
        planned=[
            *(
                PlannedBatch(batch, by_batch[batch].watermark_ms, by_batch[batch].end_offsets)
                for batch in gained
            ),
            *log.planned,
        ],
        committed=log.committed | (by_batch.keys() & known),
    )
    return ReportedBatches(whole, first, last, frozenset(_restarts(runs, first, last)))


def _restarts(runs: Mapping[int, Sequence[str]], first: int, last: int) -> Iterable[int]:
    """The batches whose run is not that of the batch before, and those that were reported by two runs."""
    for batch in range(first, last + 1):
        if len(set(runs[batch])) > 1 or (batch > first and runs[batch][0] != runs[batch - 1][-1]):
            yield batch


def _must_agree(
    batch: int, one: tuple[str, PlannedBatch | BatchReport], other: tuple[str, PlannedBatch | BatchReport]
) -> None:
    """Raise unless both say the same of the watermark, and of the ends of the topics that both name."""
    (one_name, mine), (other_name, theirs) = one, other
    differs = ""
    if mine.watermark_ms != theirs.watermark_ms:
        differs = f"the watermark is {mine.watermark_ms} ms by {one_name}, and {theirs.watermark_ms} ms by {other_name}"
    for topic in mine.end_offsets.keys() & theirs.end_offsets.keys():
        if mine.end_offsets[topic] != theirs.end_offsets[topic]:
            differs = (
                f"{topic} ends at {mine.end_offsets[topic]} by {one_name}, and at {theirs.end_offsets[topic]} by"
                f" {other_name}"
            )
    if differs:
        raise UsageError(
            f"two sources contradict each other about batch {batch}",
            detail=differs,
            hint="name the reports of the query that wrote this checkpoint, and of no copy or rerun of it; a checkpoint"
            " that was edited or restored is not what the query wrote",
        )


def _must_follow(by_batch: Mapping[int, BatchReport]) -> None:
    """Raise unless each batch begins where the one before it ends."""
    for before, batch in pairwise(sorted(by_batch)):
        if batch != before + 1:
            continue
        ends, starts = by_batch[before].end_offsets, by_batch[batch].start_offsets
        for topic in ends.keys() & starts.keys():
            if _differs(ends[topic], starts[topic]):
                raise UsageError(
                    f"the progress reports of batches {before} and {batch} are not of one query",
                    detail=f"{topic} ends at {ends[topic]} in the first and begins at {starts[topic]} in the second",
                    hint="name the reports of the query that wrote this checkpoint, and of no copy or rerun of it",
                )


def _differs(ends: Mapping[str, int], starts: Mapping[str, int]) -> bool:
    """Whether a partition that both have begins elsewhere than it ended; a new partition is only in the later one."""
    return any(starts[part] != end for part, end in ends.items() if part in starts)
