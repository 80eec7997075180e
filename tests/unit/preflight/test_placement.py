"""Unsafe joins that Spark accepts, found by plan and by contract."""

from __future__ import annotations

import pytest

from tests.unit.preflight.plans import contract, plan
from tidemark.formats.contract import Bound, WatermarkPolicy
from tidemark.preflight import advise

NONE = {"watermark_delay_ms": None}

SOUND = {
    "inner": contract(),
    "left_outer": contract("left_outer"),
    "right_outer": contract("right_outer"),
    "equal_times": contract("left_outer", bound=Bound(equal=True)),
    "window": contract("left_outer", bound=Bound(equal=True, window_ms=10_000)),
    "calendar": contract(bound=Bound(-93_784_500, 0)),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_join_is_not_warned_of(name):
    assert advise(SOUND[name], plan(name), "4.2.0") == []
    assert advise(SOUND[name], None, "4.2.0") == []


BAD = {
    "watermark on the right only": (
        contract("left_outer", left=NONE), "watermark_on_the_right",
        [("null_rows_never_come", "impressions", "no watermark of its own", "withWatermark on impression_time"),
         ("state_never_removed", "clicks", "the other side has no watermark", "the other side too")],
    ),
    "watermark on the left only": (
        contract(right=NONE), "watermark_on_the_left",
        [("state_never_removed", "impressions", "the other side has no watermark", "the other side too"),
         ("state_never_removed", "clicks", "no watermark of its own", "withWatermark on click_time")],
    ),
    "no watermark": (
        contract(left=NONE, right=NONE), "no_watermark",
        [("state_never_removed", "impressions", "no watermark on either side", "both sides"),
         ("state_never_removed", "clicks", "no watermark on either side", "both sides")],
    ),
    "equal times, one watermark": (
        contract("left_outer", bound=Bound(equal=True), left=NONE), "equal_times_one_watermark",
        [("false_null_rows", "impressions", "its late rows are not dropped", "withWatermark on impression_time")],
    ),
    "no bound": (
        contract(bound=Bound()), "no_bound",
        [("state_never_removed", "impressions", "bound", "time"),
         ("state_never_removed", "clicks", "bound", "time")],
    ),
    "open end": (
        contract(bound=Bound(None, 0)), "open_end",
        [("state_never_removed", "impressions", "", "bound")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("with_plan", [True, False])
def test_plan_and_contract_lead_to_the_same_warnings(case, with_plan):
    given, name, expected = BAD[case]

    found = advise(given, plan(name) if with_plan else None, "4.2.0")

    assert [one.name for one in found] == [name for name, *_ in expected]
    for one, (_, topic, why, remedy) in zip(found, expected, strict=True):
        assert topic in one.reason
        assert why in one.reason
        assert remedy in one.remedy


@pytest.mark.parametrize(
    ("kind", "name", "warning", "why", "remedy"),
    [
        ("inner", "months", "state_never_removed", "an interval of months, which have no length", "in days"),
        (
            "inner",
            "function",
            "state_never_removed",
            "from date_trunc(second, click_time",
            "and nothing else",
        ),
        (
            "inner",
            "either",
            "state_never_removed",
            "(click_time >= impression_time) OR (price > 3)",
            "nothing else",
        ),
        ("inner", "difference", "state_never_removed", "(click_time - impression_time)", "nothing else"),
        ("inner", "window_order", "state_never_removed", "w.end >= w.end", "nothing else"),
        (
            "left_outer",
            "null_event_time",
            "null_event_times",
            "whose impression_time is NULL",
            "before withWatermark",
        ),
        ("left_outer", "conditions", "null_rows_never_come", "Spark takes price > 0", "BOOLEAN"),
        ("left_outer", "other_column", "bound_on_another_column", "bounds seen", "withWatermark on seen"),
        ("left_outer", "renamed", "bound_on_another_column", "bounds latest", "withWatermark on latest"),
        ("full_outer", "full_outer", "null_keys_match", "takes NULL keys for equal", "filter rows"),
        ("left_semi", "left_semi", "semi_rows_lost", "since 4.2.0", "Spark 4.1"),
    ],
)
def test_a_badly_placed_join_is_named_with_reason_and_remedy(kind, name, warning, why, remedy):
    found = [one for one in advise(contract(kind), plan(name), "4.2.0") if one.name == warning]

    assert any(why in one.reason and remedy in one.remedy for one in found), found


def test_a_semi_join_of_4_1_loses_nothing():
    assert advise(contract("left_semi"), plan("left_semi"), "4.1.4") == []


def test_the_policy_max_drops_the_slow_side():
    [found] = advise(contract("left_outer", policy=WatermarkPolicy.MAX), plan("left_outer"), "4.2.0")

    assert found.name == "slow_side_dropped"
    assert "comes out with NULL" in found.reason


def test_rows_without_time_are_warned_of_by_the_contract_alone():
    [found] = advise(contract("left_outer", left={"keeps_null_event_time": True}), None, "4.2.0")

    assert found.name == "null_event_times"
