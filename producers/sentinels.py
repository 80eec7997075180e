"""Sentinels: one record per input, so far in the future that the query must emit every row that it still owes.

Pure, without Kafka and Spark. A sentinel must reach the watermark node: a record that a filter below the node drops
does not move the watermark, and with policy ``min`` the query would then wait forever. A sentinel is therefore a copy
of the last readable record of its input, with an id, time and keys of its own, and with numbers that pass every filter
of the contract. The keys differ between inputs, so sentinels match no row, not even each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from producers.sentinel_values import (
    number_of,
    passes,
    passing_values,
    raw_at,
    raw_value,
    time_value,
    with_value,
)
from tidemark.errors import UsageError
from tidemark.formats.chain import STRING, Chain, Join, Window
from tidemark.formats.contract import Bound, Contract, Filter, Side
from tidemark.formats.events import decode_object, read_event, write_time
from tidemark.formats.exact_json import json_text
from tidemark.formats.field_values import value_reader
from tidemark.formats.record_fields import NUMBERS
from tidemark.formats.time_forms import ISO, is_pattern
from tidemark.formats.trace import FORMAT, Header, Record, TraceReader

MS_PER_S = 1000
YEAR_MS = 366 * 86_400_000
"""A pattern need not say more than a year."""
MARGIN_MS = 3_600_000
"""An hour more than necessary, so that strict bounds and single milliseconds do not matter."""


def make_sentinels(contract: Contract | Chain, path: Path, *, rounds: int = 1) -> tuple[Header, list[Record]]:
    """The sentinels for a trace. Each round is a slice, an hour later than the one before.

    A query that was restarted after the first round needs a second one: until every input has a new record, its
    watermark does not move and it runs no no-data batch.
    """
    sides = sides_of(contract)
    with TraceReader(path) as reader:
        for side in sides:
            if side.topic not in reader.header.topics:
                raise UsageError(
                    f"the trace {str(path)!r} has no topic {side.topic!r}",
                    hint=f"contract {contract.name!r} reads {' and '.join(repr(one.topic) for one in sides)}",
                )
        required = _required_of(contract)
        latest_us, templates = _scan(reader, sides, required)
        topics = reader.header.topics
    reach_ms = _reach_ms(contract)
    delay_ms = max(side.watermark_delay_ms or 0 for side in sides)
    first_ms = -(-latest_us // 1000) + delay_ms + 2 * reach_ms + MARGIN_MS
    asked = asked_of(contract)
    values = {}
    for turn, side in enumerate(sides):
        passing = passing_values(side, templates[side.topic], asked.get(side.topic, {}), turn)
        values[side.topic] = _with_required(side, passing, required.get(side.topic, ()))
    header = Header(
        tidemark_trace=FORMAT, pace="stepped", topics=topics, slices=rounds, generator="producers.sentinels"
    )
    records = []
    for index in range(rounds):
        for side in sides:
            own = _with_id(side, values[side.topic], index, asked.get(side.topic, {}).get(side.id, []))
            records.append(_readable_sentinel(side, own, first_ms + index * MARGIN_MS, index, latest_us))
    return header, records


def sides_of(contract: Contract | Chain) -> tuple[Side, ...]:
    """The inputs of a contract; for a chain its topics, with all their text fields as keys."""
    if isinstance(contract, Contract):
        values = contract.values
        return tuple(
            replace(side, fields=(*values[at].values(), side.time_field))
            for at, side in enumerate((contract.left, contract.right))
        )
    sides: dict[str, Side] = {}
    for source in contract.sources:
        keys = tuple(field.name for field in source.fields if field.made.kind == STRING)
        before = sides.get(source.topic)
        sides[source.topic] = Side(
            source.topic,
            id=keys[0] if keys else source.fields[0].name,
            keys=tuple(dict.fromkeys([*(before.keys if before else ()), *keys])),
            time=source.time,
            watermark_delay_ms=max(
                source.watermark_delay_ms or 0, (before and before.watermark_delay_ms) or 0
            ),
            fields=(*(before.fields if before else ()), *source.fields, source.time_field),
            time_format=source.time_format,
            time_zone=source.time_zone,
        )
    return tuple(sides.values())


def _reach_ms(contract: Contract | Chain) -> int:
    """How far a row can reach in event time: bound and window of a join, or all of those of a chain together."""
    if isinstance(contract, Contract):
        return _bound_ms(contract.bound)
    bounds = sum(_bound_ms(step.bound) for step in contract.steps if isinstance(step, Join))
    return bounds + sum(step.window_ms for step in contract.steps if isinstance(step, Window))


def _bound_ms(bound: Bound) -> int:
    return max(abs(end) for end in (bound.lower_ms or 0, bound.upper_ms or 0)) + (bound.window_ms or 0)


def _required_of(contract: Contract | Chain) -> dict[str, tuple[str, ...]]:
    """Topic -> the fields without which a chain filters a record out."""
    found: dict[str, tuple[str, ...]] = {}
    for source in contract.sources if isinstance(contract, Chain) else ():
        found[source.topic] = tuple(dict.fromkeys([*found.get(source.topic, ()), *source.required]))
    return found


def _scan(
    records: Iterable[Record], sides: Iterable[Side], required: Mapping[str, Sequence[str]]
) -> tuple[int, dict[str, dict[str, Any]]]:
    """The latest event time, and of each topic the last record that has most: what is required, then all keys."""
    by_topic = {side.topic: side for side in sides}
    read = {side.topic: _readers_of(side, required.get(side.topic, ())) for side in by_topic.values()}
    best = dict.fromkeys(by_topic, (False, False))
    last: dict[str, bytes] = {}
    latest_us = 0
    for topic, value, time_us, has_key in _readable(records, by_topic):
        latest_us = max(latest_us, time_us)
        found = decode_object(value) if read[topic] else None
        rank = all(reader(found) is not None for reader in read[topic]), has_key
        if rank >= best[topic]:
            best[topic], last[topic] = rank, value
    return latest_us, {topic: decode_object(last.get(topic)) or {} for topic in by_topic}


def _readers_of(side: Side, names: Sequence[str]) -> list[Callable[[Any], Any]]:
    return [value_reader(field) for field in side.fields if field.name in names]


def _readable(records: Iterable[Record], sides: dict[str, Side]) -> Iterator[tuple[str, bytes, int, bool]]:
    for record in records:
        side = sides.get(record.topic)
        value = record.value_bytes()
        if side is None or value is None:
            continue
        event = read_event(value, side)
        if event is not None:
            yield record.topic, value, event.time_us, None not in event.key


def asked_of(contract: Contract | Chain) -> dict[str, dict[str, list[Filter]]]:
    """Topic -> field -> what is asked of it; of a join key also what is asked of the equal key of the other side."""
    found: defaultdict[str, defaultdict[str, list[Filter]]] = defaultdict(lambda: defaultdict(list))
    if isinstance(contract, Chain):
        for source in contract.sources:
            for one in source.filters:
                found[source.topic][one.field].append(one)
        return {topic: dict(fields) for topic, fields in found.items()}
    terms, sides = (*contract.condition, *contract.where), (contract.left, contract.right)
    for right, side in enumerate(sides):
        other = sides[1 - right]
        equal = dict(zip(side.keys, other.keys, strict=True))
        for one in (*side.filters, *filter(None, (term.of_side(right=bool(right)) for term in terms))):
            found[side.topic][one.field].append(one)
            if one.field in equal:
                found[other.topic][equal[one.field]].append(one)
    return {topic: dict(fields) for topic, fields in found.items()}


def _with_required(side: Side, values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A sentinel with a number in each required field that no record had."""
    found: Any = values
    for field in side.fields:
        if field.name in names and field.made.kind in NUMBERS and value_reader(field)(found) is None:
            found = with_value(found, field.path, raw_value(number_of(side, field), field, None))
    filled: dict[str, Any] = found
    return filled


