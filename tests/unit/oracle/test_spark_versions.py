"""The rules by version of Spark: which one follows which, and what is said of one that nobody compared."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.unit.oracle.histories import Run
from tidemark.oracle.spark.spark_versions import (
    OLDEST,
    RULES,
    SparkRules,
    minor_version,
    not_compared,
    rules_of_spark,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [("4.2.0", (4, 2)), ("4.10.0-SNAPSHOT", (4, 10)), ("4", None), ("", None), ("a.b", None)],
)
def test_a_version_is_read_as_two_numbers(text: str, version: tuple[int, int] | None) -> None:
    assert minor_version(text) == version


@pytest.mark.parametrize(
    ("spark", "right_first", "counts_all", "waits"),
    [
        ("3.5.7", False, False, False),
        ("4.0.5", False, False, True),
        ("4.1.4", False, False, True),
        ("4.2.0", True, False, True),
        ("4.3.0", True, True, True),
        ("4.10.0", True, True, True),
        ("5.0.0", True, True, True),
        ("", True, True, True),
        ("master", True, True, True),
    ],
)
def test_each_spark_follows_the_rules_of_the_last_change_before_it(
    spark: str, right_first: bool, counts_all: bool, waits: bool
) -> None:
    rules = rules_of_spark({"spark": spark})
    assert rules == SparkRules(right_first, counts_all, waits)


def test_the_table_is_in_the_order_of_versions_and_each_row_changes_something() -> None:
    assert list(RULES) == sorted(RULES)
    rules = list(RULES.values())
    assert all(one != other for one, other in pairwise(rules))
    assert rules_of_spark({"spark": "1.0.0"}) == RULES[OLDEST]


@pytest.mark.parametrize("spark", [".".join(map(str, (*OLDEST, 5))), "4.2.0", "9.0.0", "", "master"])
def test_nothing_is_inconclusive_of_a_spark_that_was_compared(spark: str) -> None:
    assert not_compared({"spark": spark}) == ""
    assert not_compared({}) == ""


def test_a_run_on_an_older_spark_is_inconclusive_and_says_so() -> None:
    run = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    run.versions = {"spark": "3.3.4"}
    verdict = run.verdict()
    assert verdict.verdict == "UNKNOWN"
    assert verdict.inconclusive == ["the rules of Spark 3.3.4 were not compared with the oracles"]
