"""Right and full outer joins: their own rules, each damage by its name, and what Spark gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.oracle.disagreements import disagreements
from tests.unit.oracle.histories import Run
from tests.unit.oracle.test_rules import emitted
from tidemark.formats.contract import Bound
from tidemark.oracle.input.history import read_history
from tidemark.oracle.spark.known_defects import FULL_OUTER_JOINS_NULL_KEYS
from tidemark.oracle.sql.join_answer import ask


def right() -> Run:
    run = Run("right_outer").batch("i1 a 10, i2 b 11", "c1 a 12, c2 z 11", out="i1 c1")
    return run.batch("i3 c 20", "c3 c 21", out="i3 c3").batch("", "c9 a 9", out="- c2").flush()


def full() -> Run:
    run = Run("full_outer").batch("i1 a 10, i2 b 11", "c1 a 12, c2 z 11", out="i1 c1")
    return run.batch("i3 c 20", "c3 c 21", out="i3 c3").batch(out="i2 -, - c2").flush()


@pytest.mark.parametrize("undamaged", [right, full])
def test_undamaged_evidence_is_valid(undamaged: Callable[[], Run]) -> None:
    run = undamaged()
    run.goals = ["null_row_after_eviction", "rows_joined"]
    verdict = run.verdict()
    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.inconclusive


DAMAGE: dict[str, tuple[str, Callable[[], Run]]] = {
    "a right NULL row removed": ("missing_nulls", lambda: right().without("- c2")),
    "a right NULL row doubled": ("duplicate_rows", lambda: right().out(2, "- c2")),
    "a right NULL row before its watermark": ("premature_nulls", lambda: right().moved("- c2", 1)),
    "a right NULL row for a matched row": ("nulls_for_matched_rows", lambda: right().out(2, "- c1")),
    "a right NULL row for a late row": ("late_rows_joined", lambda: right().out(2, "- c9")),
    "a right NULL row invented": ("phantom_rows", lambda: right().out(2, "- c77")),
    "a left NULL row in a right outer join": ("phantom_rows", lambda: right().out(3, "i2 -")),
    "a row without any side": ("corrupt_rows", lambda: right().out(2, "- -")),
    "a left NULL row of a full outer join removed": ("missing_nulls", lambda: full().without("i2 -")),
    "a right NULL row of a full outer join removed": ("missing_nulls", lambda: full().without("- c2")),
    "a right NULL row in a left outer join": (
        "phantom_rows",
        lambda: Run("left_outer").batch("i1 a 10", "c2 z 11", out="- c2").flush(out="i1 -"),
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_is_one_finding_by_name(name: str) -> None:
    killed_by, damaged = DAMAGE[name]
    assert set(damaged().findings()) == {killed_by}


def test_a_right_row_that_is_evictable_when_it_comes_gets_its_null_row_at_once() -> None:
    run = Run("right_outer").batch("i1 x 30", "c1 x 30", watermark=0).batch("", "c2 b 11", watermark=30)
    assert emitted(run) == {"i1 c1": 0, "- c2": 1}


@pytest.mark.parametrize("kind", ["inner", "left_outer"])
def test_where_the_right_side_is_not_preserved_it_is_dropped_without_a_word(kind: str) -> None:
    run = Run(kind).batch("i1 x 30", "c1 x 30", watermark=0).batch("", "c2 b 11", watermark=30)
    assert emitted(run) == {"i1 c1": 0}


def test_a_right_row_that_was_matched_and_is_evictable_is_not_kept() -> None:
    run = Run("right_outer").batch("i1 b 10, i9 x 30", "c9 x 30", watermark=0)
    run.batch("i3 b 12", "c2 b 11", watermark=30).batch(watermark=30)
    assert emitted(run) == {"i9 c9": 0, "i1 c2": 1}


def test_only_the_side_that_is_not_preserved_loses_its_null_keys() -> None:
    run = Run("right_outer").batch("i1 - 10, i2 b 20", "c1 - 10, c2 x 20", watermark=0).batch(watermark=20)
    assert emitted(run) == {"- c1": 1}


def test_a_full_outer_join_takes_null_keys_for_equal_and_the_defect_is_named() -> None:
    run = Run("full_outer").batch("i1 - 10, i2 b 20", "c1 - 11, c2 x 20", watermark=0, out="i1 c1")
    verdict = run.batch(watermark=20).flush(out="i2 -, - c2").verdict()
    assert verdict.findings_total == {"missing_nulls": 2, "phantom_rows": 1}
    assert {finding.defect for finding in verdict.findings} == {FULL_OUTER_JOINS_NULL_KEYS}


def test_an_open_end_keeps_a_preserved_right_row_for_ever() -> None:
    run = Run("right_outer", bound=Bound(-5000, None)).batch("i1 x 100", "c1 a 10, c2 x 100", watermark=0)
    assert emitted(run.batch(watermark=100)) == {"i1 c2": 0}


@pytest.mark.parametrize("kind", ["left_outer", "right_outer", "full_outer"])
@pytest.mark.parametrize("watermarked", [(), ("left",), ("right",), ("left", "right")])
def test_where_times_are_equal_a_row_before_1970_is_final_if_the_other_side_has_a_watermark(
    kind: str, watermarked: tuple[str, ...]
) -> None:
    """All watermarks are 0 s. Without any an unmatched row may always be matched; with one of its own it is late."""
    run = Run(kind, bound=Bound(equal=True)).batch("i1 a -5, i2 x 0", "c1 b -5, c2 y 0").batch()
    run.batches = lambda: run.plans  # type: ignore[method-assign]
    left, right = (
        replace(side, watermark_delay_ms=0 if name in watermarked else None)
        for name, side in (("left", run.contract.left), ("right", run.contract.right))
    )
    run.contract = replace(run.contract, left=left, right=right)
    preserved = {"left_outer": ["left"], "right_outer": ["right"], "full_outer": ["left", "right"]}[kind]
    final = [name for name in preserved if watermarked and name not in watermarked]

    history = read_history(run)

    assert ask(history).is_right.sum() == 2 * len(final)
    assert disagreements(history) == []
