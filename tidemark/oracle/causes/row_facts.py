"""The facts of the output rows of a join: their times, keys, batches, and every value of the records they are made of.

Free of I/O; decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from tidemark.formats.contract import Side
from tidemark.formats.events import decode_object
from tidemark.formats.evidence import InputRecord
from tidemark.formats.record_fields import text_of_path
from tidemark.oracle.causes.cause_lines import OutputRow
from tidemark.oracle.causes.common_facts import Common, Fact, Facts, Kind, Value, duration
from tidemark.oracle.input.history import NO_BATCH, Disposition, History, first_of, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import FOREVER_US, LEFT, NULL_TIME_US, RIGHT, US_PER_MS, window

_FIELDS = 60
"""So many values of a record are looked at."""
_DEPTH = 6
_ENTRIES = 3
"""So many entries of an array are looked at."""


class RowFacts:
    """The facts of the rows of one run."""

    def __init__(self, history: History, prediction: Prediction, inputs: Iterable[InputRecord]) -> None:
        self._history = history
        self._prediction = prediction
        self._inputs = inputs
        self._values: dict[int, dict[Fact, Value]] = {}
        self._plans = {one.plan.batch: one.plan for one in history.batches}
        rows = history.rows
        self._sent = Counter(zip(rows.side, rows.id, strict=True))
        sides = (history.side(LEFT), history.side(RIGHT))
        self._times = [f"{side.topic}.{side.time}" for side in sides]
        limits = window(history.contract.bound)
        self._from_left = limits.lower_us + limits.upper_us < 0
        later, earlier = (RIGHT, LEFT) if self._from_left else (LEFT, RIGHT)
        self._distance = Fact(f"{self._times[later]} - {self._times[earlier]}", Kind.DURATION)
        """How far the times of a pair are apart: that of the side that mostly comes later, less the other."""
        ends = (-limits.upper_us, -limits.lower_us) if self._from_left else (limits.lower_us, limits.upper_us)
        self._ends = min(ends), max(ends)
        self._of_keys: set[Fact] = set()
        self._beyond: set[Fact] = set()

    def shape(self, row: OutputRow) -> bool:
        """Whether it is a pair: pairs are compared with pairs."""
        return right_of(row[0]) is not None

    def is_of_input(self, fact: Fact) -> bool:
        """Whether it is a value of a record, or says that keys differ, or times by more than the bound permits."""
        return fact.kind is Kind.VALUE or fact in self._of_keys or fact in self._beyond

    def about(self, common: Common) -> str:
        """What a distance is to the contract's bound; nothing about other facts."""
        low, high = self._ends
        if common.fact != self._distance and common.fact not in self._beyond:
            return ""
        if common.value in self._ends:
            return f"; that is the {'lower' if common.value == low else 'upper'} end of the contract's bound"
        return f"; the contract's bound is {_end(low)} to {_end(high)}"

    def read(self, rows: Iterable[OutputRow]) -> None:
        """Read the records that these rows are made of: one pass over all of them."""
        wanted: dict[tuple[str, int, int], int] = {}
        for row in {one for identity, _ in rows for one in _made_of(identity)} - self._values.keys():
            partition, offset = self._history.position(row)
            wanted[self._side(row).topic, partition, offset] = row
        for record in self._inputs if wanted else ():
            row = wanted.get((record.topic, record.partition, record.offset), -1)
            if row >= 0:
                self._values[row] = _of_record(self._side(row), decode_object(record.value) or {})

    def of(self, row: OutputRow) -> Facts:
        """The facts of a row, in the order in which they are named where several tell the same."""
        identity, batch = row
        facts: dict[Fact, Value] = {}
        made_of = _made_of(identity)
        if len(made_of) > 1:
            facts.update(self._of_pair(*made_of))
        for one in made_of:
            names = self._side(one).keys
            keys = zip(names, self._history.key_of(one), strict=True)
            facts.update({Fact(f"{self._side(one).topic}.{name}"): value for name, value in keys})
            facts.update(self._values.get(one, {}))
        for one in made_of:
            facts.update(self._of_similar_fields(one))
        facts.update(self._of_batches(made_of, identity, batch))
        return facts

    def of_copy(self, row: OutputRow) -> Facts:
        """Whether the batch in which a row is due wrote it again, although it ran once: so the query makes copies."""
        identity, batch = row
        plan = self._plans.get(batch)
        if plan is None or plan.runs > 1 or self._prediction.batch_of.get(identity) != batch:
            return {}
        return {Fact("its batch, which ran once, wrote it more than once", Kind.DEVIATION): True}

    def _of_similar_fields(self, row: int) -> Iterator[tuple[Fact, Value]]:
        """Which fields of a record are not equal to a key of it: one that mostly is may be joined by mistake."""
        side, values = self._side(row), self._values.get(row, {})
        for name in side.keys:
            key = Fact(f"{side.topic}.{text_of_path(side.field(name).path)}")
            mine = values.get(key)
            for fact, value in values.items() if mine is not None else ():
                if fact != key and type(value) is type(mine):
                    differs = Fact(f"{fact.name} <> {key.name}", Kind.STATEMENT)
                    self._of_keys.add(differs)
                    yield differs, value != mine

    def _of_pair(self, left: int, right: int) -> Iterator[tuple[Fact, Value]]:
        rows = self._history.rows
        apart = rows.time_us[left] - rows.time_us[right]
        if NULL_TIME_US not in (rows.time_us[left], rows.time_us[right]):
            distance = -apart if self._from_left else apart
            yield self._distance, distance
            if not self._ends[0] <= distance <= self._ends[1]:
                where = "below" if distance < self._ends[0] else "above"
                beyond = Fact(f"{self._distance.name} is {where} the contract's bound", Kind.DEVIATION)
                self._beyond.add(beyond)
                yield beyond, True
        pairs = zip(
            self._history.contract.left.keys,
            self._history.contract.right.keys,
            self._history.key_of(left),
            self._history.key_of(right),
            strict=True,
        )
        topics = self._side(left).topic, self._side(right).topic
        differ = [f"{topics[0]}.{mine} <> {topics[1]}.{its}" for mine, its, one, two in pairs if one != two]
        if differ:
            fact = Fact(" and ".join(differ), Kind.DEVIATION)
            self._of_keys.add(fact)
            yield fact, True
        batches = rows.batch[left], rows.batch[right]
        if NO_BATCH not in batches:
            yield Fact("one batch read both records", Kind.STATEMENT), batches[0] == batches[1]
            yield Fact("different batches read its two records", Kind.STATEMENT), batches[0] != batches[1]

    def _of_batches(self, made_of: Sequence[int], identity: int, batch: int) -> Iterator[tuple[Fact, Value]]:
        rows = self._history.rows
        is_twice = any(self._sent[rows.side[one], rows.id[one]] > 1 for one in made_of)
        yield Fact("a producer sent one of its ids twice", Kind.STATEMENT), is_twice
        due = self._prediction.batch_of.get(identity, batch)
        if due != batch >= 0:
            batches = f"{abs(batch - due):,} batch{'' if abs(batch - due) == 1 else 'es'}"
            yield Fact(f"it came {batches} too {'late' if batch > due else 'early'}", Kind.DEVIATION), True
        late = [self._late_by(one) for one in made_of]
        if any(late):
            yield Fact("the late watermark - the event time", Kind.DURATION), max(late)
        if (plan := self._plans.get(batch)) is not None:
            yield Fact("its batch was run again", Kind.STATEMENT), plan.runs > 1
            yield Fact("its batch was the first after a restart", Kind.STATEMENT), plan.restarted
            yield Fact("its batch", Kind.NUMBER), batch
        for one in made_of:
            yield (
                Fact(f"the partition of {self._side(one).topic}", Kind.NUMBER),
                self._history.position(one)[0],
            )
            if rows.event_us[one] != NULL_TIME_US:
                yield Fact(self._times[rows.side[one]], Kind.TIME), rows.event_us[one]

    def _late_by(self, row: int) -> int:
        """How far a late row is behind the late watermark, in microseconds; 0: it is not late."""
        if self._prediction.disposition[row] != Disposition.LATE:
            return 0
        late_us = self._prediction.late_ms(self._history.rows.batch[row]) * US_PER_MS
        return late_us - self._history.rows.time_us[row]

    def _side(self, row: int) -> Side:
        return self._history.side(self._history.rows.side[row])


def _end(distance_us: int) -> str:
    return "open" if abs(distance_us) >= FOREVER_US else duration(distance_us)


def _made_of(identity: int) -> tuple[int, ...]:
    right = right_of(identity)
    return (first_of(identity),) if right is None else (first_of(identity), right)


def _of_record(side: Side, fields: Mapping[str, Any]) -> dict[Fact, Value]:
    """The values of a record by their paths, without its event time, which is a fact of its own."""
    time = side.time_field.path
    found = islice(_flat(fields, (), _DEPTH), _FIELDS)
    return {Fact(f"{side.topic}.{text_of_path(path)}"): value for path, value in found if path != time}


def _flat(
    value: Any, path: tuple[str | int, ...], depth: int
) -> Iterator[tuple[tuple[str | int, ...], Value]]:
    if isinstance(value, dict) and depth:
        for name, one in value.items():
            yield from _flat(one, (*path, name), depth - 1)
    elif isinstance(value, list) and depth:
        for number, one in enumerate(value[:_ENTRIES]):
            yield from _flat(one, (*path, number), depth - 1)
    elif value is None or isinstance(value, str | int | float | Decimal):
        yield path, value
