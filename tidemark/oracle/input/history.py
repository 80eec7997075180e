"""What happened, in columns: every input record as a row, every planned batch as two lists of rows.

Free of I/O and of clients; decides nothing: it reads an :class:`Evidence` and knows which batch read which
row, but not which row was late. A row is an ``int``; the columns of :class:`Rows` are indexed by it. A
million rows take about 200 MB, so there is no object per row.

An *identity* is one ``int`` for an output row: the left row and the right row that it is made of, or one row
alone (a NULL row of either side, a semi row). Identities are what predictions and output are compared by.
"""

from __future__ import annotations

import copy
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import count, islice
from typing import Any, Protocol

import msgspec
import numpy as np

from tidemark.formats.contract import PRESERVED, Contract, Side
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, OutputRecord, StateKey, StateRow
from tidemark.formats.faults import Fault
from tidemark.formats.manifest import Manifest
from tidemark.oracle.input.columns import ColumnReader, Columns
from tidemark.oracle.input.compared_values import ComparedValues
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.input.unreadable import Readable
from tidemark.oracle.spark.known_defects import FORMAT_4_MISSES_ROWS
from tidemark.oracle.spark.pushdown import Pushdown, as_planned, must_be_there, passes, place
from tidemark.oracle.spark.spark_spans import any_has_defect
from tidemark.oracle.spark.spark_versions import SparkRules, rules_of_spark
from tidemark.oracle.spark.time_ranges import (
    FIRST_FORMAT_BY_TIME,
    LEFT,
    NULL_TIME_US,
    RIGHT,
    US_PER_MS,
    window,
)

NO_KEY = -(1 << 62)
"""The key of a record that is no event."""
NO_BATCH = -1
ROW_BITS = 32
ROW_MASK = (1 << ROW_BITS) - 1
_CHUNK_RECORDS = 10_000


class Evidence(Protocol):
    """What the judge asks of a run; ``tidemark.formats.evidence.RunDirectory`` is one."""

    @property
    def manifest(self) -> Manifest:
        """The manifest, with the contract in it."""

    def inputs(self) -> Iterable[InputRecord]:
        """Every published record: per topic and partition in the order of offsets, sentinels last."""

    def batches(self) -> Sequence[Batch]:
        """The planned batches, by id."""

    def output(self) -> Iterable[OutputRecord]:
        """The records of the output topic."""

    def faults(self) -> Sequence[Fault]:
        """The journal of faults."""

    def progress(self) -> Sequence[dict[str, Any]]:
        """Spark's progress reports."""

    def state(self) -> Iterable[StateRow] | None:
        """The rows of the join's state after some batches; ``None``: it was not read."""

    def state_keys(self) -> Iterable[StateKey] | None:
        """The keys of that state, with Spark's count of the rows of each; ``None``: they were not read."""

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """Which executor had which state partition, by batch."""


class Disposition(IntEnum):
    """What became of an input row."""

    UNREAD = 0
    """No comparable batch read it."""
    UNREADABLE = 1
    """No event: filtered out upstream of the watermark."""
    FILTERED = 2
    """It fails a filter upstream of the watermark; so does a NULL join key where Spark infers ``IsNotNull``."""
    LATE = 3
    """At or before the late watermark of its batch: dropped."""
    ACCEPTED = 4
    """It takes part in the join."""


class Rows:
    """The columns. ``disposition`` here knows only ``UNREADABLE`` and ``FILTERED``; the rest the model says.

    ``time_us`` is the event time, or the end of its window (then ``event_us`` is the event time), or ``TIMELESS_US``.
    ``numbers`` are the fields that filters compare, by side.
    """

    def __init__(self) -> None:
        self.side = bytearray()
        self.id: list[str | None] = []
        self.key = array("q")  # its number in ``keys``, or ~number (below 0) if a part of it is NULL
        self.time_us = array("q")
        self.event_us = self.time_us
        self.numbers: tuple[dict[str, list[int | None]], dict[str, list[int | None]]] = ({}, {})
        self.batch = array("i")
        self.disposition = bytearray()
        self.keys: dict[tuple[str | None, ...], int] = {}
        self.first_sentinel = 0  # rows from here on are sentinels

    def __len__(self) -> int:
        return len(self.side)


