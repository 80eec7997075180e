"""A case from a seed: any join under any bound, filters and delays, over a small trace made to hit its edges.

Free of Kafka and Spark. Times lie on a grid of half seconds with a millisecond or half of one on either side, and so do
delays and bounds: many rows are exactly on a bound, on a watermark, or one step beside it. Few keys, so that rows have
partners; NULL keys, garbage, NULL numbers, idle sides, late rows and slices all from the past. Some cases have an input
that is meaner (``tidemark.campaigns.input_traits``).
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import msgspec

from tidemark.campaigns.case import NO_DATA, PARTITIONS, RUN_MODES, Case
from tidemark.campaigns.input_traits import with_traits
from tidemark.campaigns.state_stores import SPARKS_OWN, STATES, UNSUPPORTED
from tidemark.formats.contract import Bound, Contract, Filter, JoinKind, Output, Side, Term, WatermarkPolicy
from tidemark.formats.events import write_time
from tidemark.formats.trace import Record
from tidemark.oracle.spark.pushdown import as_planned, of_side, passes, place
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.runner.run_options import SINKS

ARRIVAL_MS = 1_767_225_600_000
"""Kafka's record timestamp, which says nothing here."""

NUMBER = "n"
NUMBERS = (None, *range(10))
KEY_NUMBERS = (None, 1, 5, 5, 7, 7)
"""Where the number is a key: fewer, so that rows have partners."""
FAR_S = 1_000_000
GARBAGE = "garbage"
KEYS = ("a", "a", "b", "c")

RANGES = (
    Bound(-5_000, 0),
    Bound(-3_000, 4_000),
    Bound(-3_000, 4_000, lower_strict=True, upper_strict=True),
    Bound(0, 3_500, upper_strict=True),
    Bound(1_000, 6_000),
    Bound(-6_000, -1_000, lower_strict=True),
    Bound(0, 0),
    Bound(-2_500, 1_500, lower_strict=True),
)
LOWER_ONLY = (Bound(-4_000), Bound(1_000, lower_strict=True))
UPPER_ONLY = (Bound(None, 2_000, upper_strict=True), Bound(None, 0))
EQUAL = (Bound(equal=True), Bound(-2_000, 3_000, equal=True))
WINDOWS = (Bound(equal=True, window_ms=2_000), Bound(equal=True, window_ms=5_000))
LATER_WINDOW = (Bound(0, window_ms=3_000), Bound(0, lower_strict=True, window_ms=2_000))
EARLIER_WINDOW = (Bound(None, 0, window_ms=3_000), Bound(None, 0, upper_strict=True, window_ms=2_000))
BOTH_SIDES = (*RANGES, *RANGES, *EQUAL, *EQUAL, *WINDOWS, *WINDOWS)
BOUNDS: dict[JoinKind, tuple[Bound, ...]] = {
    # What UnsupportedOperationChecker lets pass: an outer join needs a state watermark on a preserved side.
    JoinKind.INNER: (*BOTH_SIDES, *LOWER_ONLY, *UPPER_ONLY, *LATER_WINDOW, *EARLIER_WINDOW, Bound()),
    JoinKind.LEFT_OUTER: (*BOTH_SIDES, *LOWER_ONLY, *LATER_WINDOW),
    JoinKind.LEFT_SEMI: (*BOTH_SIDES, *LOWER_ONLY, *LATER_WINDOW),
    JoinKind.RIGHT_OUTER: (*BOTH_SIDES, *UPPER_ONLY, *EARLIER_WINDOW),
    JoinKind.FULL_OUTER: (*BOTH_SIDES, *LOWER_ONLY, *UPPER_ONLY, *LATER_WINDOW, *EARLIER_WINDOW),
}

GENERATED_STATES = (
    *[SPARKS_OWN] * 6,
    *(state for state in STATES if state not in (SPARKS_OWN, *UNSUPPORTED)),
)
"""More than half with what Spark takes by itself."""


def generate(seed: int) -> Case:
    """The case of a seed: the same on every machine."""
    rng = random.Random(f"case-{seed}")
    contract = generate_contract(rng, f"case_{seed}")
    return with_traits(random.Random(f"input-{seed}"), generate_case(rng, contract, seed))


