"""Where Spark puts what is asked of a side, and what it can infer for the other side if it is asked of a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import Run, contract
from tidemark.formats.contract import Filter, Term
from tidemark.oracle.spark.pushdown import inferable, place

OF_KEY, OF_OTHER = Filter("user", ">=", 5), Filter("price", ">=", 5)


def filtered(kind, *, left=(), right=(), condition=()):
    given = contract(kind, condition=condition)
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
    assert inferable(filtered(kind, right=[OF_KEY])) == ({"impressions": [OF_KEY]} if of_left else {})
    assert inferable(filtered(kind, left=[OF_KEY])) == ({"clicks": [OF_KEY]} if of_right else {})


def test_nothing_can_be_inferred_of_another_field_or_of_what_is_asked_already():
    assert inferable(filtered("inner", left=[OF_OTHER])) == {}
    assert inferable(filtered("inner", left=[OF_KEY], right=[OF_KEY])) == {}


def test_a_condition_on_a_key_of_a_preserved_side_can_be_inferred_of_the_other():
    assert inferable(filtered("left_outer", condition=(Term(">=", left="user", value=5),))) == {
        "clicks": [OF_KEY]
    }


def test_what_was_inferred_is_asked_below_the_watermark_and_nothing_else():
    given = filtered("inner", left=[OF_KEY, OF_OTHER])

    assert place(given).below == ((OF_KEY, OF_OTHER), ())
    assert place(given, {"clicks": [OF_KEY]}).below == ((OF_KEY, OF_OTHER), (OF_KEY,))


ASKED = {"clicks": [OF_KEY]}
WATERMARKS = {"not inferred": 80, "inferred": 12}
"""The watermark in seconds after i2 (at 90 s) and c2 (at 80 s), or c1 (at 12 s) where c2 is filtered out."""


def judged(inferred, watermark):
    """Click c2 has user 1, so that it is filtered out if Spark asks clicks, too, for user >= 5."""
    run = Run("inner")
    run.contract = filtered("inner", left=[OF_KEY])
    run.inferred_filters = inferred
    return run.batch("i1 7 10, i2 7 90", "c1 7 12, c2 1 80", out="i1 c1").batch(watermark=watermark).verdict()


@pytest.mark.parametrize(("inferred", "plan"), [({}, "not inferred"), (ASKED, "inferred")])
def test_a_run_is_judged_by_what_its_plan_says(inferred, plan):
    (other,) = WATERMARKS.keys() - {plan}

    assert judged(inferred, WATERMARKS[plan]).findings_total == {}
    assert judged(inferred, WATERMARKS[other]).findings_total == {"wrong_watermarks": 1}


@pytest.mark.parametrize(("plan", "did"), [("not inferred", "did not ask"), ("inferred", "asked")])
def test_a_run_whose_plan_nobody_read_is_unknown_if_it_is_right_under_one_plan_alone(plan, did):
    verdict = judged(None, WATERMARKS[plan])

    assert (verdict.verdict, verdict.findings) == ("UNKNOWN", [])
    reason = f"the manifest has no inferred_filters, and the run is right only if Spark {did} for user >= 5 of clicks"
    assert verdict.inconclusive[-1] == reason


def test_a_run_that_is_wrong_under_any_plan_is_invalid_though_nobody_read_it():
    verdict = judged(None, 30)

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"wrong_watermarks": 1}