@dataclass(frozen=True)
class Partition:
    """The rows of one topic partition, and their Kafka offsets, in order."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))

    def row_at(self, offset: int) -> int:
        """The row at a Kafka offset; raises ``IndexError`` if nothing is there."""
        index = offset - self.offsets[0]
        if not (0 <= index < len(self.offsets) and self.offsets[index] == offset):  # there are gaps before it
            index = bisect_left(self.offsets, offset)
            if self.offsets[index] != offset:
                raise IndexError(offset)
        return self.rows[index]

    def between(self, start: int, end: int) -> array[int]:
        """The rows of a range of offsets, ``end`` exclusive."""
        return self.rows[bisect_left(self.offsets, start) : bisect_left(self.offsets, end)]


@dataclass(frozen=True)
class BatchRows:
    """One planned batch and the rows it read, by side. Its id is its index in ``History.batches``."""

    plan: Batch
    rows: tuple[list[int], list[int]]


@dataclass
class History:
    """A run, ready to be judged. ``batches`` ends before the first whose rows cannot be known (``gaps``).

    ``contract`` is the join that the optimizer makes of what the contract says, ``placing`` where its filters are.
    ``resent`` are the places of output records that are copies made by the producer, ``deaths`` those of drivers that
    nothing but a fault has caused (``tidemark.oracle.delivery``), once the judge has found them.
    ``optional`` are the rows that fail nothing but a filter that Spark may infer (``tidemark.oracle.spark.pushdown``).
    ``rest`` is what is known of the rows of a large run that are not here. ``absent`` are rows
    of offsets at which the trace has no record for a reader of committed records. ``read_as`` are the sides as the
    contract describes them, where values that are compared are other things than BIGINTs: in ``contract`` they are
    numbers then.
    """

    contract: Contract
    pushdown: Pushdown
    manifest: Manifest
    rows: Rows
    partitions: tuple[dict[int, Partition], dict[int, Partition]]
    batches: list[BatchRows] = field(default_factory=list)
    gaps: list[tuple[int, str]] = field(default_factory=list)
    inconclusive: list[str] = field(default_factory=list)
    planned: int = 0
    resent: frozenset[str] = frozenset()
    deaths: Mapping[int, int] = field(default_factory=dict)
    readable: list[Readable] = field(default_factory=list)
    optional: set[int] = field(default_factory=set)
    rest: Rest | None = None
    absent: set[int] = field(default_factory=set)
    read_as: tuple[Side, Side] | None = None

    @property
    def by_time(self) -> bool:
        """Whether its state is of a format that finds and evicts rows by ranges of their times."""
        state = self.manifest.state
        return state is not None and (state.format or 0) >= FIRST_FORMAT_BY_TIME

    @property
    def spark(self) -> SparkRules:
        """The rules of the Spark that ran; of a query that was upgraded, of the last."""
        return rules_of_spark(self.manifest.versions)

    @property
    def misses_rows(self) -> bool:
        """Whether these ranges are too small: those of format 4 in Spark 4.2."""
        return self.by_time and any_has_defect(self.manifest, FORMAT_4_MISSES_ROWS)

    def absent_of(self, side: int) -> int:
        """How many offsets of one side have no record for a reader of committed records; sentinels have one."""
        return sum(self.rows.side[row] == side for row in self.absent)

    def side(self, side: int) -> Side:
        """The contract of one side."""
        return self.contract.right if side else self.contract.left

    def described(self, side: int) -> Side:
        """The contract of one side, with the types that its fields have in the records."""
        return self.side(side) if self.read_as is None else self.read_as[side]

    def key_of(self, row: int) -> tuple[str | None, ...]:
        """The join key of a row."""
        number = self.rows.key[row]
        unknown = (None,) * len(self.contract.left.keys)
        return self._key_of_number.get(number if number >= 0 else ~number, unknown)

    @cached_property
    def _key_of_number(self) -> dict[int, tuple[str | None, ...]]:
        return {number: key for key, number in self.rows.keys.items()}

    def position(self, row: int) -> tuple[int, int]:
        """Kafka partition and offset of a row: found, not stored, because only rows that are wrong are asked for."""
        for number, partition in self.partitions[self.rows.side[row]].items():
            index = bisect_left(partition.rows, row)
            if index < len(partition.rows) and partition.rows[index] == row:
                return number, partition.offsets[index]
        raise KeyError(row)

    def is_sentinel(self, row: int) -> bool:
        """Whether a row was published only to flush the query."""
        return row >= self.rows.first_sentinel

    def is_of_sentinel(self, identity: int) -> bool:
        """Whether a row that an output row is made of was published only to flush the query."""
        right = right_of(identity)
        return self.is_sentinel(first_of(identity)) or (right is not None and self.is_sentinel(right))


def pair(left_row: int, right_row: int) -> int:
    """The identity of a joined row."""
    return left_row << ROW_BITS | (right_row + 1)


def alone(row: int) -> int:
    """The identity of a NULL row, or of a semi row."""
    return row << ROW_BITS


def first_of(identity: int) -> int:
    """The left row of an identity; of a row alone that row, whichever side it is of."""
    return identity >> ROW_BITS


def right_of(identity: int) -> int | None:
    """The right row of an identity, or ``None``."""
    return ((identity & ROW_MASK) - 1) if identity & ROW_MASK else None


def empty_history(manifest: Manifest) -> History:
    """A history without rows and batches."""
    contract = as_planned(Contract.from_json(manifest.contract))
    return History(contract, place(contract), manifest, Rows(), ({}, {}))


def read_history(run: Evidence, rest: Rest | None = None) -> History:
    """Read inputs and batches of a run into columns; raises what the evidence raises if it is broken.

    ``rest`` is what is known of rows that the inputs leave out.
    """
    history = empty_history(run.manifest)
    history.rest = rest
    contract = Contract.from_json(run.manifest.contract)
    compared = ComparedValues(contract)
    if not compared.are_numbers:
        history.read_as = contract.left, contract.right
    _read_rows(history, run.inputs(), compared)
    if not compared.are_numbers:
        history.contract = as_planned(compared.ranked(history.rows.numbers))
        history.pushdown = replace(place(history.contract), limits_ms=history.pushdown.limits_ms)
    _filter_rows(history)
    read_batches(history, run.batches())
    return history


def under_contract(history: History, contract: Contract) -> History:
    """The same rows under a contract that reads the same fields of the same records, by the same windows.

    Kind, range of times, delays, policy and filters may differ. What follows from them is made anew; other columns are
    shared, so that it costs little. Needs fields that are compared as BIGINTs (``read_as`` is ``None``).
    """
    planned, rows = as_planned(contract), copy.copy(history.rows)
    unread = (Disposition.UNREADABLE, Disposition.UNREAD)
    rows.disposition = bytearray([unread[one != Disposition.UNREADABLE] for one in history.rows.disposition])
    manifest = msgspec.structs.replace(history.manifest, contract=contract.to_json())
    changed = replace(
        history, contract=planned, pushdown=place(planned), manifest=manifest, rows=rows, optional=set()
    )
    _filter_rows(changed)
    return changed


def _read_rows(history: History, inputs: Iterable[InputRecord], compared: ComparedValues) -> None:
    rows, rest = history.rows, iter(inputs)
    readers = [
        ColumnReader(history.described(side), history.pushdown.fields[side], compared.scales(side))
        for side in (LEFT, RIGHT)
    ]
    sides = {history.side(side).topic: side for side in (LEFT, RIGHT)}
    readable = [Readable(history.side(side)) for side in (LEFT, RIGHT)]
    history.readable = readable if history.rest is None else history.rest.readable
    first_sentinel: int | None = None
    while chunk := list(islice(rest, _CHUNK_RECORDS)):
        # Sentinels come last, so that one row number parts them from the others.
        for is_sentinel in (False, True) if chunk[-1].is_sentinel else (False,):
            for topic, side in sides.items():
                some = [one for one in chunk if one.topic == topic and one.is_sentinel == is_sentinel]
                if is_sentinel and first_sentinel is None:
                    first_sentinel = len(rows)
                columns = readers[side].read([one.value for one in some])
                unreadable = _add_rows(history, side, some, columns)
                if not is_sentinel:
                    absent = sum(one.is_absent for one in some)
                    events = [one for one in unreadable if not one.is_absent] if absent else unreadable
                    readable[side].add(len(some) - absent, events)
    history.inconclusive += [reason for side in history.readable for reason in side.reasons()]
    _take_windows(history)
    rows.batch = array("i", [NO_BATCH]) * len(rows)
    rows.first_sentinel = len(rows) if first_sentinel is None else first_sentinel


def _add_rows(history: History, side: int, records: list[InputRecord], columns: Columns) -> list[InputRecord]:
    """Append records of one side, and give the unreadable ones. A key's number is the row that had it first."""
    rows, first = history.rows, len(history.rows)
    for row, record in enumerate(records, first):
        partition = history.partitions[side].get(record.partition)
        if partition is None:
            partition = history.partitions[side][record.partition] = Partition()
        partition.rows.append(row)
        partition.offsets.append(record.offset)
    rows.side += bytes([side]) * len(records)
    rows.disposition += bytes([Disposition.UNREAD]) * len(records)
    rows.id += columns.id
    rows.key.extend(map(rows.keys.setdefault, columns.key, count(first)))
    rows.time_us.extend([0 if time_us is None else time_us for time_us in columns.time_us])
    null_time = [first + at for at, time_us in enumerate(columns.time_us) if time_us is None]
    history.absent.update(row for row in null_time if records[row - first].is_absent)
    if history.side(side).keeps_null_event_time:
        for row in null_time:
            rows.time_us[row] = NULL_TIME_US
        null_time = [row for row in null_time if row in history.absent]
    for name in history.pushdown.fields[side]:
        known = rows.numbers[side].setdefault(name, [])
        known += [None] * (first - len(known)) + columns.numbers[name]
    for row in [first + at for at, key in enumerate(columns.key) if None in key]:
        rows.key[row] = ~rows.key[row]
    for row in null_time:
        rows.key[row], rows.disposition[row], rows.id[row] = NO_KEY, Disposition.UNREADABLE, None
    return [records[row - first] for row in null_time]


