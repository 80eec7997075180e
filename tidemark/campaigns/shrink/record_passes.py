"""Passes over the records of a case: keys, slices, rows, fields, names, times.

Free of Kafka and Spark; none of them knows the bug. Records that are no JSON objects are taken away whole, or kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.campaigns.shrink.shrinkable import (
    GRIDS_US,
    HOUR_US,
    Shrinkable,
    cost_us,
    fields_in,
    named_fields,
    shortest_time,
    sides_of_join,
    times_of,
    with_fields,
    with_flush_behind,
)
from tidemark.campaigns.shrink.shrinker import Pass, Removal, Rewrite
from tidemark.formats.contract import Contract
from tidemark.formats.time_forms import ISO
from tidemark.formats.trace import Record

NAMES = "abcdefghijklmnopqrstuvwxyz"
STEPS_US = (60_000_000, 10_000_000, 1_000_000)
"""Distances at which event times are put, in their order."""


def record_passes() -> list[Pass[Shrinkable]]:
    """All of them, coarse to fine."""
    return [
        Removal("slices", _slices, _without_slices),
        Removal("keys", _keys, _without_keys),
        Rewrite("slices merged", _merged),
        Removal("rows", lambda one: one.case.records, _without_rows),
        Removal("fields of all records of a topic", _columns, _without_columns),
        Rewrite("keys, headers and timestamps of records", _plain_envelopes),
        Rewrite("names of ids and keys", _renamed),
        Rewrite("times", _rounder),
        Removal("fields of single records", _fields, _without_fields),
    ]


def kept_records(one: Shrinkable, keep: Callable[[int, Record], bool]) -> Shrinkable | None:
    """Some of the records, those that ``keep`` says by number and record; ``None`` if that is none."""
    records = tuple(record for at, record in enumerate(one.case.records) if keep(at, record))
    return one.with_records(records) if records else None


def _slices(one: Shrinkable) -> Sequence[int]:
    return range(one.case.slices)


def _without_slices(one: Shrinkable, gone: frozenset[int]) -> Shrinkable | None:
    kept = kept_records(one, lambda _at, record: record.slice not in gone)
    if kept is None:
        return None
    rest = [number for number in range(one.case.slices) if number not in gone]
    return renumbered(kept, {number: at for at, number in enumerate(rest)})


def _merged(one: Shrinkable) -> Iterator[Shrinkable]:
    """Two slices that follow each other as one, and those without records left out."""
    there = sorted({record.slice for record in one.case.records})
    if len(there) < one.case.slices:
        yield renumbered(one, {number: at for at, number in enumerate(there)})
    for last in range(one.case.slices - 1, 0, -1):
        yield renumbered(one, {number: number - (number >= last) for number in range(one.case.slices)})


def renumbered(one: Shrinkable, numbers: Mapping[int, int]) -> Shrinkable:
    """The same records with other numbers for their slices."""
    records = one.case.records
    return one.with_records(
        tuple(msgspec.structs.replace(record, slice=numbers[record.slice]) for record in records)
    )


def key_of(record: Record, contract: Contract) -> tuple[str, ...] | None:
    """What the join compares, as text; of a record that is no JSON object nothing."""
    fields, side = fields_in(record.value), sides_of_join(contract)[record.topic]
    if fields is None:
        return None
    return tuple(str(fields.get(str(side.field(key).path[0]))) for key in side.keys)


def _keys(one: Shrinkable) -> Sequence[tuple[str, ...] | None]:
    return list(dict.fromkeys(key_of(record, one.case.contract) for record in one.case.records))


def _without_keys(one: Shrinkable, gone: frozenset[int]) -> Shrinkable | None:
    keys = {key for at, key in enumerate(_keys(one)) if at in gone}
    return kept_records(one, lambda _at, record: key_of(record, one.case.contract) not in keys)


def _without_rows(one: Shrinkable, gone: frozenset[int]) -> Shrinkable | None:
    return kept_records(one, lambda at, _record: at not in gone)


def _columns(one: Shrinkable) -> Sequence[tuple[str, str]]:
    """Topic and name of every field that the contract does not name."""
    contract = one.case.contract
    named = {topic: named_fields(contract, side) for topic, side in sides_of_join(contract).items()}
    found = {(record.topic, name) for record in one.case.records for name in fields_in(record.value) or ()}
    return sorted((topic, name) for topic, name in found if name not in named[topic])


def _without_columns(one: Shrinkable, gone: frozenset[int]) -> Shrinkable:
    chosen = {column for at, column in enumerate(_columns(one)) if at in gone}
    return _changed(one, lambda _at, record, name, value: (value, (record.topic, name) not in chosen))


def _fields(one: Shrinkable) -> Sequence[tuple[int, str]]:
    """Every field of every record, by the record's number, but for its id, by which people name it; of few records."""
    records = one.case.records if len(one.case.records) <= _FEW else ()
    sides = sides_of_join(one.case.contract)
    ids = {topic: str(side.field(side.id).path[0]) for topic, side in sides.items()}
    return [
        (at, name)
        for at, record in enumerate(records)
        for name in fields_in(record.value) or ()
        if name != ids[record.topic]
    ]


