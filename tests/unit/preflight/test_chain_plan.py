"""A chain held against recorded plans: what fits is silent, and what differs is said by its part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.preflight.plans import plan, text
from tidemark.formats.chain import Aggregate, Chain, Deduplicate, Join, Limit, Source, Value, Window
from tidemark.formats.contract import Bound, JoinKind
from tidemark.formats.record_fields import Field
from tidemark.preflight import compare_chain, read_steps
from tidemark.runner.plan_check import check_plan

SHOWN = Source(
    "impressions", "impression_time",
    (*map(Field, ("impression_id", "user_id", "ad_id")), Field("price", None, "bigint")), 10_000,
    required=("impression_id", "user_id", "ad_id"),
)  # fmt: skip
CLICKED = Source(
    "clicks", "click_time", (Field("click_id"), Field("clicker", "user_id"), Field("clicked_ad", "ad_id")), 20_000,
    required=("clicker", "clicked_ad"),
)  # fmt: skip
PAIRS = (("user_id", "clicker"), ("ad_id", "clicked_ad"))
JOINED = Join(JoinKind.INNER, SHOWN, CLICKED, PAIRS, Bound(-20_000, 0), time="impression_time")
COUNTED = Aggregate(Window(JOINED, "shown_in", 10_000), (), (Value("count", "count"),))
ONCE = replace(JOINED, left=Deduplicate(SHOWN, ("impression_id",), within_watermark=True))


def differences(name, last, policy="min"):
    """Part -> what the chain says, and what the plan does."""
    described = Chain(
        "chain", last, ("shown_in", "count") if isinstance(last, Aggregate) else ("impression_time",)
    )
    compared = compare_chain(described, read_steps(text(name)), plan(name).columns, policy)
    assert len(compared.not_compared) == 1
    return {one.part: (one.contract, one.plan) for one in compared.mismatches}


@pytest.mark.parametrize(("name", "last"), [("counted", COUNTED), ("deduplicated", ONCE), ("inner", JOINED)])
def test_a_chain_that_its_query_keeps_has_no_difference(name, last):
    assert differences(name, last) == {}


@pytest.mark.parametrize(
    ("name", "last", "says"),
    [
        (
            "counted",
            JOINED,
            {"operators": ("join (source and source)", "aggregate (join (source and source))")},
        ),
        (
            "deduplicated",
            replace(ONCE, left=Deduplicate(SHOWN, ("impression_id",))),
            {
                "operators": (
                    "join (deduplicate (source) and source)",
                    "join (deduplicate within the watermark (source) and source)",
                )
            },
        ),
        ("deduplicated", Limit(ONCE, 3), {"operators": (
            "limit (join (deduplicate within the watermark (source) and source))",
            "join (deduplicate within the watermark (source) and source)",
        )}),
        (
            "deduplicated",
            replace(ONCE, left=replace(ONCE.left, keys=("impression_id", "ad_id"))),
            {"keys of the deduplication": ("impression_id, ad_id", "impression_id")},
        ),
        ("inner", replace(JOINED, kind=JoinKind.LEFT_OUTER), {"kind": ("left_outer (LeftOuter)", "Inner")}),
        (
            "left_outer",
            replace(JOINED, left=replace(SHOWN, watermark_delay_ms=9_000)),
            {"kind": ("inner (Inner)", "LeftOuter"), "watermark of impressions": ("9000 ms", "10 seconds")},
        ),
        (
            "inner",
            replace(JOINED, keys=PAIRS[:1]),
            {
                "keys of the join, on the left": ("user_id", "user_id, ad_id"),
                "keys of the join, on the right": ("user_id", "user_id, ad_id"),
            },
        ),
        (
            "inner",
            replace(JOINED, bound=Bound(-10_000, 0)),
            {"bound": (
                "-10000 ms <= impression_time - click_time <= 0 ms",
                "-20000 ms <= impression_time - click_time <= 0 ms",
            )},
        ),
        (
            "deduplicated",
            replace(ONCE, bound=Bound(-20_000, 0, upper_strict=True)),
            {"bound": (
                "-20000 ms <= impression_time - click_time < 0 ms",
                "-20000 ms <= impression_time - click_time <= 0 ms",
            )},
        ),
        (
            "counted",
            replace(COUNTED, keys=("ad_id",), input=replace(COUNTED.input, input=JOINED)),
            {"keys of the aggregate": ("ad_id, a window", "window")},
        ),
    ],
)  # fmt: skip
def test_what_the_query_does_otherwise_is_said_by_its_part(name, last, says):
    assert differences(name, last) == says


def test_another_policy_is_said():
    assert differences("inner", JOINED, "max") == {"policy": ("min", "max")}


def test_the_sides_of_a_join_may_be_exchanged():
    assert differences("clicks_first", replace(JOINED, kind=JoinKind.LEFT_OUTER)) == {}
    assert differences("clicks_first", JOINED) == {"kind": ("inner (Inner)", "LeftOuter")}


def test_the_bound_of_a_topic_that_is_joined_with_itself_is_compared():
    again = replace(CLICKED, topic="impressions")
    found = differences("inner", replace(JOINED, right=again, bound=Bound(-5_000, 0)))
    assert found["bound"][0] == "-5000 ms <= impression_time - click_time <= 0 ms"


def test_an_operator_that_no_chain_has_is_said_by_sparks_name():
    changed = text("deduplicated").replace(
        "StreamingDeduplicateWithinWatermark", "TransformWithStateInPySpark"
    )
    described = Chain("chain", ONCE, ("impression_time",))
    [one] = compare_chain(described, read_steps(changed), plan("inner").columns, None).mismatches
    assert one.plan == "join (TransformWithStateInPySpark (source) and source)"


def test_a_plan_that_cannot_be_read_is_not_compared():
    checked = check_plan(Chain("chain", ONCE, ("impression_time",)), "nothing", "min", "4.3.0")
    assert checked.comparison.mismatches == ()
    assert "Physical Plan" in checked.comparison.not_compared[0]


def test_a_join_that_nothing_needs_is_taken_out_by_spark():
    """An aggregate of least and most, of the left side alone, tells no row of an outer join from two."""
    one_side = """== Physical Plan ==
*(4) HashAggregate(keys=[window#0-T10000ms], functions=[max(price#2L)])
+- StateStoreSave [window#0-T10000ms], state info [ checkpoint = <unknown>], Append, 0, 0, 2
   +- StateStoreRestore [window#0-T10000ms], state info [ checkpoint = <unknown>], 2
      +- EventTimeWatermark 00000000-0000-0000-0000-000000000000, impression_time#1: timestamp, 10 seconds
         +- StreamingRelation rate, [timestamp#9, value#8L]
"""
    outer = replace(JOINED, kind=JoinKind.LEFT_OUTER)
    last = Aggregate(Window(outer, "shown_in", 10_000), (), (Value("most", "max", "price"),))
    described = Chain("chain", last, ("shown_in", "most"))
    counted = replace(described, last=COUNTED, output=("shown_in", "count"))

    def parts(chain):
        compared = check_plan(chain, one_side, "min", "4.3.0").comparison
        return [mismatch.part for mismatch in compared.mismatches]

    assert parts(described) == []
    assert parts(counted) == ["operators"]