def generate_contract(rng: random.Random, name: str) -> Contract:
    """Any join that Spark accepts."""
    kind = rng.choice(list(JoinKind))
    contract = make_contract(name, kind, rng.choice(BOUNDS[kind]), keys=rng.choice((1, 1, 2)))
    left, right = (
        replace(
            side,
            watermark_delay_ms=rng.choice((0, 0, 500, 2_000)),
            filters=(_filter(rng),) if rng.random() < 0.15 else (),
        )
        for side in (contract.left, contract.right)
    )
    if kind is JoinKind.INNER and rng.random() < 0.1:  # a watermark on one side, or on none
        left = replace(left, watermark_delay_ms=None)
        if rng.random() < 0.3:
            right = replace(right, watermark_delay_ms=None)
    condition: tuple[Term, ...] = tuple(_term(rng) for _ in range(rng.choice((0, 0, 0, 1, 1, 2))))
    where: tuple[Term, ...] = ()
    if rng.random() < 0.15:
        where = (_term(rng, both=kind is not JoinKind.LEFT_SEMI),)
    policy = rng.choice((WatermarkPolicy.MIN, WatermarkPolicy.MIN, WatermarkPolicy.MAX))
    if rng.random() < 0.1:  # what is compared is a key, too: Spark infers it for the other side
        left, right = (replace(side, keys=(*side.keys, NUMBER)) for side in (left, right))
        condition, where = _of_one_side(condition), _of_one_side(where)
    return replace(contract, left=left, right=right, condition=condition, where=where, policy=policy)


def _of_one_side(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.value is not None)


def make_contract(name: str, kind: JoinKind, bound: Bound, *, keys: int = 1) -> Contract:
    """A join of the topics ``lefts`` and ``rights`` with delays of 0, by ``keys`` key fields."""
    names = tuple(f"k{at}" for at in range(keys))
    semi = kind is JoinKind.LEFT_SEMI
    return Contract(
        name=name,
        kind=kind,
        left=Side("lefts", "id", names, "t", 0),
        right=Side("rights", "id", names, "t", 0),
        bound=bound,
        output=Output(
            "left_id",
            None if semi else "right_id",
            ("left_partition", "left_offset"),
            None if semi else ("right_partition", "right_offset"),
        ),
    )


def generate_case(rng: random.Random, contract: Contract, seed: int | None = None) -> Case:
    """A trace for a contract, and a mode to run it in."""
    slices = rng.randint(2, 6)
    records = generate_records(rng, contract, slices=slices, rows=rng.choice(((0, 1, 2, 4), (1, 2, 4))))
    mode = rng.choice(RUN_MODES)
    no_data = rng.random() < 0.75
    return Case(
        name=contract.name,
        contract=contract,
        records=records,
        flush=flush_of(contract, rounds=1 if no_data else 2),
        mode=mode,
        sink=rng.choice((*SINKS, "spark")),
        stops=tuple(sorted(rng.sample(range(slices + 1), rng.randint(1, 2))))
        if mode == "interrupted"
        else (),
        states=rng.choice((0, 0, 0, 2)),
        conf={**({} if no_data else {NO_DATA: "false"}), **STATES[rng.choice(GENERATED_STATES)]},
        seed=seed,
    )


def generate_records(
    rng: random.Random, contract: Contract, *, slices: int, rows: tuple[int, ...]
) -> tuple[Record, ...]:
    """A trace: in each slice one of ``rows`` records a side, around a time that goes on, and sometimes back.

    It is generated again as long as it has no record (the coverage goal ``all_input_read``), or those of a side are all
    unreadable: the verdict of such a run is ``UNKNOWN``, and rightly so. One side alone may be empty.
    """
    while not (records := _records(rng, contract, slices, rows)) or _has_only_garbage(records):
        pass
    return tuple(_with_ids(records))


def _has_only_garbage(records: list[Record]) -> bool:
    """Whether the records of one side are all unreadable."""
    topics = {record.topic for record in records}
    return topics != {record.topic for record in records if record.value != GARBAGE}


