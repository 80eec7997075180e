"""What is read from the plans that Spark printed."""

from __future__ import annotations

import pytest

from tests.unit.preflight.plans import RECORDED, plan, text
from tidemark.preflight import UnreadablePlan, read_plan
from tidemark.preflight.plan_columns import Column

NAMES = sorted(path.stem for path in RECORDED.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_plan_is_read(name):
    assert plan(name).joins


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("inner", "Inner"), ("left_outer", "LeftOuter"), ("right_outer", "RightOuter"),
        ("full_outer", "FullOuter"), ("left_semi", "LeftSemi"), ("spark_4_1", "LeftOuter"),
    ],
)  # fmt: skip
def test_a_join_has_kind_keys_watermarks_and_cleanup(name, kind):
    read = plan(name)
    [join] = read.joins

    assert join.kind == kind
    for side in (join.left, join.right):
        assert [read.columns.source(key).field for key in side.keys] == ["user_id", "ad_id"]
        assert side.cleanup == "value"
    assert [[mark.delay_ms for mark in side.watermarks] for side in (join.left, join.right)] == [
        [10_000],
        [20_000],
    ]
    assert len(join.both) == 2
    assert read.stateful == ()


@pytest.mark.parametrize(
    ("name", "cleanup"),
    [
        ("open_end", (None, "value")),
        ("no_bound", (None, None)),
        ("equal_times", ("key", "key")),
        ("equal_times_one_watermark", ("key", "key")),
        ("watermark_on_the_right", (None, None)),
        ("months", (None, "value")),
        ("window", ("key", "key")),
        ("other_column", ("value", None)),
    ],
)
def test_the_cleanup_of_each_side_is_read(name, cleanup):
    [join] = plan(name).joins

    assert (join.left.cleanup, join.right.cleanup) == cleanup


def test_conjuncts_are_read_by_side():
    [join] = plan("conditions").joins

    assert [text.partition("#")[0] for text in join.left.only] == ["price"]
    assert join.right.only == ()
    assert len(join.both) == 3


def test_columns_are_followed_to_the_fields_of_the_record():
    read = plan("renamed")
    [join] = read.joins

    assert [read.columns.source(key).field for key in (*join.left.keys, *join.right.keys)] == [
        "user_id", "ad_id", "user_id", "ad_id",
    ]  # fmt: skip
    assert read.columns.source(join.left.watermarks[0].column).field == "impression_time"
    assert read.columns.source(join.right.watermarks[0].column).field == "click_time"


def test_a_window_is_its_time_and_its_length():
    read = plan("window")
    found = [read.columns.source(key) for key in read.joins[0].left.keys]

    assert [(column.field, column.window_us) for column in found] == [
        ("user_id", None), ("ad_id", None), ("impression_time", 10_000_000),
    ]  # fmt: skip


def test_a_time_that_is_not_of_the_record_is_a_constant():
    read = plan("arrival_time")
    found = read.columns.source(read.joins[0].left.watermarks[0].column)

    assert isinstance(found, Column)
    assert (found.field, found.constant) == (None, True)


LEFT_OUT = {
    "times_left_out": (True, True),
    "time_left_out_on_the_left": (True, False),
    "ends_of_windows": (True, True),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_time_is_left_out_where_no_column_of_the_join_carries_the_watermark(name):
    for join in plan(name).joins:
        assert (join.left.time_left_out, join.right.time_left_out) == LEFT_OUT.get(name, (False, False))


def test_what_is_below_an_operator_that_is_not_known_is_not_said_to_be_left_out():
    given = text("times_left_out").replace("Exchange hashpartitioning", "Shuffle")

    assert [(join.left.time_left_out, join.right.time_left_out) for join in read_plan(given).joins] == [
        (False, False)
    ]


def test_other_operators_with_state_are_listed():
    assert plan("deduplicated").stateful == ("StreamingDeduplicateWithinWatermark",)
    assert plan("counted").stateful == ("StateStoreSave",)
    assert [join.kind for join in plan("two_joins").joins] == ["Inner", "Inner"]


@pytest.mark.parametrize(
    ("changed", "to", "says"),
    [
        ("== Physical Plan ==", "== Plan ==", "the text has no"),
        ("leftOnly", "left", "is no join that is known"),
        ("left value predicate", "left sometimes", "is no state cleanup that is known"),
        (": timestamp, 10 seconds", "", "is no watermark that is known"),
        ("[user_id#", "[user_id(#", "are not the keys of two sides"),
    ],
)
def test_a_plan_of_another_form_is_refused_with_the_place(changed, to, says):
    given = text("left_outer")
    assert changed in given

    with pytest.raises(UnreadablePlan, match=says):
        read_plan(given.replace(changed, to))