def _filter_rows(history: History) -> None:
    """Mark rows that fail a filter upstream of the watermark, ``IsNotNull`` of what the condition compares included."""
    rows, kind = history.rows, history.contract.kind
    if not rows.side:
        return
    of_side = [
        np.flatnonzero(np.frombuffer(rows.side, dtype=np.uint8) == side).tolist() for side in (LEFT, RIGHT)
    ]
    for side in (LEFT, RIGHT):
        numbers = rows.numbers[side]
        readable = [row for row in of_side[side] if rows.disposition[row] != Disposition.UNREADABLE]
        failed = {
            row for what in history.pushdown.below[side] for row in readable
            if not passes(numbers[what.field][row], what)
        } | {
            row for name in must_be_there(history.pushdown, side, kind) for row in readable
            if numbers[name][row] is None
        }  # fmt: skip
        if side not in PRESERVED.get(kind, ()):
            failed.update(row for row in readable if rows.key[row] < 0)
            if not window(history.contract.bound).is_boundless:
                failed.update(row for row in readable if rows.time_us[row] == NULL_TIME_US)
        for row in failed:
            rows.disposition[row] = Disposition.FILTERED
        for what in history.pushdown.inferable[side]:
            for row in readable:
                if row not in failed and not passes(numbers[what.field][row], what):
                    rows.disposition[row] = Disposition.FILTERED
                    history.optional.add(row)