def _records(rng: random.Random, contract: Contract, slices: int, rows: tuple[int, ...]) -> list[Record]:
    busy = 0 not in rows
    records, now_s = list[Record](), rng.choice((0.0, 0.0, 20.0))
    for number in range(slices):
        now_s += rng.choice((2, 4, 8) if busy else (0, 1, 3, 8))
        around_s = now_s - rng.choice((0, 0, 0, 2, 4, 7))
        for side in (contract.left, contract.right):
            records += [_record(rng, side, around_s, number) for _ in range(rng.choice(rows))]
    return records


def flush_of(contract: Contract, *, rounds: int = 1) -> tuple[Record, ...]:
    """A sentinel per side and round, each with a key of its own, that passes each filter upstream of the watermark."""
    found = []
    for number in range(rounds):
        for side in (contract.left, contract.right):
            value = {
                "id": f"sentinel-{side.topic}-{number}",
                **dict.fromkeys(side.keys, f"sentinel-{side.topic}"),
                "t": write_time((FAR_S + 1_000 * number) * 1_000_000),
                NUMBER: _passing(contract, side),
            }
            found.append(_as_record(side, value, number))
    return tuple(found)


def _passing(contract: Contract, side: Side) -> int:
    """A number that all that is said of this side alone holds for, and what Spark can infer of it."""
    terms = of_side((*contract.condition, *contract.where), RIGHT if side is contract.right else LEFT)
    inferable = place(as_planned(contract)).inferable[RIGHT if side is contract.right else LEFT]
    filters = (*side.filters, *terms, *inferable)
    number: int
    for number in (5, *range(-20, 30)):
        if all(passes(number, what) for what in filters):
            return number
    raise ValueError(f"no number passes {filters}")


def _filter(rng: random.Random) -> Filter:
    return Filter(NUMBER, *rng.choice((("<", 8), (">=", 2), ("!=", 5), ("<=", 6))))


def _term(rng: random.Random, *, both: bool = True) -> Term:
    """A condition that some rows pass and some do not; any two of them leave some numbers over."""
    choices = [
        Term(">", left=NUMBER, value=2),
        Term("!=", left=NUMBER, value=4),
        Term("<=", left=NUMBER, value=7),
    ]
    if both:
        choices += [
            Term("<", right=NUMBER, value=2),
            Term("!=", right=NUMBER, value=6),
            Term("<", left=NUMBER, right=NUMBER),
            Term("!=", left=NUMBER, right=NUMBER),
        ]
    return rng.choice(choices)


def _record(rng: random.Random, side: Side, around_s: float, number: int) -> Record:
    if rng.random() < 0.03:
        return _as_record(side, GARBAGE, number, partition=rng.randrange(PARTITIONS))
    step_us = rng.choice((0, 0, 0, 0, 1_000, -1_000, 500, -500, 1))
    seconds = max(0.0, around_s + rng.choice((-9, -4, -3, -2.5, -2, -1, 0, 0, 0, 0, 0.5, 1, 2)))
    value = {
        **{key: None if rng.random() < 0.05 else rng.choice(KEYS) for key in side.keys},
        "t": write_time(max(0, round(seconds * 1_000_000) + step_us)),
        NUMBER: rng.choice(KEY_NUMBERS if NUMBER in side.keys else NUMBERS),
    }
    return _as_record(side, value, number, partition=rng.randrange(PARTITIONS))


def _as_record(side: Side, value: dict[str, Any] | str, number: int, *, partition: int = 0) -> Record:
    text = value if isinstance(value, str) else json.dumps(value)
    return Record(topic=side.topic, value=text, arrival_ms=ARRIVAL_MS, partition=partition, slice=number)


def _with_ids(records: list[Record]) -> list[Record]:
    """The records with an id each, by which a person finds them."""
    found = []
    for number, record in enumerate(records):
        if record.value is not None and record.value.startswith("{"):
            value = {"id": f"{record.topic[0]}{number}", **json.loads(record.value)}
            record = msgspec.structs.replace(record, value=json.dumps(value))
        found.append(record)
    return found