_FEW = 20
"""Up to so many records each field is tried by itself."""


def _without_fields(one: Shrinkable, gone: frozenset[int]) -> Shrinkable:
    chosen = {field for at, field in enumerate(_fields(one)) if at in gone}
    return _changed(one, lambda at, _record, name, value: (value, (at, name) not in chosen))


def _plain_envelopes(one: Shrinkable) -> Iterator[Shrinkable]:
    """Records with topic, partition, slice and value alone; what Kafka's timestamp says nothing is read of."""
    arrival_ms = min(record.arrival_ms for record in one.case.records)
    yield one.with_records(
        tuple(
            Record(
                topic=record.topic, value=record.value, value_base64=record.value_base64, slice=record.slice,
                partition=record.partition, arrival_ms=arrival_ms,
            )
            for record in one.case.records
        )
    )  # fmt: skip


def _renamed(one: Shrinkable) -> Iterator[Shrinkable]:
    """Keys ``a``, ``b`` …, and ids ``L1``, ``R1`` …, where they are text at the top of the records."""
    if isinstance(one.case.contract, ChainInputs):
        yield _with_short_texts(one)
        return
    yield from (_with_names(one, keys=True, ids=True), _with_names(one, keys=True, ids=False))
    yield _with_names(one, keys=False, ids=True)


def _with_names(one: Shrinkable, *, keys: bool, ids: bool) -> Shrinkable:
    contract, names, seen = one.case.contract, dict[str, str](), [0, 0]
    compared = contract.compared

    def renamed(_at: int, record: Record, name: str, value: Any) -> tuple[Any, bool]:
        at = 0 if record.topic == contract.left.topic else 1
        side = (contract.left, contract.right)[at]
        if isinstance(value, str) and name not in compared[at]:
            if keys and name in side.keys:
                return names.setdefault(value, _short(len(names))), True
            if ids and name == side.id:
                seen[at] += 1
                return f"{'LR'[at]}{seen[at]}", True
        return value, True

    return _changed(one, renamed)


def _with_short_texts(one: Shrinkable) -> Shrinkable:
    """What the sources of a chain read as text, alike in all topics."""
    names, sides = dict[str, str](), sides_of_join(one.case.contract)
    read = {topic: {str(side.field(key).path[0]) for key in side.keys} for topic, side in sides.items()}

    def renamed(_at: int, record: Record, name: str, value: Any) -> tuple[Any, bool]:
        is_text = isinstance(value, str) and name in read[record.topic]
        return (names.setdefault(value, _short(len(names))) if is_text else value), True

    return _changed(one, renamed)


