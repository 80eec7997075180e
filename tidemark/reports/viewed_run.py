"""Makes the data of a run's picture (``tidemark.reports.run_view``) of its evidence and its verdict.

This module judges nothing: the verdict says which rows are late, due or wrong. A number that the evidence does not have
is left out, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tidemark.errors import TidemarkError
from tidemark.formats.chain import Chain
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import Batch, ExecutorAssignment, RunDirectory
from tidemark.formats.manifest import Manifest
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle import Verdict
from tidemark.oracle.spark.pushdown import as_planned, place
from tidemark.oracle.spark.time_ranges import state_ms
from tidemark.reports import batch_counts
from tidemark.reports.batch_counts import (
    InputCounts,
    OutputCounts,
    count_inputs,
    count_output,
    ends_of,
    inputs_of,
    size_of,
)
from tidemark.reports.component_tracks import Span, component_tracks, fault_views, time_ms
from tidemark.reports.followed_rows import follow_rows
from tidemark.reports.large_counts import count_large_inputs, count_large_output
from tidemark.reports.output_by_reading import batch_that_read, count_by_reading
from tidemark.reports.row_life import RowLives
from tidemark.reports.run_view import BatchView, InputOfBatch, InputView, OperatorOfBatch, RunView

T = TypeVar("T")
Count = Callable[[RunDirectory, Contract | Chain, Sequence[Batch]], T | None]
"""Counts of a run, by batch; ``None`` if that cannot be done so."""
WHOLE_DURATION = "triggerExecution"
"""The entry of ``durationMs`` that all phases are a part of."""
_TIMES = {"allUpdatesTimeMs": "updates", "allRemovalsTimeMs": "removals", "commitTimeMs": "commit"}


def run_view(run: RunDirectory, verdict: Verdict) -> RunView:
    """The view of a run; raises ``BrokenEvidence`` if it cannot be read."""
    return _Viewed(run, verdict).view()


class _Viewed:
    """One run on its way into a view."""

    def __init__(self, run: RunDirectory, verdict: Verdict) -> None:
        self._run, self._verdict = run, verdict
        self._manifest: Manifest = run.manifest
        self._contract: Contract | Chain = run.contract
        self._inputs = inputs_of(self._contract)
        self._join = None if isinstance(self._contract, Chain) else as_planned(self._contract)
        self._limits_ms: Sequence[Sequence[int]] = (
            ((), ()) if self._join is None else place(self._join).limits_ms
        )
        self._plans: list[Batch] = run.batches()
        self._notes: list[str] = []
        self._last_ms = 0
        self._size = size_of(self._manifest)
        self._is_by_reading = False

    def view(self) -> RunView:
        """All of it."""
        assignments = self._run.executor_assignments()
        batches = [self._planned(at) for at in range(len(self._plans))]
        self._count_input(batches)
        self._count_output(batches)
        self._add_reports(batches)
        _add_executors(batches, assignments)
        self._mark_findings(batches)
        faults = fault_views(self._run.faults(), assignments)
        lives = self._lives()
        spans = {batch.batch: _span(batch) for batch in batches if batch.started_ms is not None}
        return RunView(
            rows=self._rows_word(),
            inputs=self._input_views(),
            batches=batches,
            faults=faults,
            tracks=component_tracks(spans, assignments, faults),
            last_ms=self._last_ms,
            is_by_reading=self._is_by_reading,
            notes=self._notes,
            lives=lives,
        )

    def _lives(self) -> RowLives:
        """The rows that are followed; a row that cannot be followed hides nothing else."""
        try:
            return follow_rows(self._run, self._verdict)
        except TidemarkError:
            raise
        except Exception as error:  # noqa: BLE001 (the rest of the page says what is wrong without them)
            return RowLives(notes=[f"no row could be followed: {type(error).__name__}: {error}"])

    def _rows_word(self) -> str:
        if isinstance(self._contract, Chain):
            return "rows"
        return "joined rows" if self._contract.output.right_id else "semi rows"

    def _input_views(self) -> list[InputView]:
        topics = self._manifest.inputs
        return [
            InputView(
                name=one.topic,
                topic=topics[one.topic].topic if one.topic in topics else one.topic,
                delay_ms=one.watermark_delay_ms,
            )
            for one in self._inputs
        ]

    def _planned(self, at: int) -> BatchView:
        """A batch as it was planned."""
        plan, inputs = self._plans[at], []
        before = self._plans[at - 1].end_offsets if at else {}
        for number, one in enumerate(self._inputs):
            topic, ends = self._manifest.inputs.get(one.topic), plan.end_offsets.get(one.topic, {})
            starts = (topic.start_offsets if topic is not None else {}) | before.get(one.topic, {})
            rows = sum(end - starts.get(partition, 0) for partition, end in ends.items())
            inputs.append(InputOfBatch(rows=rows, ends=ends, state_ms=self._state_ms(number, plan)))
        return BatchView(
            batch=plan.batch,
            inputs=inputs,
            watermark_ms=max(plan.watermark_ms, 0),
            late_watermark_ms=max(self._plans[at - 1].watermark_ms, 0) if at else 0,
            committed=plan.committed,
            runs=plan.runs,
            restarted=plan.restarted,
            failed_tasks=plan.failed_tasks,
        )

    def _state_ms(self, side: int, plan: Batch) -> int | None:
        """The state watermark of a side of one join."""
        if self._join is None or plan.watermark_ms <= 0:
            return None
        return state_ms(self._join, side, plan.watermark_ms, self._limits_ms[side])

    def _count_input(self, batches: list[BatchView]) -> None:
        counted = self._counts(count_large_inputs, count_inputs)
        if counted is None:
            self._notes.append(f"{self._size:,} records: event times of the inputs are not drawn")
            return
        late = sum(sum(one.late) for one in counted)
        if late == self._verdict.counts.get("late") and not isinstance(self._contract, Chain):
            for at, batch in enumerate(batches):
                for one, mine in zip(counted, batch.inputs, strict=True):
                    mine.late = one.late[at]
        self._last_ms = max(one.last_ms for one in counted)
        self._follow_watermark(batches, counted)

    def _counts(self, large: Count[T], small: Count[T]) -> T | None:
        """What one of these counts, by the number of records; ``None`` if there are too many."""
        found = None
        if batch_counts.SMALL_RECORDS < self._size <= batch_counts.LARGEST_RECORDS:
            found = large(self._run, self._contract, self._plans)
        if found is None and self._size <= batch_counts.COUNTED_RECORDS:
            found = small(self._run, self._contract, self._plans)
        return found

    def _follow_watermark(self, batches: list[BatchView], counted: list[InputCounts]) -> None:
        """Which input holds the watermark back; a query that was started again has forgotten what inputs have shown."""
        tracker = WatermarkTracker([one.watermark_delay_ms for one in self._inputs], self._contract.policy)
        latest: list[int | None] = [None] * len(self._inputs)
        for at, batch in enumerate(batches):
            batch.held_by, batch.waits = tracker.held_by()
            if batch.restarted:
                tracker.restart()
            for number, one in enumerate(counted):
                seen_ms = one.latest_ms[at]
                if seen_ms is not None:
                    tracker.observe(number, seen_ms)
                    known_ms = latest[number]
                    latest[number] = seen_ms if known_ms is None else max(known_ms, seen_ms)
                batch.inputs[number].latest_ms = latest[number]
            tracker.advance()

    def _count_output(self, batches: list[BatchView]) -> None:
        written = self._counts(count_large_output, count_output)
        if written is None:
            self._notes.append(f"{self._size:,} records: rows out are as Spark reports them")
            return
        if written.unplaced and not any((*written.joined, *written.nulls)):
            written = self._by_reading() or written
        if written.unplaced:
            self._notes.append(
                f"{written.unplaced:,} output records name no batch, or cannot be read: they are not drawn"
            )
        if written.unplaced and not any((*written.joined, *written.nulls)):
            return
        for at, batch in enumerate(batches):
            batch.joined, batch.nulls = written.joined[at], written.nulls[at]
            batch.repeated = None if written.repeated is None else written.repeated[at]

    def _by_reading(self) -> OutputCounts | None:
        """The output of a query whose records name no batch; ``None`` where that cannot be said in a second."""
        if isinstance(self._contract, Chain) or self._size > batch_counts.SMALL_RECORDS:
            return None
        self._is_by_reading = True
        return count_by_reading(self._run, self._contract, self._plans)

    def _add_reports(self, batches: list[BatchView]) -> None:
        reports = {int(report["batchId"]): report for report in self._run.progress()}
        for batch in batches:
            if batch.batch in reports:
                _add_report(batch, reports[batch.batch])
        without = sum(batch.started_ms is None for batch in batches)
        if without == len(batches) and batches:
            self._notes.append(
                "there are no progress reports of Spark: batches have no wall clock, durations or state sizes"
            )
        elif without:
            self._notes.append(f"{without:,} batches have no progress report of Spark, and so no wall clock")

    def _mark_findings(self, batches: list[BatchView]) -> None:
        """Count the examples of findings in the batch that they name, or that read the last of their records."""
        by_number = {batch.batch: batch for batch in batches}
        ends = ends_of(self._manifest, self._plans)
        for finding in self._verdict.findings:
            number = finding.batch
            if number is None:
                number = batch_that_read(finding.written, ends, self._plans)
            batch = None if number is None else by_number.get(number)
            if batch is not None:
                batch.findings = {
                    **batch.findings,
                    finding.property: batch.findings.get(finding.property, 0) + 1,
                }


def _add_report(batch: BatchView, report: Mapping[str, Any]) -> None:
    """Add what Spark reports of a batch; fields that a version does not have are left out."""
    batch.started_ms = time_ms(report.get("timestamp"))
    durations = {str(name): _number(ms) for name, ms in _object(report.get("durationMs")).items()}
    batch.duration_ms = durations.pop(WHOLE_DURATION, None)
    if batch.duration_ms is None and "batchDuration" in report:
        batch.duration_ms = _number(report["batchDuration"])
    batch.phases_ms = durations
    out = _object(report.get("sink")).get("numOutputRows")
    batch.out = _number(out) if out is not None and _number(out) >= 0 else None
    operators = [_operator(one) for one in report.get("stateOperators") or ()]
    if operators:
        batch.operators = operators
        batch.state_rows = sum(one.kept for one in operators)
        batch.state_bytes = sum(one.bytes for one in operators)
        batch.dropped = sum(one.dropped for one in operators)


def _operator(report: Mapping[str, Any]) -> OperatorOfBatch:
    return OperatorOfBatch(
        name=str(report.get("operatorName", "")),
        kept=_number(report.get("numRowsTotal")),
        stored=_number(report.get("numRowsUpdated")),
        removed=_number(report.get("numRowsRemoved")),
        dropped=_number(report.get("numRowsDroppedByWatermark")),
        bytes=_number(report.get("memoryUsedBytes")),
        times_ms={word: _number(report[name]) for name, word in _TIMES.items() if name in report},
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return round(value) if isinstance(value, int | float) else 0


def _add_executors(batches: list[BatchView], assignments: list[ExecutorAssignment]) -> None:
    by_number = {batch.batch: batch for batch in batches}
    for assignment in assignments:
        if (batch := by_number.get(assignment.batch)) is not None:
            batch.executors = sorted(set(assignment.executors.values()))
            batch.lost_executors = assignment.lost


def _span(batch: BatchView) -> Span:
    begin = batch.started_ms or 0
    return begin, begin + (batch.duration_ms or 0)
