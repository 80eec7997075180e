"""The table of known defects: which versions have which, and that it is whole."""

from __future__ import annotations

import pytest

from tidemark.oracle.spark.known_defects import (
    BY_NAME,
    DEFECTS,
    FULL_OUTER_JOINS_NULL_KEYS,
    KNOWN_DEFECTS,
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
    Defect,
    has_defect,
)
from tidemark.oracle.spark.spark_versions import rules_of_spark


@pytest.mark.parametrize(
    ("spark", "affected"),
    [("4.0.5", False), ("4.1.4", False), ("4.2.0", True), ("4.10.0", True), ("5.0.0", True), ("", True)],
)
def test_left_semi_loses_rows_since_4_2(spark: str, affected: bool) -> None:
    assert BY_NAME[LEFT_SEMI_LOSES_SAME_BATCH_ROWS].affects(spark) is affected
    assert has_defect({"spark": spark}, LEFT_SEMI_LOSES_SAME_BATCH_ROWS) is affected


@pytest.mark.parametrize("spark", ["4.0.5", "4.3.0", "", "master"])
def test_a_defect_without_ends_is_in_every_version(spark: str) -> None:
    assert has_defect({"spark": spark}, FULL_OUTER_JOINS_NULL_KEYS)


@pytest.mark.parametrize(
    ("spark", "affected"), [("4.0.0", False), ("4.1.9", True), ("4.2.0", False), ("", False)]
)
def test_a_fixed_defect_has_a_last_version(spark: str, affected: bool) -> None:
    assert Defect("mended", "", (), first=(4, 1), last=(4, 1)).affects(spark) is affected


def test_a_spark_that_takes_the_right_rows_first_has_the_defect_of_it() -> None:
    for spark in ("4.0.5", "4.1.4", "4.2.0", "4.3.0", ""):
        has_it = has_defect({"spark": spark}, LEFT_SEMI_LOSES_SAME_BATCH_ROWS)
        assert rules_of_spark({"spark": spark}).semi_right_first is has_it


def test_every_defect_has_a_text_and_a_case_that_shows_it() -> None:
    assert len(KNOWN_DEFECTS) == len(DEFECTS)
    for defect in DEFECTS:
        assert defect.text.endswith(".")
        assert any(not case.control for case in defect.cases)


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for defect in DEFECTS for case in defect.cases]
    assert len(set(names)) == len(names)