def _with_id(side: Side, values: dict[str, Any], number: int, filters: list[Filter]) -> dict[str, Any]:
    """A sentinel with an id of its own, unless the contract asks of the id what that does not pass."""
    identity = next(field for field in side.fields if field.name == side.id)
    kind = identity.made.kind
    own: Any = number_of(side, identity) + number if kind in NUMBERS else f"sentinel-{side.topic}-{number}"
    if filters and not passes(own, identity.made, filters):
        return values
    raw = raw_value(own, identity, raw_at(values, identity)) if kind in NUMBERS else own
    found: dict[str, Any] = with_value(values, identity.path, raw)
    return found


def _readable_sentinel(
    side: Side, values: dict[str, Any], time_ms: int, number: int, latest_us: int
) -> Record:
    """A sentinel; raises ``UsageError`` if its time is one that records of the side cannot have."""
    with suppress(OverflowError, ValueError):
        record = _sentinel(side, values, time_ms, slice_index=number)
        if read_event(record.value_bytes(), side) is not None:
            return record
    raise UsageError(
        f"no record of {side.topic} can be so late that all rows are owed",
        detail=f"the last event of the trace is at {write_time(latest_us)}, and a record of {side.topic} would have to"
        f" be at {write_time(time_ms * 1000)}",
        hint="correct the event time of that event: one in milliseconds that is read as seconds, say",
    )


def _sentinel(side: Side, values: dict[str, Any], time_ms: int, *, slice_index: int) -> Record:
    time = next(field for field in side.fields if field.name == side.time)
    found: Any = values
    if len(time.path) == 1:
        found = {name: value for name, value in found.items() if name != time.path[0]}
    if side.time_format != ISO:
        time_ms = -(-time_ms // MS_PER_S) * MS_PER_S
    if is_pattern(side.time_format):
        time_ms += YEAR_MS
    found = with_value(found, time.path, time_value(side, time, time_ms))
    return Record(
        topic=side.topic,
        value=json_text(found),
        key=f"sentinel-{side.topic}",
        arrival_ms=time_ms,
        event_ms=time_ms,
        slice=slice_index,
    )
