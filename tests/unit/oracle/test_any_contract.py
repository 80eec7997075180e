"""Any contract: the model against a literal transcription of the rules, and against SQL, on drawn cases."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import pytest

from tests.support.either_oracle import modelled
from tests.support.tiers import every_day
from tests.unit.oracle.disagreements import disagreements
from tests.unit.oracle.literal import Literal
from tidemark.campaigns.case import NO_DATA, RUN_MODES, Case
from tidemark.campaigns.fuzz import sort_of
from tidemark.campaigns.input_traits import COMPACTED, TRAITS
from tidemark.campaigns.random_cases import (
    BOUNDS,
    GENERATED_STATES,
    flush_of,
    generate,
    generate_records,
    make_contract,
)
from tidemark.campaigns.state_stores import named
from tidemark.formats.contract import Bound, Contract, Delivery, JoinKind, Term, WatermarkPolicy
from tidemark.formats.evidence import Batch, InputRecord
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.formats.trace import Record
from tidemark.oracle.input.history import Disposition, first_of, read_history, right_of
from tidemark.runner.run_options import SINKS

pytestmark = [pytest.mark.not_smoke]

CASES_PER_SEED = 60


class Drawn:
    """The evidence of a drawn case whose slices are its batches; nothing came out of it."""

    def __init__(self, case: Case, restarts: set[int], form: int = 2, spark: str = "4.2.0") -> None:
        self.form = form
        self.spark = spark
        self.records = [
            # One partition: where there is no record, or a control record, is one without a value.
            msgspec.structs.replace(record, partition=0, transaction=None, absent=None, sent=None)
            for record in case.records
        ]
        flush = [
            msgspec.structs.replace(one, partition=0, slice=case.slices + one.slice) for one in case.flush
        ]
        self.sentinels, self.slices = len(flush), case.slices + case.rounds + 1
        self.records += flush
        self.restarts = restarts
        self.manifest = Manifest(
            tidemark_evidence=2,
            contract=case.contract.to_json(),
            delivery=Delivery.EXACTLY_ONCE,
            inputs={topic: InputTopic(topic, {"0": 0}, {"0": 99_999}) for topic in case.topics},
            state=StateInfo(format=form),
            versions={"spark": spark},
            waived=list(case.waived),
        )

    def inputs(self) -> list[InputRecord]:
        ends: Counter[str] = Counter()
        found = []
        for at, record in enumerate(self.records):
            is_sentinel = at >= len(self.records) - self.sentinels
            found.append(InputRecord(record.topic, 0, ends[record.topic], record.value, is_sentinel))
            ends[record.topic] += 1
        return found

    def batches(self) -> list[Batch]:
        """With the literal watermarks, which the model needs only where Spark has a choice."""
        watermarks_ms = self.literal.watermarks
        return [
            Batch(
                batch=number,
                watermark_ms=watermarks_ms[number],
                end_offsets={
                    topic: {"0": sum(one.topic == topic and one.slice <= number for one in self.records)}
                    for topic in self.manifest.inputs
                },
                restarted=number in self.restarts,
            )
            for number in range(self.slices)
        ]

    @cached_property
    def literal(self) -> Literal:
        model = Literal(json.loads(json.dumps(self.manifest.contract)), self.form, self.spark)
        numbers: Counter[str] = Counter()
        batches: list[list[tuple[str, int, str]]] = [[] for _ in range(self.slices)]
        for record in self.records:
            side = "L" if record.topic == "lefts" else "R"
            batches[record.slice].append((side, numbers[side], record.value or ""))
            numbers[side] += 1
        model.run(batches, self.restarts)
        return model


def drawn(seed: int) -> Drawn:
    """Every other one with the state format that has rules of its own; of the others every other one on Spark 4.1."""
    case = generate(seed)
    rng = random.Random(seed)
    restarts = {number for number in range(1, case.slices + 2) if rng.random() < 0.2}
    if seed % 2:
        return Drawn(case, restarts, form=4)
    return Drawn(case, restarts, spark="4.1.4" if seed % 4 else "4.2.0")


def model_does_what_the_rules_say(run: Drawn) -> None:
    history, literal = read_history(run), run.literal  # type: ignore[arg-type]
    prediction, rows = modelled(history), history.rows

    def parts(identity: int) -> tuple[int | None, int | None]:
        found: list[int | None] = [None, None]
        for row in (first_of(identity), right_of(identity)):
            if row is not None:
                found[history.rows.side[row]] = history.position(row)[1]
        return found[0], found[1]

    said = Counter((*parts(one), batch) for one, batch in prediction.batch_of.items())
    assert said == Counter(literal.out)
    assert prediction.watermarks_ms[:-1] == literal.watermarks
    late = {
        ("R" if rows.side[row] else "L", history.position(row)[1])
        for row in range(len(rows))
        if prediction.disposition[row] == Disposition.LATE
    }
    optional = {("R" if rows.side[row] else "L", history.position(row)[1]) for row in history.optional}
    assert late == literal.late - optional


def sql_says_the_same(run: Drawn) -> None:
    """Of rows, batches, watermarks and state."""
    assert disagreements(read_history(run)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("check", [model_does_what_the_rules_say, sql_says_the_same])
@pytest.mark.parametrize("first", every_day(range(0, 10_000, 1_000), range(3_000)))
def test_any_contract(check: Callable[[Drawn], None], first: int) -> None:
    for seed in range(first, first + CASES_PER_SEED):
        try:
            check(drawn(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_the_drawn_cases_have_all_there_is() -> None:
    seen: Counter[str] = Counter()
    joins: set[tuple[JoinKind, str]] = set()
    for seed in range(600):
        case = generate(seed)
        contract = case.contract
        seen.update([case.mode, case.sink, str(contract.policy), named(case.conf)])
        joins.add((contract.kind, sort_of(contract.bound)))
        seen["distinct delays"] += contract.left.watermark_delay_ms != contract.right.watermark_delay_ms
        values = [json.loads(record.value) for record in case.records if (record.value or "").startswith("{")]
        seen["NULL key"] += any(value.get("k0", "") is None for value in values)
        seen["sub-millisecond"] += any(len(str(value.get("t")).partition(".")[2]) > 4 for value in values)
        seen["where"] += bool(contract.where)
        seen["condition"] += bool(contract.condition)
        seen["filters"] += bool(contract.left.filters or contract.right.filters)
        seen["window"] += contract.bound.window_ms is not None
        seen["equal"] += contract.bound.equal
        seen["one watermark"] += contract.left.watermark_delay_ms is None
        seen["no-data off"] += NO_DATA in case.conf
        seen.update(case.traits)
    assert joins == {(kind, sort_of(bound)) for kind in JoinKind for bound in BOUNDS[kind]}
    assert {*RUN_MODES, *SINKS, *WatermarkPolicy, *GENERATED_STATES} <= set(seen)
    assert {*TRAITS, COMPACTED} <= set(seen)
    assert min(seen.values()) > 5, seen


@pytest.mark.parametrize("seed", [307, 2347])
def test_a_drawn_trace_is_never_empty(seed: int) -> None:
    assert generate(seed).records


def test_a_trace_may_be_of_one_side_alone() -> None:
    assert {record.topic for record in generate(51).records} == {"lefts"}


def outer(**changes: Any) -> Contract:
    return replace(make_contract("small", JoinKind.LEFT_OUTER, Bound(-5_000, 0)), **changes)


def record(topic: str, seconds: float, n: int | None, *, number: int = 0, at: int = 0) -> Record:
    time = f"1970-01-01T00:{int(seconds) // 60:02d}:{seconds % 60:06.3f}Z"
    value = {"id": f"{topic[0]}{at}", "k0": "a", "t": time, "n": n}
    return Record(topic=topic, value=json.dumps(value), arrival_ms=1, slice=number)


def emitted(contract: Contract, *records: Record, form: int = 2) -> dict[tuple[int, int | None], int]:
    """Offsets of left and right row -> the batch that emits them; without the sentinels' rows."""
    case = Case("small", contract, records, flush_of(contract))
    history = read_history(Drawn(case, set(), form=form))  # type: ignore[arg-type]
    found = {}
    for one, batch in modelled(history).batch_of.items():
        left, right = first_of(one), right_of(one)
        if not history.is_sentinel(left):
            offset = None if right is None else history.position(right)[1]
            found[history.position(left)[1], offset] = batch
    return found


