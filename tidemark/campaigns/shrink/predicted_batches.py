"""The run of a case without Spark: its input, and the batches that Spark will plan, as evidence without output.

Free of Kafka and Spark. A backlog is cut as Spark's Kafka source does (``KafkaMicroBatchStream.rateLimit``), a no-data
batch follows where the watermark has moved, if it evicts anything (``shouldRunAnotherBatch`` of
``StreamingSymmetricHashJoinExec``). What is predicted is compared with what a run planned (``is_as_planned``) before
anybody relies on it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tidemark.campaigns.case import NO_DATA, Case
from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import (
    FORMAT,
    Batch,
    ExecutorAssignment,
    InputRecord,
    OutputRecord,
    StateKey,
    StateRow,
)
from tidemark.formats.faults import Fault
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.formats.trace import Record
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.input.history import Disposition, History, read_batches, read_history
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, state_ms
from tidemark.sparkfiles.checkpoint import STATE_FORMAT

Ends = dict[str, dict[int, int]]
"""Topic -> partition -> how many of its records were read."""


@dataclass
class PredictedRun:
    """Evidence of a run that never was; ``planned`` are its batches."""

    case: Case
    spark: str
    planned: list[Batch] = field(default_factory=list)

    @property
    def manifest(self) -> Manifest:
        """The manifest of such a run."""
        case, ends = self.case, _published([*self.case.records, *self.case.flush], self.case)
        asked = case.conf.get(STATE_FORMAT)
        return Manifest(
            tidemark_evidence=FORMAT,
            contract=case.contract.to_json(),
            delivery=Delivery.AT_LEAST_ONCE,
            pace=case.pace,
            inputs={
                topic: InputTopic(topic, {str(part): 0 for part in ends[topic]}, _as_text(ends[topic]))
                for topic in case.topics
            },
            versions={"spark": self.spark},
            state=StateInfo(format=int(asked)) if asked else None,
        )

    def inputs(self) -> Iterator[InputRecord]:
        """Every record with its offset, sentinels last."""
        first = len(self.case.records)
        for at, (record, offset) in enumerate(with_offsets([*self.case.records, *self.case.flush])):
            value = record.text_or_bytes()
            yield InputRecord(record.topic, record.partition, offset, value, at >= first, record.is_absent)

    def batches(self) -> Sequence[Batch]:
        """The batches that were predicted."""
        return self.planned

    def output(self) -> Iterable[OutputRecord]:
        """None."""
        return ()

    def faults(self) -> Sequence[Fault]:
        """None."""
        return ()

    def progress(self) -> Sequence[dict[str, Any]]:
        """None."""
        return ()

    def state(self) -> Iterable[StateRow] | None:
        """It was not read."""
        return None

    def state_keys(self) -> Iterable[StateKey] | None:
        """They were not read."""
        return None

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """None."""
        return ()


def predicted_history(case: Case, spark: str) -> History | None:
    """What a case's run will have read in which batch; ``None`` where Spark has a choice, or nobody knows.

    Raises ``ValueError`` or ``TypeError`` for records or a contract that cannot be read.
    """
    is_chain = isinstance(case.contract, ChainInputs)
    if is_chain or case.mode == "interrupted" or case.pipeline.endswith(".json"):
        return None
    run = PredictedRun(case, spark)
    history = read_history(run)
    if history.optional:
        return None
    run.planned = _Plan(case, history).batches()
    read_batches(history, run.planned)
    return history


def is_as_planned(history: History, batches: Sequence[Batch]) -> bool:
    """Whether a run planned the batches that were predicted."""
    told = [(batch.plan.watermark_ms, batch.plan.end_offsets) for batch in history.batches]
    return told == [(batch.watermark_ms, batch.end_offsets) for batch in batches]


def records_by_batch(case: Case, batches: Sequence[Batch]) -> Iterator[tuple[Record, int]]:
    """Each record of the trace, and the number of the batch that read it; of one that none read, of the one after."""
    for record, offset in with_offsets(case.records):
        part = str(record.partition)
        ends = (batch.end_offsets.get(record.topic, {}).get(part, 0) for batch in batches)
        yield record, next((at for at, end in enumerate(ends) if offset < end), len(batches))


def with_offsets(
    records: Iterable[Record], starts: Mapping[tuple[str, int], int] = MappingProxyType({})
) -> Iterator[tuple[Record, int]]:
    """Each record with its offset; ``starts`` are the first offsets of partitions that do not begin at 0."""
    offsets: Counter[tuple[str, int]] = Counter(starts)
    for record in records:
        place = record.topic, record.partition
        yield record, offsets[place]
        offsets[place] += 1


def _published(records: Iterable[Record], case: Case) -> Ends:
    ends: Ends = {topic: dict.fromkeys(range(case.partitions), 0) for topic in case.topics}
    for record in records:
        ends[record.topic][record.partition] += 1
    return ends


def _as_text(ends: Mapping[int, int]) -> dict[str, int]:
    return {str(part): end for part, end in ends.items()}


class _Plan:
    """The batches of one case, made one after the other."""

    def __init__(self, case: Case, history: History) -> None:
        contract = history.contract
        delays_ms = contract.left.watermark_delay_ms, contract.right.watermark_delay_ms
        self._case, self._history = case, history
        self._tracker = WatermarkTracker(delays_ms, contract.policy)
        self._read: Ends = {topic: dict.fromkeys(range(case.partitions), 0) for topic in case.topics}
        self._made: list[Batch] = []
        limits_ms = history.pushdown.limits_ms
        self._evicts = any(state_ms(contract, one, 0, limits_ms[one]) is not None for one in (LEFT, RIGHT))
        self._is_new = False

    def batches(self) -> list[Batch]:
        case, slices = self._case, defaultdict[int, list[Record]](list)
        for record in case.records:
            slices[record.slice].append(record)
        parts = [slices[number] for number in range(case.slices)]
        if case.mode == "backlog":
            parts = [[record for some in parts for record in some]]
        flush = [[one for one in case.flush if one.slice == number] for number in range(case.rounds)]
        published: list[Record] = []
        for at, some in enumerate([*parts, *flush]):
            published += some
            self._is_new = at > 0 and case.mode != "followed"
            if self._is_new:
                self._tracker.restart()
            self._to_the_end(_published(published, case))
        return self._made

    def _to_the_end(self, ends: Ends) -> None:
        """All batches until everything is read and the watermark stands still."""
        while self._read != ends:
            self._read = {topic: self._limited(topic, ends[topic]) for topic in ends}
            self._add()
        moved = bool(self._made) and self._tracker.watermark_ms > self._made[-1].watermark_ms
        if moved and self._evicts and self._case.conf.get(NO_DATA) != "false":
            self._add()

    def _limited(self, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
        limit, read = self._case.limits.get(topic), self._read[topic]
        left = {part: end - read[part] for part, end in ends.items()}
        total = sum(left.values())
        if limit is None or not total:
            return dict(ends)
        shares = {part: limit * (many / total) for part, many in left.items()}
        taken = {part: math.ceil(one) if one < 1 else math.floor(one) for part, one in shares.items()}
        return {part: min(ends[part], read[part] + taken[part]) for part in ends}

    def _add(self) -> None:
        before = self._made[-1].end_offsets if self._made else {}
        ends = {topic: _as_text(parts) for topic, parts in self._read.items()}
        batch = Batch(
            batch=len(self._made), watermark_ms=self._tracker.watermark_ms, end_offsets=ends,
            restarted=self._is_new,
        )  # fmt: skip
        self._is_new = False
        self._made.append(batch)
        for side, topic in ((LEFT, self._case.topics[0]), (RIGHT, self._case.topics[1])):
            for part, end in ends[topic].items():
                self._observe(side, int(part), before.get(topic, {}).get(part, 0), end)
        self._tracker.advance()

    def _observe(self, side: int, part: int, start: int, end: int) -> None:
        rows, partition = self._history.rows, self._history.partitions[side].get(part)
        if partition is None or self._history.side(side).watermark_delay_ms is None:
            return
        for row in partition.between(start, end):
            if rows.disposition[row] == Disposition.UNREAD:
                time_us = rows.event_us[row]
                self._tracker.observe(side, 0 if time_us == NULL_TIME_US else time_us // US_PER_MS)
