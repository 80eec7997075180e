"""The first sentence of a verdict names what wrong rows have in common: queries that break a contract, one way each."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tests.unit.oracle.histories import Run, contract, iso
from tests.unit.oracle.other_query import Events, promised, run_of
from tidemark.formats.chain import Chain, Deduplicate
from tidemark.formats.contract import Bound, Contract, Delivery, Filter, Output
from tidemark.oracle import Verdict, judge
from tidemark.oracle.causes.common_facts import Fact, Kind, duration, most_telling, sentence, written
from tidemark.oracle.causes.row_facts import RowFacts
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import NO_BATCH, read_history
from tidemark.oracle.sql.join_answer import ask

PAIRS = 300
HOUR = Bound(-3_600_000, 0)


def events(seed: int = 1) -> tuple[Events, Events]:
    """Impressions, and for each of two thirds of them a click up to an hour later, some after exactly an hour."""
    chosen = random.Random(seed)
    lefts, rights = [], []
    for number in range(PAIRS):
        at, user = number * 60.0, chosen.randrange(40)
        left = {"iid": f"i{number}", "user": f"u{user}", "ad": f"a{user % 3}", "time": iso(at)}
        lefts.append(left | {"place": {"kind": "top" if number % 4 else "side"}, "cents": number * 7 % 100})
        if number % 3:
            after = 3600.0 if number % 10 == 0 else chosen.randrange(3_500)
            right = {"cid": f"c{number}", "user": f"u{user}", "ad": f"a{number % 3}", "time": iso(at + after)}
            rights.append((at + after, right))
    return lefts, [right for _, right in sorted(rights, key=lambda one: one[0])]


def kept(kind: str = "left_outer", **changes: Any) -> Contract:
    """A contract of clicks within an hour, with delays that make nothing late."""
    made = contract(kind, bound=HOUR)
    made = replace(
        made,
        left=replace(made.left, watermark_delay_ms=600_000),
        right=replace(made.right, watermark_delay_ms=600_000),
    )
    return replace(made, **changes)


def verdict_of(query: Contract, promise: Contract) -> Verdict:
    found = judge(promised(run_of(query, *events()), **{name: getattr(promise, name) for name in CHANGED}))
    assert found.verdict == "INVALID"
    return found


CHANGED = ("kind", "left", "right", "bound", "where", "condition", "output")
DISTANCE = "clicks.time - impressions.time"


def test_a_query_that_keeps_its_contract_has_no_cause() -> None:
    found = judge(run_of(kept(), *events()))
    assert (found.findings, found.causes, found.cause) == ([], [], "")


def test_a_strict_end_is_named() -> None:
    found = verdict_of(kept("inner", bound=replace(HOUR, lower_strict=True)), kept("inner"))
    many = found.findings_total["lost_rows"]
    assert many > 10
    assert f"rows that are due never came: in all {many}, {DISTANCE} = 1:00:00.000; in none of" in found.cause
    assert found.cause.endswith("that is the upper end of the contract's bound")


def test_a_shorter_bound_is_named_by_the_distances_that_are_lost() -> None:
    found = verdict_of(kept(bound=Bound(-1_800_000, 0)), kept())
    assert f"{DISTANCE} >= 0:30:" in found.cause
    assert found.cause.endswith("the contract's bound is 0:00:00.000 to 1:00:00.000")


def test_a_longer_bound_is_named_by_the_distances_that_are_too_much() -> None:
    found = verdict_of(kept("inner"), kept("inner", bound=Bound(-1_800_000, 0)))
    assert "rows came that no rule gives: in all" in found.cause
    assert f"{DISTANCE} >= 0:30:" in found.cause


def test_a_filter_of_the_query_alone_is_named_by_the_value_that_is_lost() -> None:
    lefts, rights = events()
    run = run_of(kept("inner"), lefts, rights)
    side = {left["iid"] for left in lefts if left["place"]["kind"] == "side"}
    run.records = [one for one in run.records if msgspec.json.decode(one.value)["iid"] not in side]
    found = judge(run)
    many = found.findings_total["lost_rows"]
    assert f"in all {many}, impressions.place.kind = 'side'; in none of" in found.cause


def test_a_filter_of_the_contract_alone_is_named_by_the_values_that_are_too_much() -> None:
    promise = kept("inner")
    promise = replace(promise, left=replace(promise.left, filters=(Filter("cents", ">=", 50),)))
    found = verdict_of(kept("inner"), promise)
    assert "rows came that no rule gives: in all" in found.cause
    assert "impressions.cents <= 49; in none of" in found.cause


def test_a_key_that_the_query_does_not_compare_is_named() -> None:
    def of(*keys: str) -> Contract:
        made = kept("inner")
        return replace(made, left=replace(made.left, keys=keys), right=replace(made.right, keys=keys))

    found = verdict_of(of("user"), of("user", "ad"))
    assert "rows came that no rule gives: in all" in found.cause
    assert "impressions.ad <> clicks.ad; in none of" in found.cause


def test_a_kind_without_null_rows_gives_none_of_them() -> None:
    found = verdict_of(kept("inner"), kept("left_outer"))
    many = found.findings_total["missing_nulls"]
    assert found.cause == f"none of {many} NULL rows that are due came"


def test_a_delay_that_differs_is_named_before_the_rows() -> None:
    query = kept()
    query = replace(
        query,
        left=replace(query.left, watermark_delay_ms=0),
        right=replace(query.right, watermark_delay_ms=0),
    )
    found = verdict_of(query, kept())
    assert "with delays of 600000 ms on impressions" in found.cause
    assert len(found.causes) > 1


def test_rows_with_nothing_in_common_are_counted_and_no_more() -> None:
    run = run_of(kept("inner"), *events())
    owed = len(run.records)
    chosen = set(random.Random(7).sample(range(owed), 9))
    run.records = [one for at, one in enumerate(run.records) if at not in chosen]
    assert judge(run).cause == f"9 of {owed} rows that are due never came"


def test_two_rows_are_too_few_to_have_something_in_common() -> None:
    run = Run("inner").batch("i1 a 10, i2 a 10, i3 b 10", "c1 a 12, c3 b 12", out="i3 c3").batch().flush()
    assert run.verdict().cause == "2 of 3 rows that are due never came"


def test_one_finding_is_its_own_cause() -> None:
    run = Run("inner").batch("i1 a 10, i3 b 10", "c1 a 12, c3 b 12", out="i3 c3").batch().flush()
    found = run.verdict()
    assert found.cause == found.findings[0].message


def test_what_is_wrong_with_records_that_cannot_be_read_is_said_once() -> None:
    run = run_of(kept("inner"), *events())
    run.records = [msgspec.structs.replace(one, headers=[]) for one in run.records]
    found = judge(run)
    corrupt = next(one for one in found.causes if one.property == "corrupt_rows")
    assert corrupt.message.startswith(f"{len(run.records)} output records cannot be read")
    assert f"in all {len(run.records)}, its header 'batch' is None" in corrupt.message


def test_rows_of_one_batch_are_named_by_it() -> None:
    run = run_of(kept("inner"), *events())
    run.records = [one for one in run.records if one.header("batch") != "6"]
    assert "in none of" in judge(run).cause
    assert "its batch = 6" in judge(run).cause


def test_a_semi_row_that_comes_in_a_later_batch_is_named_by_how_much_later() -> None:
    query = kept("left_semi", output=Output("iid", None, ("ip", "io"), None))
    run = run_of(query, *events())
    run.records = [
        msgspec.structs.replace(
            one, headers=[("query", "the-query"), ("batch", str(int(one.header("batch") or 0) + 1))]
        )
        for one in run.records
        if int(one.header("batch") or 0) < 10
    ]
    misplaced = next(one for one in judge(run).causes if one.property == "misplaced_rows")
    assert misplaced.message.endswith("in all 210, it came 1 batch too late")


def test_a_row_whose_batch_is_not_known_is_neither_early_nor_late() -> None:
    run = run_of(kept("inner"), *events())
    history = read_history(run)
    prediction = prediction_of(history, ask(history))
    identity, due = next(iter(prediction.batch_of.items()))
    facts = RowFacts(history, prediction, run.inputs())

    assert [fact.name for fact in facts.of((identity, NO_BATCH)) if fact.kind is Kind.DEVIATION] == []
    assert [fact.name for fact in facts.of((identity, due + 2)) if fact.kind is Kind.DEVIATION] == [
        "it came 2 batches too late"
    ]


AGE = Fact("age")


def facts(*values: object) -> list[Mapping[Fact, Any]]:
    return [{AGE: value} for value in values]


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ([1, 1, 1], [2, 3] * 5, "in all 3, age = 1; in none of 10 right rows"),
        (["x", "x", "x", "x", "y"], ["y"] * 10, "in 4 of 5, age = 'x'; in none of 10 right rows"),
        ([1, 2, 3], [4, 5] * 5, "in all 3, age <= 3; in none of 10 right rows"),
        ([Decimal("9.5"), 9, 10], [1, 2] * 5, "in all 3, age >= 9; in none of 10 right rows"),
        ([None, None, None], ["a"] * 10, "in all 3, age = NULL; in none of 10 right rows"),
        ([1, 1, 1], [1] * 2 + [2] * 98, "in all 3, age = 1; in 2 of 100 right rows"),
    ],
)
def test_a_fact_is_counted_in_both(wrong: list[object], right: list[object], said: str) -> None:
    found = most_telling(facts(*wrong), facts(*right))
    assert found is not None
    assert sentence(found, len(wrong), len(right)) == said


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ([1, 1], [2] * 10),
        ([1, 1, 1], [1, 2] * 5),
        (["x", "y", "z"], ["w"] * 10),
        ([1, 5, 9], [4, 6] * 5),
        ([1, 1, 1], [2] * 9),
        ([1, 2, 3], []),
        ([], [1] * 10),
    ],
)
def test_what_does_not_set_rows_apart_is_not_said(wrong: list[object], right: list[object]) -> None:
    assert most_telling(facts(*wrong), facts(*right)) is None


def test_what_no_right_row_can_have_is_said_without_right_rows() -> None:
    deviation = Fact("l.key <> r.key", Kind.DEVIATION)
    found = most_telling([{deviation: True}] * 3, [])
    assert found is not None
    assert sentence(found, 3, 0) == "in all 3, l.key <> r.key"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3_600_000_000, Kind.DURATION, "1:00:00.000"),
        (-1_500_001, Kind.DURATION, "-0:00:01.500001"),
        (0, Kind.TIME, "1970-01-01T00:00:00.000Z"),
        ("it's", Kind.VALUE, '"it\'s"'),
        ("x" * 99, Kind.VALUE, "'" + "x" * 57 + "…"),
        (True, Kind.VALUE, "true"),
        (None, Kind.VALUE, "NULL"),
    ],
)
def test_a_value_is_written_for_people(value: object, kind: Kind, text: str) -> None:
    assert written(value, kind) == text  # type: ignore[arg-type]


def test_a_duration_of_days_is_in_hours() -> None:
    assert duration(90_000_000_000) == "25:00:00.000"


def test_a_field_that_the_query_joins_in_place_of_a_key_is_named() -> None:
    """The one is mostly equal to the other."""
    lefts, rights = events()
    for number, right in enumerate(rights):
        right["payer"] = f"agency-{number}" if number % 9 == 0 else right["user"]  # type: ignore[index]
    made = kept("inner")
    query = replace(made, left=replace(made.left, keys=("user",)), right=replace(made.right, keys=("payer",)))
    promise = replace(query, right=replace(made.right, keys=("user",)))

    found = judge(promised(run_of(query, lefts, rights), left=promise.left, right=promise.right))

    many = found.findings_total["lost_rows"]
    assert many > 5
    assert (
        f"rows that are due never came: in all {many}, clicks.payer <> clicks.user; in none of" in found.cause
    )


def test_sides_that_are_swapped_in_the_bound_are_named_without_right_rows() -> None:
    found = verdict_of(kept("inner", bound=Bound(1, 3_600_000)), kept("inner"))
    assert (
        f"in all {found.findings_total['phantom_rows']}, {DISTANCE} is below the contract's bound"
        in found.cause
    )
    assert found.cause.endswith("the contract's bound is 0:00:00.000 to 1:00:00.000")


def test_rows_that_a_query_writes_twice_in_one_batch_are_told_from_those_of_a_restart() -> None:
    run = run_of(kept("inner"), *events())
    run.records = [one for one in run.records for _ in range(2)]

    found = judge(run)

    many = found.findings_total["duplicate_rows"]
    assert found.cause.startswith(
        f"{many} rows came once more than the delivery promise permits: in all {many}, its batch, which ran once,"
        " wrote it more than once"
    )


def test_a_row_that_a_later_batch_writes_again_is_no_copy_of_one_batch() -> None:
    run = run_of(kept("inner"), *events())
    history = read_history(run)
    prediction = prediction_of(history, ask(history))
    facts = RowFacts(history, prediction, run.inputs())
    identity, due = next(iter(prediction.batch_of.items()))

    assert facts.of_copy((identity, due + 1)) == {}
    assert [fact.name for fact in facts.of_copy((identity, due))] == [
        "its batch, which ran once, wrote it more than once"
    ]


def test_a_deduplication_that_is_missing_is_named_by_the_records_that_are_there_twice() -> None:
    once = Chain("once", Deduplicate(source("a", 5), ("id_a",), within_watermark=True), ("id_a", "t_a"))
    rows = ", ".join(f"i{number} k 10" for number in range(4))
    out = ", ".join(f"i{number} 10" for number in range(4))
    run = (
        ChainRun(once)
        .batch(f"{rows}, {rows}, j k 10", out=f"{out}, {out}, j 10")
        .flush(watermark=5, after=995)
    )
    run.delivery = Delivery.EXACTLY_ONCE

    found = run.judge()

    assert found.findings_total["duplicate_rows"] == 4
    assert (
        "in all 4, there is more than one record of a with its id_a, of which a deduplication keeps one"
        in found.cause
    )
