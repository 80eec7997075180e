"""Expressions as Spark prints them."""

from __future__ import annotations

import pytest

from tidemark.preflight.plan_expressions import (
    Relation,
    bare,
    call,
    conjuncts,
    interval_us,
    linear,
    relation,
    split,
    tidy,
)

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("INTERVAL '20' SECOND", 20 * SECOND),
        ("INTERVAL '00.0015' SECOND", 1_500),
        ("INTERVAL '-05' SECOND", -5 * SECOND),
        ("INTERVAL '90' MINUTE", 5_400 * SECOND),
        ("INTERVAL '01:30' HOUR TO MINUTE", 5_400 * SECOND),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", 93_784_500_000),
        ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", -93_784_500_000),
        ("1 days 2 hours 3 minutes 4.5 seconds", 93_784_500_000),
        ("-1 hours", -3_600 * SECOND),
        ("0 seconds", 0),
        ("INTERVAL '1' MONTH", None),
        ("INTERVAL '1-2' YEAR TO MONTH", None),
        ("1 months 2 days", None),
        ("INTERVAL '1:2:3' DAY TO HOUR", None),
        ("20", None),
        ("", None),
    ],
)
def test_an_interval_is_read_or_is_none(text, us):
    assert interval_us(text) == us


def test_months_of_a_delay_have_31_days():
    assert interval_us("1 months 2 days", days_in_months=True) == 33 * 86_400 * SECOND


def test_conjuncts_are_split_where_no_bracket_is_open():
    assert conjuncts("((a#1 AND (b#2 OR (c#3 AND d#4))) AND f(x AND y))") == (
        "a#1", "b#2 OR (c#3 AND d#4)", "f(x AND y)",
    )  # fmt: skip
    assert conjuncts("null") == ()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("(a#1 >= b#2)", Relation("a#1", ">=", "b#2")),
        ("NOT (a#1 = 5)", Relation("a#1", "!=", "5")),
        ("(a#1 <=> b#2)", Relation("a#1", "<=>", "b#2")),
        ("((a#1 - b#2) < INTERVAL '1' DAY)", Relation("(a#1 - b#2)", "<", "INTERVAL '1' DAY")),
        ("NOT (a#1 < 5)", None),
        ("(a#1 = x > y)", None),
        ("isnotnull(a#1)", None),
    ],
)
def test_a_comparison_is_read_or_is_none(text, read):
    assert relation(text) == read


def test_a_sum_of_columns_and_intervals_is_linear():
    found = linear("(cast(a#1-T10000ms + INTERVAL '20' SECOND as timestamp) - b#2 - INTERVAL '5' SECOND)")

    assert found is not None
    assert found.columns == {"a#1-T10000ms": 1, "b#2": -1}
    assert found.us == 15 * SECOND


@pytest.mark.parametrize("text", ["unix_timestamp(a#1)", "a#1 + 20", "(a#1 * 2)", "cast(a#1 as double)"])
def test_what_is_more_than_a_sum_is_not_linear(text):
    assert linear(text) is None


def test_brackets_are_taken_off_only_in_pairs():
    assert bare("((a) + (b))") == "(a) + (b)"
    assert bare("(a) + (b)") == "(a) + (b)"
    assert split("f(a, b), [c, d], e", ", ") == ["f(a, b)", "[c, d]", "e"]
    assert call("f(a, (b))", "f") == "a, (b)"
    assert call("f(a) + g(b)", "f") is None


def test_people_see_fields_and_no_ids():
    text = "(from_json(StructField(price,LongType,true), cast(value#1L as string), Some(UTC), false).price >= a#2-T5ms)"

    assert tidy(text) == "(price >= a)"