def _take_windows(history: History) -> None:
    """Put the end of its window in the place of each event time."""
    rows, length_ms = history.rows, history.contract.bound.window_ms
    if length_ms is None:
        return
    length_us = length_ms * US_PER_MS
    rows.event_us = rows.time_us
    rows.time_us = array("q", [(time_us // length_us + 1) * length_us for time_us in rows.event_us])


def read_batches(history: History, batches: Iterable[Batch]) -> None:
    """Give rows to batches, up to the first batch that is missing or whose offsets make no sense."""
    plans = sorted(batches, key=lambda batch: batch.batch)
    history.planned = len(plans)
    positions: list[dict[int, int]] = [{}, {}]
    for side in (LEFT, RIGHT):
        topic = history.manifest.inputs.get(history.side(side).topic)
        if topic is not None:
            positions[side] = {int(number): offset for number, offset in topic.start_offsets.items()}
    for index, plan in enumerate(plans):
        gap = _gap(plans, index) or _backwards(history, plan, positions)
        if gap:
            history.gaps.append((plan.batch, gap))
            return
        taken = _take(history, plan, LEFT, positions[LEFT]), _take(history, plan, RIGHT, positions[RIGHT])
        history.batches.append(BatchRows(plan, taken))


def _gap(plans: Sequence[Batch], index: int) -> str:
    plan = plans[index]
    if plan.batch > index:
        missing = f"batch {index}" if plan.batch == index + 1 else f"batches {index} to {plan.batch - 1}"
        return f"{missing} missing: batch {plan.batch} was planned after {_after(index)}"
    if plan.batch < index:
        return f"batch {plan.batch} is in the evidence twice"
    if index and not plans[index - 1].committed:
        return f"batch {index} was planned although batch {index - 1} was never committed"
    return ""


def _after(index: int) -> str:
    return f"batch {index - 1}" if index else "nothing"


def _backwards(history: History, plan: Batch, positions: list[dict[int, int]]) -> str:
    for side in (LEFT, RIGHT):
        topic = history.side(side).topic
        for partition, end in plan.end_offsets.get(topic, {}).items():
            start = positions[side].get(int(partition), 0)
            if end < start:
                return (
                    f"batch {plan.batch} ends {topic}/{partition} at offset {end}, before its start {start}"
                )
    return ""


def _take(history: History, plan: Batch, side: int, positions: dict[int, int]) -> list[int]:
    taken: list[int] = []
    topic, batch_of = history.side(side).topic, history.rows.batch
    for name, end in plan.end_offsets.get(topic, {}).items():
        number = int(name)
        start = positions.get(number, 0)
        positions[number] = end
        partition = history.partitions[side].get(number)
        rows = partition.between(start, end) if partition else array("q")
        if len(rows) < end - start and history.rest is None:
            history.inconclusive.append(
                f"batch {plan.batch} read {topic}/{name} up to offset {end}, of which the evidence has only"
                f" {len(rows)} of {end - start} records"
            )
        for row in rows:
            batch_of[row] = plan.batch
        taken += rows
    return taken
