"""A Spark whose rules are not modelled: judged by SQL over the rows that the checkpoint's watermarks let through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import LEFT_TOPIC, Run, contract
from tidemark.formats.contract import Bound
from tidemark.formats.evidence import Batch
from tidemark.oracle.spark.known_defects import FULL_OUTER_JOINS_NULL_KEYS, LEFT_SEMI_LOSES_SAME_BATCH_ROWS

OLD = {"spark": "4.0.5"}


def old(run: Run) -> Run:
    run.versions = OLD
    return run


def outer() -> Run:
    """A pair, two NULL rows, a late left row."""
    run = Run("left_outer").batch("i1 a 10, i2 b 11", "c1 a 12").batch()
    return old(run.batch("i3 c 20, i9 d 9", "c3 e 21").batch().flush())


def test_right_rows_are_right_in_any_batch() -> None:
    for batch in (2, 3):
        verdict = outer().out(0, "i1 c1").out(batch, "i2 -").out(4, "i3 -").verdict()
        assert (verdict.verdict, verdict.findings) == ("VALID", [])
        assert verdict.oracles == ["sql"]
        assert verdict.counts["late"] == 1


def test_a_newer_spark_is_judged_by_both_oracles() -> None:
    run = outer().out(0, "i1 c1").out(2, "i2 -").out(4, "i3 -")
    run.versions = {"spark": "4.2.0"}
    verdict = run.verdict()
    assert verdict.oracles == ["model", "sql"]
    assert set(verdict.findings_total) == {"premature_nulls"}


@pytest.mark.parametrize(
    ("rows", "findings"),
    [
        ("i2 -, i3 -", {"lost_rows": 1}),
        ("i1 c1, i3 -", {"missing_nulls": 1}),
        ("i1 c1, i2 -, i3 -, i1 -", {"nulls_for_matched_rows": 1}),
        ("i1 c1, i2 -, i3 -, i9 -", {"late_rows_joined": 1}),
        ("i1 c1, i2 -, i3 -, i2 c1", {"phantom_rows": 1}),
        ("i1 c1, i2 -, i3 -, i3 -", {"duplicate_rows": 1}),
    ],
)
def test_what_is_wrong_with_the_output_is_found(rows: str, findings: dict[str, int]) -> None:
    assert outer().out(5, rows).findings() == findings


def test_a_row_that_comes_again_in_another_batch_is_a_repeat() -> None:
    assert outer().out(0, "i1 c1").out(3, "i2 -, i3 -, i1 c1").findings() == {"duplicate_rows": 1}


def test_lateness_is_that_of_the_checkpoint() -> None:
    """No input gives this watermark; it is taken as it is, and the row below it is late."""
    run = Run("inner").batch("i1 a 10", "c1 a 11").batch(watermark=30).batch("i2 b 29", "c2 b 29")
    assert old(run.flush()).out(0, "i1 c1").verdict().verdict == "VALID"
    assert run.out(2, "i2 c2").findings() == {"late_rows_joined": 1}


def test_what_an_uncommitted_batch_read_may_come_and_is_not_owed() -> None:
    run = old(Run("inner").batch("i1 a 10", "c1 a 11").batch("i2 b 12", "c2 b 13", committed=False))
    assert run.out(0, "i1 c1").findings() == {}
    assert run.out(1, "i2 c2").findings() == {}
    assert run.without("i1 c1").findings() == {"lost_rows": 1}


def test_output_without_positions_is_a_multiset_of_ids() -> None:
    given = contract("inner")
    bare = replace(given.output, left_ref=None, right_ref=None)
    run = Run("inner", output=bare).batch("i1 a 10, i1 a 10", "c1 a 11").batch().flush()
    assert old(run).out(0, "i1 c1").findings() == {"lost_rows": 1}
    assert run.out(0, "i1 c1").verdict().verdict == "VALID"
    assert run.out(0, "i1 c1").findings() == {"duplicate_rows": 1}


def same_batch() -> Run:
    run = Run("left_semi", bound=Bound(-1000, 1000)).batch("i1 9 100", "c1 9 100", watermark=0)
    run.batch("i2 1 50", "c2 1 50", watermark=100).batch("i3 9 101", "c3 9 101", watermark=100)
    return run.flush().out(0, "i1").out(2, "i3")


def test_a_defect_is_named_where_the_version_has_it_and_nowhere_else() -> None:
    assert [(one.property, one.defect) for one in old(same_batch()).verdict().findings] == [
        ("lost_rows", None)
    ]
    newer = same_batch().verdict()
    assert [one.defect for one in newer.findings] == [LEFT_SEMI_LOSES_SAME_BATCH_ROWS]


def test_null_keys_that_are_joined_are_the_known_defect_in_every_version() -> None:
    run = Run("full_outer").batch("i1 - 10, i2 a 10", "c1 - 11, c2 a 11").batch().flush()
    verdict = old(run).out(0, "i1 c1, i2 c2").verdict()
    assert verdict.findings_total == {"missing_nulls": 2, "phantom_rows": 1}
    assert {finding.defect for finding in verdict.findings} == {FULL_OUTER_JOINS_NULL_KEYS}


def test_a_null_key_that_is_joined_with_another_key_is_no_known_defect() -> None:
    run = Run("full_outer").batch("i1 - 10", "c2 a 11").batch().flush()
    run.out(1, "i1 -, - c2, i1 c2")
    assert [(one.property, one.defect) for one in old(run).verdict().findings] == [("phantom_rows", None)]


def test_a_gap_in_the_batches_is_a_finding_here_too() -> None:
    run = outer().out(0, "i1 c1")
    run.plans[3] = Batch(batch=7, watermark_ms=0, end_offsets={LEFT_TOPIC: {"0": 4}})
    assert "missing_batches" in run.findings()
