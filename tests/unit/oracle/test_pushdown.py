"""Where Spark puts what is asked of a side, and what it can infer for the other side if it is asked of a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import Run, contract
from tidemark.formats.contract import Filter, Term, WatermarkPolicy
from tidemark.formats.evidence import StateRow
from tidemark.formats.manifest import StateInfo
from tidemark.oracle.spark.pushdown import place

OF_KEY, OF_OTHER = Filter("user", ">=", 5), Filter("price", ">=", 5)


def filtered(kind, *, left=(), right=(), condition=(), **changes):
    given = contract(kind, condition=condition, **changes)
    sides = replace(given.left, filters=tuple(left)), replace(given.right, filters=tuple(right))
    return replace(given, left=sides[0], right=sides[1])


@pytest.mark.parametrize(
    ("kind", "of_left", "of_right"),
    [
        ("inner", True, True),
        ("left_semi", True, True),
        ("left_outer", False, True),
        ("right_outer", True, False),
        ("full_outer", False, False),
    ],
)
def test_a_filter_of_a_key_can_be_inferred_of_a_side_that_is_not_preserved(kind, of_left, of_right):
    assert place(filtered(kind, right=[OF_KEY])).inferable == ((OF_KEY,) if of_left else (), ())
    assert place(filtered(kind, left=[OF_KEY])).inferable == ((), (OF_KEY,) if of_right else ())


def test_nothing_can_be_inferred_of_another_field_or_of_what_is_asked_already():
    assert place(filtered("inner", left=[OF_OTHER])).inferable == ((), ())
    assert place(filtered("inner", left=[OF_KEY], right=[OF_KEY])).inferable == ((), ())


def test_a_condition_on_a_key_of_a_preserved_side_can_be_inferred_of_the_other():
    given = filtered("left_outer", condition=(Term(">=", left="user", value=5),))

    assert place(given).inferable == ((), (OF_KEY,))


def test_what_can_be_inferred_is_not_asked_for_certain():
    assert place(filtered("inner", left=[OF_KEY])).below == ((OF_KEY,), ())


def judged(*watermarks, state=None, batches=(), policy=WatermarkPolicy.MIN):
    """Clicks c2 and c3 have user 1: Spark may drop them, by what it is asked of impressions, or not."""
    run = Run("inner")
    run.contract = filtered("inner", left=[OF_KEY], policy=policy)
    run.batch("i1 7 10, i2 7 90", "c1 7 12, c2 1 80", out="i1 c1")
    run.batch("i3 7 95", "c3 1 85", watermark=watermarks[0])
    if state is not None:
        run.kept, run.info = state, StateInfo(format=2, batches=list(batches))
    return run.batch(watermark=watermarks[1]).verdict()


@pytest.mark.parametrize("watermarks", [(80, 85), (80, 80), (12, 85), (12, 12)])
def test_an_optional_row_moves_the_watermark_or_not_batch_by_batch(watermarks):
    assert judged(*watermarks).findings_total == {}


@pytest.mark.parametrize("watermarks", [(30, 85), (80, 84), (12, 80), (80, 12)])
def test_another_watermark_than_rows_can_give_is_wrong(watermarks):
    assert judged(*watermarks).findings_total == {"wrong_watermarks": 1}


def test_without_an_optional_row_the_watermark_is_what_rows_give():
    run = Run("inner")
    run.contract = filtered("inner", left=[OF_KEY])
    run.batch("i1 7 10, i2 7 90", "c1 7 12", out="i1 c1").batch(watermark=80)

    assert run.verdict().findings_total == {"wrong_watermarks": 1}


def kept(row, side, key, seconds, offset):
    return StateRow(
        batch=1, side=side, key=(key,), time_us=round(seconds * 1e6), ref=(0, offset), matched=row
    )


STATE = [kept(False, "left", "7", 90, 1), kept(False, "left", "7", 95, 2)]
OPTIONAL = kept(False, "right", "1", 85, 1 + 1)


@pytest.mark.parametrize("more", [[], [OPTIONAL]])
def test_an_optional_row_is_in_the_state_or_not(more):
    assert judged(80, 85, state=[*STATE, *more], batches=[1]).findings_total == {}


def test_another_row_in_the_state_is_leaked():
    verdict = judged(80, 85, state=[*STATE, kept(False, "right", "1", 86, 2)], batches=[1])

    assert verdict.findings_total == {"leaked_state": 1}


def test_metrics_of_a_run_with_optional_rows_are_not_compared_and_the_account_says_so():
    verdict = judged(80, 85)

    assert verdict.spark_account.metric_batches == 0
    assert any(
        "the metrics were not compared: Spark may have dropped" in note
        for note in verdict.spark_account.notes
    )
