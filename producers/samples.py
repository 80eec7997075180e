"""A trace made of one sample record of each input of a join: every case that decides about a row, for keys of its own.

Pure, without Kafka and Spark. The records are the samples with other ids, keys and times, in the form that the samples
have, and with numbers that pass the filters of the contract; everything else in them is as it was. Times differ by as
little as their form can write, at least a millisecond; a number has fractions if that of the sample has one. In each
slice each group of a key of its own has one case: a pair within the bound, at each end of it and just beyond, rows
without a partner, a key field that differs, a record that was sent twice, a value that does not pass a filter. From the
third slice on there are late records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from producers.sentinel_values import (
    failing_value,
    fraction_digits,
    passing_values,
    raw_at,
    raw_value,
    time_value,
    with_value,
)
from producers.sentinels import asked_of, sides_of
from tidemark.errors import UsageError
from tidemark.formats.contract import Bound, Contract, Side
from tidemark.formats.events import decode_object, read_event, time_reader
from tidemark.formats.exact_json import json_text
from tidemark.formats.field_values import literal_of
from tidemark.formats.record_fields import BOOLEAN, DATE, NUMBERS, Field
from tidemark.formats.time_forms import NS_PER_UNIT
from tidemark.formats.trace import FORMAT, Header, Record, TopicSpec

START_MS = 1_767_225_600_000
"""2026-01-01, the event time of the first record."""
SLICES = 4
GROUPS = 4
"""So many groups of each case are in a slice."""
_STEPS_MS = (1, 10, 100, 1000, 60_000, 3_600_000, 86_400_000)
"""The smallest differences that forms of times can write, of which a pattern or a decimal may have tenths."""
_REACH_MS = 60_000
"""How far apart the records of a pair are at most where the bound is open."""


@dataclass(frozen=True)
class _Case:
    """What the records of one key are: how long after the left one each right one comes, and what else is odd."""

    lefts: int = 1
    rights: tuple[int, ...] = ()
    other_key: int | None = None
    failing: tuple[int, str] | None = None
    """A side, and a field of it that does not pass the filters."""


def sample_trace(contract: Contract, samples: Mapping[str, dict[str, Any]]) -> tuple[Header, list[Record]]:
    """Header and records of the trace. Raises ``UsageError`` if a sample is no event of its input."""
    if contract.is_decoded:
        raise UsageError(
            f"the records of {contract.name!r} are read by functions of its file",
            hint="a trace of such records has to be recorded: tidemark record",
        )
    sides = sides_of(contract)
    for side in sides:
        if read_event(json_text(samples[side.topic]), side) is None:
            raise UsageError(
                f"the sample of {side.topic!r} is no event of the contract",
                detail=f"its time has to be at {side.time}, as {side.time_format}: {json_text(samples[side.topic])}",
                hint="give a record as it is in the topic, or correct the contract: its `time` and `time_format`",
            )
    made = list(_Trace(contract, sides, samples).records())
    topics = {side.topic: TopicSpec(1) for side in sides}
    header = Header(
        tidemark_trace=FORMAT, pace="stepped", topics=topics, slices=SLICES, generator="producers.samples"
    )
    for number, record in enumerate(made):
        record.arrival_ms = START_MS + number
    return header, made


class _Trace:
    """The records of one trace."""

    def __init__(
        self, contract: Contract, sides: tuple[Side, ...], samples: Mapping[str, dict[str, Any]]
    ) -> None:
        self._sides = sides
        asked = asked_of(contract)
        self._templates = [
            passing_values(side, samples[side.topic], asked.get(side.topic, {}), turn)
            for turn, side in enumerate(sides)
        ]
        self._samples = [samples[side.topic] for side in sides]
        self._asked = [asked.get(side.topic, {}) for side in sides]
        self._step_ms = max(map(_step_ms, sides, self._samples))
        self._cases = _cases(contract, self._step_ms, self._asked)
        apart = [abs(after) for case in self._cases for after in case.rights]
        delays = [side.watermark_delay_ms or 0 for side in sides]
        spread = len(self._cases) * GROUPS * self._step_ms
        self._span_ms = self._rounded(2 * (max(apart, default=0) + max(delays) + spread) + 60_000)
        self._numbers = [0, 0]
        self._keys = 0

    def _rounded(self, ms: int) -> int:
        return -(-ms // self._step_ms) * self._step_ms

    def records(self) -> Iterator[Record]:
        """All of them; those of a slice by their event times, late ones last."""
        for number in range(SLICES):
            start_ms = self._rounded(START_MS) + number * self._span_ms
            found: list[Record] = []
            for group in range(len(self._cases) * GROUPS):
                case = self._cases[group % len(self._cases)]
                found += self._of_case(case, start_ms + group * self._step_ms, number)
            yield from sorted(found, key=lambda record: record.event_ms or 0)
            if number > 1:
                self._keys += 1
                for side in (0, 1):
                    yield self._record(side, self._rounded(START_MS), number, self._keys)

    def _of_case(self, case: _Case, time_ms: int, number: int) -> Iterator[Record]:
        self._keys += 1
        key = self._keys
        lefts = [self._failing(case, 0, self._record(0, time_ms, number, key))] if case.lefts else []
        yield from lefts
        for record in lefts[: case.lefts - 1]:
            yield Record(
                topic=record.topic, value=record.value, arrival_ms=0, event_ms=record.event_ms, slice=number
            )
        for after_ms in case.rights:
            yield self._failing(case, 1, self._record(1, time_ms + after_ms, number, key, case.other_key))

    def _failing(self, case: _Case, side: int, record: Record) -> Record:
        """The record, with a value that does not pass the filters if that is the case."""
        if case.failing is not None and case.failing[0] == side:
            name = case.failing[1]
            field = next(one for one in self._sides[side].fields if one.name == name)
            raw = failing_value(field, self._templates[side], self._asked[side][name])
            record.value = json_text(with_value(decode_object(record.value) or {}, field.path, raw))
        return record

    def _record(self, side: int, time_ms: int, number: int, key: int, other: int | None = None) -> Record:
        """A record of a side; ``other`` is the place of a key field that has another value than the left record's."""
        about, sample = self._sides[side], self._samples[side]
        fields = {field.name: field for field in about.fields}
        self._numbers[side] += 1
        found: Any = self._templates[side]
        for place, name in enumerate(about.keys):
            value = _value(fields[name], sample, key + (500_000 if place == other else 0), "key")
            found = with_value(found, fields[name].path, value)
        identity = fields[about.id]
        found = with_value(found, identity.path, _value(identity, sample, self._numbers[side], about.topic))
        time = fields[about.time]
        found = with_value(found, time.path, time_value(about, time, time_ms, raw_at(sample, time)))
        return Record(
            topic=about.topic, value=json_text(found), arrival_ms=0,
            event_ms=time_ms, slice=number,
        )  # fmt: skip


