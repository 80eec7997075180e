"""Contracts held against recorded plans: what differs is named, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.preflight.plans import RANGE, contract, plan, text
from tidemark.formats.contract import Bound, Contract, Filter, JoinKind, Term, WatermarkPolicy
from tidemark.formats.record_fields import Field
from tidemark.preflight import QueryPlan, compare, read_plan

KEYS_OF_WINDOWS = {"bound": Bound(equal=True, window_ms=10_000)}
CONDITIONS = (Term("<", "price", "price"), Term(">", "price", value=0), Term(">=", right="price", value=7))

FITTING = {
    "inner": contract(),
    "left_outer": contract("left_outer"),
    "right_outer": contract("right_outer"),
    "full_outer": contract("full_outer"),
    "left_semi": contract("left_semi"),
    "spark_4_1": contract("left_outer"),
    "strict": contract(bound=Bound(-20_000, 0, lower_strict=True, upper_strict=True)),
    "open_end": contract(bound=Bound(None, 0)),
    "no_bound": contract(bound=Bound()),
    "equal_times": contract("left_outer", bound=Bound(equal=True)),
    "equal_times_one_watermark": contract(
        "left_outer", bound=Bound(equal=True), left={"watermark_delay_ms": None}
    ),
    "watermark_on_the_right": contract("left_outer", left={"watermark_delay_ms": None}),
    "watermark_on_the_left": contract(right={"watermark_delay_ms": None}),
    "no_watermark": contract(left={"watermark_delay_ms": None}, right={"watermark_delay_ms": None}),
    "long_delays": contract(left={"watermark_delay_ms": 2_851_200_000}, right={"watermark_delay_ms": 5_400_000}),
    "days_to_seconds": contract(bound=Bound(-93_784_500, 0)),
    "calendar": contract(bound=Bound(-93_784_500, 0)),
    "difference": contract(),
    "one_key": contract(left={"keys": ("user_id",)}, right={"keys": ("user_id",)}),
    "conditions": contract("left_outer", condition=CONDITIONS),
    "filters": contract(
        left={"filters": (Filter("price", ">=", 5),)}, right={"filters": (Filter("price", "<", 9),)},
        where=(Term("<", "price", "price"),),
    ),
    "window": contract("left_outer", **KEYS_OF_WINDOWS),
    "window_order": contract(bound=Bound(0, None, window_ms=10_000)),
    "null_event_time": contract(
        "left_outer", left={"keeps_null_event_time": True}, right={"keeps_null_event_time": True}
    ),
    "renamed": contract("left_outer"),
    "ids_of_a_range": contract(),
    "ids_of_a_semi_join": contract("left_semi"),
    "ids_of_windows": contract("left_outer", **KEYS_OF_WINDOWS),
    "clicks_first": contract("left_outer"),
    "texts": contract(
        left={"filters": (Filter("ad_id", "=", "in house"),),
              "fields": (Field("ad_id", type="string"), Field("impression_id", type="string"))},
        right={"filters": (Filter("click_id", "!=", "test"),),
               "fields": (Field("ad_id", type="string"), Field("click_id", type="string"))},
        where=(Term(">", "impression_id", value="i-7"),),
    ),
    "nested": contract(
        "left_outer",
        left={
            "id": "meta.id", "keys": ("viewer",), "time": "meta.at", "time_format": "epoch-ms",
            "fields": (Field("viewer", "who[0].id"), Field("price", type="decimal(12,2)")),
            "filters": (Filter("price", ">=", "0.5"),),
        },
        right={
            "id": "meta.id", "keys": ("user_id",), "time": "meta.at", "time_format": "dd/MM/yyyy HH:mm",
            "fields": (Field("cost", "price.net", "decimal(12,2)"),),
        },
        condition=(Term(">", "price", "cost"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTING)
def test_a_contract_that_fits_raises_no_alarm(name):
    found = compare(FITTING[name], plan(name), "min")

    assert found.mismatches == ()
    assert found.not_compared == ()


def of_texts(*filters: Filter) -> Contract:
    """The contract of the plan ``texts``, with other filters of clicks."""
    given = FITTING["texts"]
    fields = (*given.right.fields, Field("country", type="string"))
    return replace(given, right=replace(given.right, filters=filters, fields=fields))


LIES = {
    "a time of another zone": (
        replace(FITTING["nested"], right=replace(FITTING["nested"].right, time_zone="Europe/Berlin")),
        "nested", "event time of clicks", "meta.at is a time of Europe/Berlin", "meta.at is a time of UTC",
    ),
    "a key elsewhere": (
        replace(
            FITTING["nested"],
            left=replace(
                FITTING["nested"].left, fields=(Field("viewer", "who[1].id"), *FITTING["nested"].left.fields[1:])
            ),
        ),
        "nested", "keys", "who[1].id = user_id", "who[0].id = user_id",
    ),
    "another amount": (
        replace(FITTING["nested"], left=replace(FITTING["nested"].left, filters=(Filter("price", ">=", "0.51"),))),
        "nested", "filters of impressions", "price >= 0.51", "price >= 0.50",
    ),
    "a time elsewhere": (
        replace(FITTING["nested"], left=replace(FITTING["nested"].left, time="at")),
        "nested", "event time of impressions", "at", "on shown_at, which is meta.at",
    ),
    "kind": (contract("left_outer"), "inner", "kind", "left_outer (LeftOuter)", "Inner"),
    "kind, sides swapped": (contract("right_outer"), "clicks_first", "kind", "right_outer (RightOuter)", "LeftOuter"),
    "a key too many": (
        contract(), "one_key", "keys", "ad_id = ad_id and user_id = user_id", "user_id = user_id",
    ),
    "a key too few": (
        FITTING["one_key"], "inner", "keys", "user_id = user_id", "ad_id = ad_id and user_id = user_id",
    ),
    "another key": (
        contract(left={"keys": ("user_id", "campaign_id")}), "inner", "keys",
        "campaign_id = ad_id and user_id = user_id", "ad_id = ad_id and user_id = user_id",
    ),
    "NULL taken for equal": (
        contract(), "null_safe", "keys", "user_id = user_id, where NULL equals nothing",
        "user_id <=> user_id, where NULL equals NULL",
    ),
    "delay": (
        contract(left={"watermark_delay_ms": 1_000}), "inner", "watermark of impressions",
        "1000 ms on impression_time", "10000 ms (10 seconds)",
    ),
    "no watermark in the plan": (
        contract("left_outer"), "watermark_on_the_right", "watermark of impressions",
        "10000 ms on impression_time", "none",
    ),
    "no watermark in the contract": (
        contract(right={"watermark_delay_ms": None}), "inner", "watermark of clicks", "none",
        "20 seconds on click_time",
    ),
    "another event time": (
        contract(right={"time": "created"}), "equal_times_one_watermark", "event time of clicks", "created",
        "on click_time, which is click_time",
    ),
    "a time that is not of the record": (
        contract("left_outer"), "arrival_time", "event time of impressions", "impression_time",
        "on impression_time, which is not of the record",
    ),
    "bound half as long": (
        contract(bound=Bound(-10_000, 0)), "inner", "bound", "-10000 ms <= impression_time - click_time <= 0 ms",
        "-20000 ms <= impression_time - click_time <= 0 ms",
    ),
    "strict": (
        contract(), "strict", "bound", "-20000 ms <= impression_time - click_time <= 0 ms",
        "-20000 ms < impression_time - click_time < 0 ms",
    ),
    "an end that is open": (
        contract(), "open_end", "bound", "-20000 ms <= impression_time - click_time <= 0 ms",
        "impression_time - click_time <= 0 ms",
    ),
    "no bound": (
        contract(), "no_bound", "bound", "-20000 ms <= impression_time - click_time <= 0 ms", "no bound",
    ),
    "less than a millisecond": (
        contract(bound=Bound(-2, 0)), "sub_millisecond", "bound", "-2 ms <= impression_time - click_time <= 0 ms",
        "-1.5 ms <= impression_time - click_time <= 0 ms",
    ),
    "equal times": (
        contract("left_outer"), "equal_times", "bound", "-20000 ms <= impression_time - click_time <= 0 ms",
        "equal times as join keys",
    ),
    "equal times in the contract": (
        contract(bound=Bound(0, 0, equal=True)), "inner", "bound",
        "equal times as join keys and 0 ms <= impression_time - click_time <= 0 ms",
        "-20000 ms <= impression_time - click_time <= 0 ms",
    ),
    "longer windows": (
        contract("left_outer", bound=Bound(equal=True, window_ms=60_000)), "window", "bound",
        "tumbling windows of 60000 ms", "tumbling windows of 10000 ms",
    ),
    "windows": (
        contract("left_outer", bound=Bound(equal=True)), "window", "bound", "the times themselves",
        "tumbling windows of 10000 ms",
    ),
    "a filter that is not there": (
        contract(left={"filters": (Filter("price", ">", 5),)}), "inner", "filters of impressions", "price > 5",
        "nothing of it",
    ),
    "a filter that is not in the contract": (
        replace(FITTING["filters"], right=contract().right), "filters", "filters of clicks",
        "nothing of price < 9", "price < 9",
    ),
    "a condition taken for a filter": (
        contract("left_outer", condition=CONDITIONS[:1], left={"filters": (Filter("price", ">", 0),)},
                 right={"filters": (Filter("price", "<=", 7),)}),
        "conditions", "condition on impressions", "nothing of price > 0", "price > 0",
    ),
    "a condition that is not in the contract": (
        contract("left_outer", condition=CONDITIONS[1:]), "conditions", "condition",
        "nothing of left price < right price", "left price < right price",
    ),
    "a condition that is not there": (
        contract(condition=(Term(">=", "price", "price"),)), "inner", "condition", "left price >= right price",
        "nothing of it",
    ),
    "rows without time": (
        contract("left_outer"), "null_event_time", "filters of impressions",
        "rows without impression_time are filtered out", "rows without impression_time reach the join",
    ),
    "no rows without time": (
        contract("left_outer", left={"keeps_null_event_time": True}), "left_outer", "filters of impressions",
        "rows without impression_time reach the join", "rows without impression_time are filtered out",
    ),
    "another text": (
        of_texts(Filter("click_id", "!=", "tests")), "texts", "filters of clicks", "click_id != tests",
        "click_id != test",
    ),
    "text that nothing is asked of": (
        of_texts(), "texts", "filters of clicks", "nothing of click_id != test", "click_id != test",
    ),
    "text that is not asked of": (
        of_texts(Filter("click_id", "!=", "test"), Filter("country", "=", "NL")), "texts", "filters of clicks",
        "country = NL", "nothing of it",
    ),
    "a unit": (
        replace(FITTING["nested"], left=replace(FITTING["nested"].left, time_format="epoch-s")), "nested",
        "event time of impressions", "meta.at is read as seconds (epoch-s)",
        "meta.at is read as milliseconds (epoch-ms)",
    ),
    "policy": (contract(policy=WatermarkPolicy.MAX), "inner", "policy", "max", "min"),
    "an operator more": (
        contract(), "deduplicated", "operators", "a join and nothing else with state",
        "also StreamingDeduplicateWithinWatermark",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_differs_is_said_in_both_words(lie):
    given, name, part, says, has = LIES[lie]

    found = compare(given, plan(name), "min")

    assert (part, says, has) in [(one.part, one.contract, one.plan) for one in found.mismatches]
    assert all(one.hint for one in found.mismatches)
    assert str(found.mismatches[0]).count("; the plan says ") == 1


@pytest.mark.parametrize(
    ("name", "bound", "topics"),
    [
        ("no_bound", Bound(), []),
        ("times_left_out", Bound(), ["impressions", "clicks"]),
        ("time_left_out_on_the_left", Bound(), ["impressions"]),
        ("ends_of_windows", Bound(0, None, window_ms=10_000), ["impressions", "clicks"]),
        ("window_order", Bound(0, None, window_ms=10_000), []),
    ],
)
def test_a_side_whose_time_does_not_reach_the_join_drops_no_late_row(name, bound, topics):
    found = compare(contract(bound=bound), plan(name), "min").mismatches

    assert [one.part for one in found] == [f"late rows of {topic}" for topic in topics]
    assert all("Spark leaves it out before the join" in one.plan for one in found)
    assert all("in the output, or bound the join" in one.hint for one in found)


def test_a_side_that_has_no_watermark_has_no_time_to_leave_out():
    one_sided = contract(bound=Bound(), left={"watermark_delay_ms": None})

    found = compare(one_sided, plan("times_left_out"), "min").mismatches

    assert [one.part for one in found] == ["watermark of impressions", "late rows of clicks"]


@pytest.mark.parametrize(
    ("given", "name", "says"),
    [
        (contract(), "computed_key", "keys: the plan joins on upper(ad_id) = lower(ad_id)"),
        (contract(), "months", "bound: click_time <= impression_time + INTERVAL '1' MONTH is not read"),
        (contract(), "function", "bound: date_trunc(second, click_time"),
        (contract(), "either", "bound: (click_time >= impression_time) OR (price > 3) is not read"),
        (
            contract(left={"filters": (Filter("price", ">", 5),)}),
            "by_function",
            "filters of impressions: pythonUDF0: boolean is in the plan",
        ),
        (
            of_texts(Filter("click_id", "!=", "test AND more")),
            "texts",
            "filters of clicks: click_id != test is in the plan",
        ),
        (
            of_texts(Filter("click_id", "!=", "(test)")),
            "texts",
            "filters of clicks: whether click_id != (test) is in the plan",
        ),
        (contract(), "two_joins", "a contract describes one join, the plan has 2 (Inner and Inner)"),
        (
            contract("left_outer", condition=(Term("!=", "price", value=5),)),
            "text_filter",
            "condition on impressions: user_id = x (y) is in the plan",
        ),
    ],
)
def test_what_cannot_be_read_is_not_compared_and_no_alarm(given, name, says):
    found = compare(given, plan(name), "min")

    assert found.mismatches == ()
    assert any(says in sentence for sentence in found.not_compared), found.not_compared


def test_two_times_of_one_name_are_told_apart_by_their_topics():
    nested = contract(
        "left_outer", bound=Bound(-10_000, 0), left={"time": "meta.at", "time_format": "epoch-ms"},
        right={"time": "meta.at"},
    )  # fmt: skip

    [bound] = [one for one in compare(nested, plan("nested"), "min").mismatches if one.part == "bound"]

    assert bound.plan == "-20000 ms <= impressions.meta.at - clicks.meta.at <= 0 ms"


@pytest.mark.parametrize(
    "asked",
    [
        "(isnull(click_id#12) OR (click_time#4-T20000ms > impression_time#5-T10000ms))",
        "(click_time#4-T20000ms > impression_time#5-T10000ms + INTERVAL '05' SECOND)",
    ],
)
def test_a_filter_above_the_join_over_the_times_of_both_sides_is_noted(asked):
    heading, *lines = text("left_outer").splitlines()
    lines = [f"*(5) Filter {asked}", f"+- {lines[0]}", *(f"   {line}" for line in lines[1:])]

    found = compare(contract("left_outer"), read_plan("\n".join([heading, *lines])), "min")

    assert found.mismatches == ()
    assert [sentence for sentence in found.not_compared if "click_time > impression_time" in sentence]


KEY_FILTERED = contract(
    "left_outer", left={"keys": ("price",), "filters": (Filter("price", ">=", 5),)}, right={"keys": ("price",)},
    condition=(Term(">", right="price", value=9),),
)  # fmt: skip


@pytest.mark.parametrize("name", ["key_filtered", "key_filtered_and_inferred"])
def test_a_comparison_of_a_key_that_spark_inferred_or_not_is_no_difference(name):
    found = compare(KEY_FILTERED, plan(name), "min")

    assert (found.mismatches, found.not_compared) == ((), ())


def test_an_outer_join_whose_null_rows_a_where_drops_is_an_inner_one():
    given = contract("left_outer", where=(Term(">", right="price", value=0),))

    assert [one.part for one in compare(given, plan("inner")).mismatches] == ["filters of clicks"]


def test_a_query_without_a_join_of_two_streams_is_no_join():
    given = text("inner").replace("StreamingSymmetricHashJoin", "SortMergeJoin")

    [found] = compare(contract(), read_plan(given)).mismatches

    assert (found.part, found.plan) == ("kind", "no join of two streams")
    assert RANGE.lower_ms == -20_000


DECODES = {"decode": "read", "encode": "write"}


def decoded(name: str, **changes: object) -> Contract:
    """The contract that fits a plan, with records that functions decode to other names."""
    given = replace(FITTING[name], **changes)
    sides = (replace(side, id="own", keys=("who",) * len(side.keys), time="at", fields=(), filters=(), **DECODES)
             for side in (given.left, given.right))  # fmt: skip
    left, right = sides
    return replace(given, left=left, right=right)


DECODERS = pytest.mark.parametrize("decoder", ["from_json", "from_avro"])
"""A function of which a plan says what is in its records, and one of which it does not."""


def plan_by(decoder: str, name: str) -> QueryPlan:
    return read_plan(text(name).replace("from_json(", f"{decoder}("))


@DECODERS
@pytest.mark.parametrize(
    "name", ["inner", "left_outer", "strict", "clicks_first", "full_outer", "no_watermark"]
)
def test_a_decoded_contract_that_fits_raises_no_alarm_whatever_its_names_are(name, decoder):
    found = compare(decoded(name), plan_by(decoder, name))

    assert found.mismatches == ()
    assert found.not_compared == ("keys and filters: a plan does not say what decoded records are",)


def test_the_columns_of_a_struct_that_a_function_returns_are_columns_of_their_own():
    found = compare(decoded("left_outer"), plan("read_by_function"))

    assert found.mismatches == ()


@DECODERS
@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"kind": JoinKind.INNER}, "kind"),
        ({"bound": Bound(-21_000, 0)}, "bound"),
        ({"bound": Bound(-20_000, 0, upper_strict=True)}, "bound"),
        ({"left": replace(FITTING["left_outer"].left, watermark_delay_ms=9_000)}, "watermark of impressions"),
    ],
)
def test_kind_bound_and_delay_of_a_decoded_contract_are_compared(changes, part, decoder):
    found = compare(decoded("left_outer", **changes), plan_by(decoder, "left_outer"))

    assert [mismatch.part for mismatch in found.mismatches] == [part]
