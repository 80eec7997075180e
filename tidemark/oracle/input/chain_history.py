"""What happened to a chain: which rows of which source each batch read.

Free of I/O; decides nothing. A record is known by its number, in the order in which it was published; sentinels come
last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.formats import chain
from tidemark.formats.chain import Chain
from tidemark.formats.events import decode_object, time_reader
from tidemark.formats.evidence import Batch, InputRecord
from tidemark.formats.field_values import value_reader
from tidemark.formats.manifest import Manifest
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.input.rows import Row, passes
from tidemark.oracle.input.unreadable import Readable


@dataclass(frozen=True)
class ChainBatchRows:
    """One planned batch, and its rows by source. Its id is its index in ``ChainHistory.batches``."""

    plan: Batch
    rows: list[list[Row]]


@dataclass
class ChainHistory:
    """A run, ready to be judged. ``places`` says where each record was written, ``batch_of`` who read it.

    ``resent`` are the places of output records that are copies made by the producer, ``deaths`` those of drivers that
    nothing but a fault has caused (``tidemark.oracle.delivery``), once the judge has found them. ``absent`` counts, by
    topic, the offsets at which the trace has no record for a reader of committed records; sentinels have none.
    """

    chain: Chain
    manifest: Manifest
    places: list[tuple[str, int, int]] = field(default_factory=list)
    first_sentinel: int = 0
    batch_of: dict[int, int] = field(default_factory=dict)
    batches: list[ChainBatchRows] = field(default_factory=list)
    planned: int = 0
    gaps: list[tuple[int, str]] = field(default_factory=list)
    inconclusive: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    resent: frozenset[str] = frozenset()
    deaths: Mapping[int, int] = field(default_factory=dict)
    readable: list[Readable] = field(default_factory=list)
    absent: Counter[str] = field(default_factory=Counter)

    def place(self, record: int) -> str:
        """``topic/partition/offset``."""
        return "/".join(map(str, self.places[record]))

    def is_sentinel(self, row: Row) -> bool:
        """Whether a row is made of a sentinel."""
        return any(record >= self.first_sentinel for record in row.made_of)


def read_history(run: Evidence) -> ChainHistory:
    """Read a run; raises what the evidence raises if it is broken."""
    manifest = run.manifest
    history = ChainHistory(Chain.from_json(manifest.contract), manifest)
    reader = _Reader(history)
    for record in run.inputs():
        reader.add(record)
    history.readable = reader.readable
    history.inconclusive += [reason for topic in history.readable for reason in topic.reasons()]
    plans = sorted(run.batches(), key=lambda batch: batch.batch)
    history.planned = len(plans)
    for index, plan in enumerate(plans):
        gap = _gap(plans, index) or reader.backwards(plan)
        if gap:
            history.gaps.append((plan.batch, gap))
            break
        history.batches.append(ChainBatchRows(plan, reader.take(plan)))
    return history


def _gap(plans: Sequence[Batch], index: int) -> str:
    plan = plans[index]
    if plan.batch > index:
        return f"batch {index} is missing: batch {plan.batch} was planned after {index} batches"
    if plan.batch < index:
        return f"batch {plan.batch} is in the evidence twice"
    if index and not plans[index - 1].committed:
        return f"batch {index} was planned although batch {index - 1} was never committed"
    return ""


class _Reader:
    """Turns records into rows, and gives them to batches."""

    def __init__(self, history: ChainHistory) -> None:
        self._history = history
        self._readers = [row_reader(source) for source in history.chain.sources]
        self._records: dict[tuple[str, int], list[tuple[int, list[Row | None]]]] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._firsts: dict[tuple[str, int], int] = {}
        self._seen: set[tuple[Any, ...]] = set()
        self._readable: dict[str, Readable] = {}
        for source in history.chain.sources:
            self._readable.setdefault(source.topic, Readable(source))
        for topic, about in history.manifest.inputs.items():
            for partition, offset in about.start_offsets.items():
                self._positions[topic, int(partition)] = offset

    def add(self, record: InputRecord) -> None:
        """The next published record."""
        history, place = self._history, (record.topic, record.partition)
        number = len(history.places)
        history.places.append((record.topic, record.partition, record.offset))
        self._firsts.setdefault(place, record.offset)
        if record.is_absent and not record.is_sentinel:
            history.absent[record.topic] += 1
        rows = [
            self._row(number, record, source, read)
            for source, read in zip(history.chain.sources, self._readers, strict=True)
        ]
        self._records.setdefault(place, []).append((number, rows))
        if not record.is_sentinel:
            history.first_sentinel = number + 1

    def _row(self, number: int, record: InputRecord, source: chain.Source,
             read: Callable[[bytes | str | None], dict[str, Any] | None]) -> Row | None:  # fmt: skip
        """A record as a source gives it on; ``None`` if it reads another topic, does not let it pass, or is absent."""
        if record.topic != source.topic or record.is_absent:
            return None
        values, counts = read(record.value), self._history.counts
        first = source is next(one for one in self._history.chain.sources if one.topic == source.topic)
        if first and not record.is_sentinel:
            self._readable[source.topic].add(1, [record] if values is None else [])
        if values is None:
            counts["unreadable"] += first
            return None
        if any(values[name] is None for name in source.required):
            counts["null_key"] += first
            return None
        if first:
            whole = (source.topic, *values.values())
            counts["duplicate_events"] += whole in self._seen
            self._seen.add(whole)
        return Row(values, frozenset([number])) if passes(values, source.filters) else None

    @property
    def readable(self) -> list[Readable]:
        """How much of each topic is readable."""
        return list(self._readable.values())

    def backwards(self, plan: Batch) -> str:
        """What is wrong with the end offsets of a batch."""
        for place, end in _ends(plan):
            if end < self._positions.get(place, 0):
                start = self._positions[place]
                return (
                    f"batch {plan.batch} ends {place[0]}/{place[1]} at offset {end}, before its start {start}"
                )
        return ""

    def take(self, plan: Batch) -> list[list[Row]]:
        """The rows of a batch by source."""
        history = self._history
        taken: list[list[Row]] = [[] for _ in history.chain.sources]
        for place, end in _ends(plan):
            start = self._positions.get(place, 0)
            self._positions[place] = end
            first = self._firsts.get(place, start)
            records = self._records.get(place, [])[max(0, start - first) : max(0, end - first)]
            if len(records) < end - start:
                history.inconclusive.append(
                    f"batch {plan.batch} read {place[0]}/{place[1]} up to offset {end}, of which the evidence has"
                    f" only {len(records)} of {end - start} records"
                )
            for number, rows in records:
                history.batch_of[number] = plan.batch
                for mine, row in zip(taken, rows, strict=True):
                    mine += [row] if row is not None else []
        return taken


def _ends(plan: Batch) -> Iterable[tuple[tuple[str, int], int]]:
    return [
        ((topic, int(partition)), end)
        for topic, ends in plan.end_offsets.items()
        for partition, end in ends.items()
    ]


def row_reader(source: chain.Source) -> Callable[[bytes | str | None], dict[str, Any] | None]:
    """A function that gives the fields of a record; ``None`` if it cannot be read, or has no event time."""
    read_time = time_reader(source.time_field, source.time_format, source.time_zone)
    readers = {one.name: value_reader(one) for one in source.fields}

    def read(value: bytes | str | None) -> dict[str, Any] | None:
        found = decode_object(value)
        time_us = None if found is None else read_time(found)
        if found is None or time_us is None:
            return None
        return {name: of(found) for name, of in readers.items()} | {source.time: time_us}

    return read