def _cases(contract: Contract, step_ms: int, asked: Sequence[Mapping[str, Any]]) -> list[_Case]:
    """The cases of one slice: distances of the right record from the left one, and what else decides."""
    first, last = _distances(contract.bound, step_ms)
    middle = (first + last) // (2 * step_ms) * step_ms
    found = [_Case(rights=(middle,)), _Case(rights=(first,)), _Case(rights=(last,)), _Case()]
    found += [_Case(lefts=0, rights=(middle,)), _Case(lefts=2, rights=(middle,)), _Case(rights=(first, last))]
    step_ms = contract.bound.window_ms or step_ms
    found += [_Case(rights=(first - step_ms,)), _Case(rights=(last + step_ms,))]
    found += [_Case(rights=(middle,), other_key=place) for place in range(len(contract.left.keys))]
    sides = enumerate(zip(asked, (contract.left.keys, contract.right.keys), strict=True))
    filtered = [(side, name) for side, (names, keys) in sides for name in names if name not in keys]
    return found + [_Case(rights=(middle,), failing=one) for one in filtered]


def _distances(bound: Bound, step_ms: int) -> tuple[int, int]:
    """The first and the last distance of the right record from the left one that the bound lets through."""
    if bound.equal:
        return 0, 0
    first = None if bound.upper_ms is None else -bound.upper_ms + (step_ms if bound.upper_strict else 0)
    last = None if bound.lower_ms is None else -bound.lower_ms - (step_ms if bound.lower_strict else 0)
    if first is None and last is None:
        return 0, _REACH_MS
    if first is None:
        first = (last or 0) - _REACH_MS
    if last is None:
        last = first + _REACH_MS
    first = -(-first // step_ms) * step_ms
    return first, max(first, last // step_ms * step_ms)


def _step_ms(side: Side, sample: dict[str, Any]) -> int:
    """The smallest difference that the times of a side can have, written as that of its sample."""
    field = next(one for one in side.fields if one.name == side.time)
    read: Callable[[dict[str, Any]], int | None] = time_reader(field, side.time_format, side.time_zone)
    like = raw_at(sample, field)
    unit_ms = 0 if fraction_digits(like) else NS_PER_UNIT.get(side.time_format, 0) / 1e6
    for step_ms in [step_ms for step_ms in _STEPS_MS if step_ms >= unit_ms]:
        first_ms = -(-START_MS // step_ms) * step_ms
        times = [
            with_value({}, field.path, time_value(side, field, first_ms + more * step_ms, like))
            for more in (0, 1)
        ]
        if [read(one) for one in times] == [(first_ms + more * step_ms) * 1000 for more in (0, 1)]:
            return step_ms
    raise UsageError(
        f"no time of {side.topic!r} can be written as {side.time_format!r}",
        hint="a trace of such records has to be recorded: tidemark record",
    )


def _value(field: Field, sample: dict[str, Any], number: int, name: str) -> Any:
    """The value of an id or a key of this number, as the sample has it."""
    like, kind = raw_at(sample, field), field.made.kind
    if kind == BOOLEAN:
        return like
    if kind == DATE:
        return raw_value(literal_of("2020-01-01", field.made) + number, field, like)
    if kind in NUMBERS:
        return str(number) if type(like) is str else number
    if isinstance(like, int | float | Decimal) and type(like) is not bool:
        return number
    return f"{name}-{number}"