def _short(number: int) -> str:
    """a, b, … z, a1, b1, …"""
    return NAMES[number % len(NAMES)] + (str(number // len(NAMES)) if number >= len(NAMES) else "")


def _rounder(one: Shrinkable) -> Iterator[Shrinkable]:
    """Event times moved towards round numbers in their order, all at once and one by one; then towards each other."""
    times = sorted({time_us for time_us in times_of(one.case) if time_us is not None})
    if not times or not all(side.time_format == ISO for side in sides_of_join(one.case.contract).values()):
        return
    hour_us = times[0] - times[0] % HOUR_US
    for step_us in STEPS_US:
        yield _with_times(one, {time_us: hour_us + at * step_us for at, time_us in enumerate(times, 1)})
    for grid_us in GRIDS_US:
        rounded = {time_us: time_us - time_us % grid_us for time_us in times}
        if len(set(rounded.values())) == len(times):
            yield _with_times(one, rounded)
            break
    for at, time_us in reversed([*enumerate(times)]):
        for to_us in _moved(times, at):
            yield _with_times(one, {time_us: to_us})


def _moved(times: Sequence[int], at: int) -> Iterator[int]:
    """Where one time may go: rounder places between its neighbours, the roundest first; then onto a neighbour."""
    before = times[at - 1] if at else 0
    after = times[at + 1] if at + 1 < len(times) else times[at] + HOUR_US
    for grid_us in GRIDS_US[: cost_us(times[at])]:
        down = times[at] - times[at] % grid_us
        yield from (to_us for to_us in (down, down + grid_us) if before < to_us < after)
    yield from (*times[max(0, at - 1) : at], *times[at + 1 : at + 2])


def _with_times(one: Shrinkable, times: dict[int, int]) -> Shrinkable:
    contract = one.case.contract
    own = list(times_of(one.case))
    names = {topic: str(side.time_field.path[0]) for topic, side in sides_of_join(contract).items()}

    def moved(at: int, record: Record, name: str, value: Any) -> tuple[Any, bool]:
        time_us = own[at]
        if name != names[record.topic] or time_us not in times:
            return value, True
        return shortest_time(times[time_us]), True

    changed = _changed(one, moved)
    return replace(changed, case=with_flush_behind(changed.case))


def _changed(one: Shrinkable, change: Callable[[int, Record, str, Any], tuple[Any, bool]]) -> Shrinkable:
    """The fields of all records through ``change``: number, record, name, value -> new value, and whether it stays."""
    records = []
    for at, record in enumerate(one.case.records):
        fields = fields_in(record.value)
        if fields is not None:
            found = {name: change(at, record, name, value) for name, value in fields.items()}
            kept = {name: value for name, (value, stays) in found.items() if stays}
            record = record if kept == fields else with_fields(record, kept)
        records.append(record)
    return one.with_records(tuple(records))


def variations_of(one: Shrinkable) -> Iterator[tuple[str, Shrinkable]]:
    """Other values of each field of each record, by a name for people: ``lefts 1: k``."""
    contract, counts = one.case.contract, dict[str, int]()
    for at, record in enumerate(one.case.records):
        counts[record.topic] = counts.get(record.topic, 0) + 1
        for name, value in (fields_in(record.value) or {}).items():
            is_time = name == str(sides_of_join(contract)[record.topic].time_field.path[0])
            others = _other_times(one, at) if is_time else _others(value)
            for other in others:
                yield f"{record.topic} {counts[record.topic]}: {name}", _with_value(one, (at, name), other)


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return [f"{value}x", "other"]
    return [value + 1, value - 1] if isinstance(value, int) else []


def _other_times(one: Shrinkable, at: int) -> list[str]:
    """A second and an hour earlier and later."""
    time_us = list(times_of(one.case))[at]
    if time_us is None:
        return []
    return [shortest_time(time_us + by_us) for by_us in (1_000_000, -1_000_000, HOUR_US, -HOUR_US)]


def _with_value(one: Shrinkable, field: tuple[int, str], other: Any) -> Shrinkable:
    return _changed(one, lambda at, _record, name, value: (other if (at, name) == field else value, True))