def test_a_preserved_row_that_fails_its_own_condition_has_its_null_row_at_once() -> None:
    contract = outer(condition=(Term(">", left="n", value=3),))
    assert emitted(contract, record("lefts", 10, 2), record("rights", 10, 9)) == {(0, None): 0}
    assert emitted(contract, record("lefts", 10, 4), record("rights", 10, 9)) == {(0, 0): 0}


def test_a_lower_bound_of_another_column_keeps_rows_in_the_state() -> None:
    """Spark 4.2 takes ``n > 3`` for a time later than 3 s: the row of 2 s has its NULL row, that of 10 s never."""
    contract = outer(condition=(Term(">", left="n", value=3),))
    rows = record("lefts", 2, 9), record("lefts", 10, 9, at=1), record("rights", 1, 9)
    assert emitted(contract, *rows) == {(0, None): 2}
    usual = replace(contract, condition=(Term("!=", left="n", value=3),))
    assert emitted(usual, *rows) == {(0, None): 2, (1, None): 2}


def test_a_filter_on_the_right_columns_of_the_joined_row_leaves_no_null_rows() -> None:
    contract = outer(where=(Term("<", right="n", value=3),))
    rows = record("lefts", 10, 1), record("lefts", 50, 1, at=1), record("rights", 10, 9)
    assert emitted(contract, *rows) == {(0, 0): 0}


def test_a_window_is_late_by_its_end() -> None:
    contract = outer(bound=Bound(equal=True, window_ms=10_000))
    rows = [record("lefts", 25, 1), record("rights", 25, 1)]
    rows += [record("lefts", 26, 1, number=1, at=1), record("rights", 45, 1, number=1, at=1)]
    rows += [record("lefts", 21, 1, number=2, at=2), record("rights", 29, 1, number=2, at=2)]
    # The watermark is 25 s when batch 2 comes: its rows are before it, but their window ends at 30 s.
    assert emitted(contract, *rows)[2, 2] == 2


def test_state_format_4_keeps_a_row_behind_the_state_watermark_of_a_watermark_that_is_0() -> None:
    """The bound puts the state watermark of the left side at 999 ms before there is a watermark."""
    contract = outer(bound=Bound(1_000, 6_000))
    rows = record("lefts", 0.5, 1), record("lefts", 0.5, 1, number=1, at=1)
    assert emitted(contract, *rows) == {(0, None): 0, (1, None): 1}
    assert emitted(contract, *rows, form=4) == {(0, None): 0}


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_is_the_same_whenever_it_is_drawn(seed: int) -> None:
    contract = outer()
    once, again = (generate_records(random.Random(seed), contract, slices=3, rows=(2, 4)) for _ in range(2))
    assert once == again
    assert generate(seed) == generate(seed)
