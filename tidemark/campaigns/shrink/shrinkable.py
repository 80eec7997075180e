"""What is made smaller: a case and its faults; how large it is, and its digest.

Free of Kafka and Spark.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from tidemark.campaigns.case import Case, RunMode
from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.faults.schedule import FaultSpec, read_schedule
from tidemark.formats.contract import Contract, Side, WatermarkPolicy
from tidemark.formats.events import decode_object, read_time_us, write_time
from tidemark.formats.faults import POINTS, FaultAction
from tidemark.formats.time_forms import ISO
from tidemark.formats.trace import Record

RESTARTS: dict[RunMode, int] = {"backlog": 0, "followed": 1, "stepped": 2, "interrupted": 3}
"""Run modes by how much a reader has to know of them: in a backlog Spark decides alone, in the others somebody has to
follow, start or interrupt the query.
"""
_OVERLAP = 10
"""What each fault that overlaps with another adds: more than the dearest point of a single one."""
HOUR_US = 3_600_000_000
GRIDS_US = (60_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000)
"""Round numbers, the roundest first, in microseconds: a minute, ten seconds, … a millisecond."""


@dataclass(frozen=True)
class Shrinkable:
    """A case, and the ``faults`` of its run, in the words of ``--faults``, one a word; ``seed`` says when they come."""

    case: Case
    faults: tuple[str, ...] = ()
    seed: int = 1

    def with_records(self, records: tuple[Record, ...]) -> Shrinkable:
        """The same with other records."""
        return replace(self, case=replace(self.case, records=records))

    def in_one_partition(self, records: Iterable[Record]) -> Shrinkable:
        """The same with these records, and its sentinels, in one partition of each topic."""
        first, then = (
            tuple(msgspec.structs.replace(record, partition=0) for record in some)
            for some in (records, self.case.flush)
        )
        return replace(self, case=replace(self.case, records=first, flush=then, partitions=1))


class CaseSize(NamedTuple):
    """How large it is; compared field by field, in this order.

    ``times`` is more, the more different event times there are and the less round they are. ``settings`` counts those
    that are not Spark's own, ``terms`` what the contract says, ``fault_terms`` what faults say beyond their kind.
    """

    faults: int
    rows: int
    batches: int
    restarts: int
    partitions: int
    fault_terms: int
    settings: int
    terms: int
    fields: int
    times: int
    bytes: int

    def __str__(self) -> str:
        parts = [f"{self.rows:,} rows", f"{self.batches} slices", f"{self.bytes:,} bytes"]
        faults = f"{self.faults} fault{'s' if self.faults > 1 else ''}"
        return ", ".join([faults, *parts] if self.faults else parts)


def size_of(one: Shrinkable) -> CaseSize:
    """The size of a case with its faults."""
    case = one.case
    values = [_measured(record.value) for record in case.records]
    return CaseSize(
        faults=len(one.faults),
        rows=len(case.records),
        batches=case.slices,
        restarts=RESTARTS[case.mode] + len(case.stops),
        partitions=case.partitions,
        fault_terms=sum(map(cost_of_fault, one.faults)),
        settings=len(case.conf) + bool(case.pipeline) + (case.sink != "spark"),
        terms=terms_of(case.contract),
        fields=sum(number for number, _ in values) + sum(map(_of_envelope, case.records)),
        times=_times(case),
        bytes=sum(length for _, length in values),
    )


@functools.lru_cache(maxsize=10_000)
def cost_of_fault(fault: str) -> int:
    """How far a fault is from the simplest of its kind: one kill, at the first of its points, of the usual duration."""
    [spec] = read_schedule(fault)
    return sum(map(_cost_of_part, spec.parts)) + _OVERLAP * len(spec.beside)


def _cost_of_part(spec: FaultSpec) -> int:
    point = POINTS[spec.component, spec.action].index(spec.point)
    return point + (spec.action is FaultAction.KILL_TWICE) + (spec.duration_s != FaultSpec.duration_s)


def terms_of(contract: Contract) -> int:
    """How much a contract says beyond kind and names."""
    left, right, bound = contract.left, contract.right, contract.bound
    listed = (left.filters, right.filters, contract.condition, contract.where, left.keys, right.keys)
    numbers_ms = (left.watermark_delay_ms, right.watermark_delay_ms, bound.lower_ms, bound.upper_ms)
    strict = bound.lower_strict + bound.upper_strict + (contract.policy is not WatermarkPolicy.MIN)
    return 10 * sum(map(len, listed)) + sum(cost_ms(one or 0) for one in numbers_ms) + strict


def cost_ms(number_ms: int) -> int:
    """How far from simple a length of time is: 0 costs nothing, round numbers little."""
    return 0 if number_ms == 0 else 1 + cost_us(number_ms * 1_000)


def cost_us(time_us: int) -> int:
    """How many grids of round numbers a time is not on: 0 to 6."""
    return next((at for at, grid in enumerate(GRIDS_US) if time_us % grid == 0), len(GRIDS_US))


def digest_of(one: Shrinkable) -> str:
    """The SHA-256 of all that makes a run: equal for equal candidates in every process."""
    case = one.case
    told = {
        "contract": case.contract.to_json(), "records": case.records, "flush": case.flush, "mode": case.mode,
        "sink": case.sink, "conf": sorted(case.conf.items()), "stops": case.stops, "pipeline": case.pipeline,
        "partitions": case.partitions, "slices": case.slices, "faults": one.faults,
        "seed": one.seed if one.faults else None,
    }  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()


@functools.lru_cache(maxsize=200_000)
def fields_in(value: str | None) -> dict[str, Any] | None:
    """The fields of a record whose value is a JSON object, else ``None``. Shared: not to be changed."""
    return decode_object(value) if value is not None and value.startswith("{") else None


def with_fields(record: Record, fields: dict[str, Any]) -> Record:
    """The record with these fields as its value."""
    return msgspec.structs.replace(record, value=json.dumps(fields, default=float))


def sides_of_join(contract: Contract) -> dict[str, Side]:
    """The sides by topic; of a chain all its topics."""
    sides = contract.sides if isinstance(contract, ChainInputs) else (contract.left, contract.right)
    return {side.topic: side for side in sides}


def time_of(record: Record, side: Side) -> int | None:
    """The event time of a record in microseconds, if it is text at the top of a JSON object."""
    fields = fields_in(record.value)
    if fields is None or side.time_format != ISO or len(side.time_field.path) != 1:
        return None
    value = fields.get(str(side.time_field.path[0]))
    return read_time_us(value) if isinstance(value, str) else None


def times_of(case: Case) -> Iterator[int | None]:
    """The event time of each record, as :func:`time_of`."""
    sides = sides_of_join(case.contract)
    return (time_of(record, sides[record.topic]) for record in case.records)


def with_flush_behind(case: Case) -> Case:
    """The case with sentinels that have only the fields that the contract names, far behind all its records.

    As far as those of any run: the delays, the bound twice, and an hour; at a full hour.
    """
    contract, sides = case.contract, sides_of_join(case.contract)
    latest_us = max((time_us for time_us in times_of(case) if time_us is not None), default=None)
    if latest_us is None or any(time_of(record, sides[record.topic]) is None for record in case.flush):
        return case
    ends_ms = (
        abs(contract.bound.lower_ms or 0),
        abs(contract.bound.upper_ms or 0),
        contract.bound.window_ms or 0,
    )
    delays_ms = [side.watermark_delay_ms or 0 for side in sides.values()]
    first_us = latest_us + 1_000 * (2 * max(ends_ms) + max(delays_ms)) + HOUR_US
    flush = []
    for record in case.flush:
        fields, side = fields_in(record.value) or {}, sides[record.topic]
        named = {name: value for name, value in fields.items() if name in named_fields(contract, side)}
        time_us = (-(-first_us // HOUR_US) + record.slice) * HOUR_US
        moved = with_fields(record, {**named, str(side.time_field.path[0]): shortest_time(time_us)})
        flush.append(msgspec.structs.replace(moved, arrival_ms=case.records[0].arrival_ms, event_ms=None))
    return replace(case, flush=tuple(flush))


def named_fields(contract: Contract, side: Side) -> set[str]:
    """The names at the top of a record that the contract needs."""
    if isinstance(contract, ChainInputs):
        return {str(field.path[0]) for field in side.fields}
    values = contract.values[0 if side is contract.left else 1].values()
    return {str(field.path[0]) for field in (*values, side.time_field)}


def shortest_time(time_us: int) -> str:
    """ISO-8601 with no more digits than it needs."""
    return write_time(time_us).replace(".000Z", "Z")


def _times(case: Case) -> int:
    found = [time_us for time_us in times_of(case) if time_us is not None]
    return 10 * len(set(found)) + sum(map(cost_us, found))


@functools.lru_cache(maxsize=200_000)
def _measured(value: str | None) -> tuple[int, int]:
    """How many fields a value has, and how many bytes."""
    return len(fields_in(value) or ()), len((value or "").encode())


def _of_envelope(record: Record) -> int:
    given = (record.key, record.key_base64, record.timestamp_ms, record.event_ms)
    return len(record.headers) + sum(one is not None for one in given)
