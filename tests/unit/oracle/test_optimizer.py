"""What Spark's optimizer takes out of a chain, by examples whose plans were looked at; see ``chain_fuzz`` for more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tidemark.errors import BrokenContract
from tidemark.formats.chain import Aggregate, Chain, Deduplicate, Join, Limit, Step, Value, Where, Window
from tidemark.formats.contract import Bound, Filter, JoinKind, Term, WatermarkPolicy
from tidemark.oracle.spark.outer_join_elimination import optimized

COUNT = Aggregate(Window(source("a"), "end", 10_000), ("k_a",), (Value("n", "count"),))
CLICKS = Aggregate(Window(source("b"), "end_b", 10_000), ("k_b",), (Value("m", "count"),))
WINDOWS = Join(JoinKind.LEFT_OUTER, COUNT, CLICKS, (("k_a", "k_b"),), Bound(equal=True), "end")
PLAIN = Join(JoinKind.LEFT_OUTER, source("a"), source("b"), (("k_a", "k_b"),), Bound(-5000, 0), "t_a")
RIGHT = replace(PLAIN, kind=JoinKind.RIGHT_OUTER, time="t_b")


def greatest(step: Step, of: str, *more: Value, key: str = "k_a") -> Step:
    return Aggregate(Window(step, "last", 10_000), (key,), (Value("most", "max", of), *more))


@pytest.mark.parametrize(
    ("last", "output", "kept"),
    [
        (WINDOWS, ("k_a", "n"), (0,)),
        (WINDOWS, ("k_a", "n", "m"), (0, 1)),
        (WINDOWS, ("k_a", "n", "end_b"), (0, 1)),
        (replace(WINDOWS, kind=JoinKind.INNER), ("k_a", "n"), (0, 1)),
        (replace(WINDOWS, kind=JoinKind.LEFT_SEMI, conditions=(Term(">", "n", "m"),)), ("k_a", "n"), (0, 1)),
        (replace(WINDOWS, conditions=(Term(">", "n", "m"),)), ("k_a", "n"), (0,)),
        (replace(WINDOWS, right=Where(CLICKS, (Filter("m", ">", 1),))), ("k_a", "n"), (0,)),
        (replace(WINDOWS, right=Window(source("b"), "end_b", 10_000)), ("k_a", "n"), (0, 1)),
        (replace(WINDOWS, kind=JoinKind.RIGHT_OUTER, time="end_b"), ("k_b", "m"), (1,)),
        (PLAIN, ("id_a",), (0, 1)),
        (Deduplicate(PLAIN, ("id_a",)), ("id_a",), (0, 1)),
        (greatest(PLAIN, "v_a"), ("k_a", "most"), (0,)),
        (greatest(PLAIN, "v_a", Value("many", "count")), ("k_a", "most", "many"), (0, 1)),
        (greatest(PLAIN, "v_a", Value("many", "count")), ("k_a", "most"), (0,)),
        (greatest(RIGHT, "v_b", key="k_b"), ("k_b", "most"), (1,)),
        (greatest(replace(WINDOWS, right=Window(source("b"), "end_b", 10_000)), "n"), ("most",), (0, 1)),
    ],
)
def test_a_side_that_nothing_needs_is_not_read(last, output, kept):
    described = Chain("any", last, output)

    plan = optimized(described)

    assert plan.sources == kept
    if len(kept) == len(described.sources):
        assert plan.chain is described
    else:
        assert plan.chain.sources == tuple(described.sources[number] for number in kept)


def test_a_side_that_is_not_read_holds_the_watermark_for_ever():
    unused = Chain("unused", WINDOWS, ("k_a", "n"))
    run = ChainRun(unused).batch("i1 u 3, i2 u 4, i3 v 12", "c1 u 5, c2 w 12").batch("i4 v 30", "c3 v 30")
    run.versions = {"spark": "4.3.0"}

    verdict = run.batch("i5 v 40", "c4 v 40").judge()

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"lost_rows": 2}
    assert {finding.defect for finding in verdict.findings} == {"unused-side-holds-the-watermark"}
    assert list(verdict.known_defects) == ["unused-side-holds-the-watermark"]


def test_spark_3_5_waits_for_the_side_that_is_read_alone():
    unused = Chain("unused", WINDOWS, ("k_a", "n"))
    run = ChainRun(unused).batch("i1 u 3, i2 u 4, i3 v 12", "c1 u 5, c2 w 50")
    run.versions = {"spark": "3.5.7"}
    verdict = run.batch(watermark=12, out="u 2").flush(watermark=12, out="v 1").judge()

    assert (verdict.findings, verdict.inconclusive) == ([], [])


def test_under_the_policy_max_the_other_input_moves_the_watermark():
    unused = Chain("unused", WINDOWS, ("k_a", "n"), WatermarkPolicy.MAX)
    run = ChainRun(unused).batch("i1 u 3, i2 u 4, i3 v 12", "c1 u 5, c2 w 50")
    verdict = run.batch(watermark=12, out="u 2").flush(watermark=12, out="v 1").judge()

    assert verdict.findings == []


@pytest.mark.parametrize("limited", [PLAIN, RIGHT, source("a"), Window(source("a"), "end", 10_000)])
def test_a_limit_that_spark_puts_elsewhere_is_refused(limited):
    with pytest.raises(BrokenContract) as refused:
        Chain("wrong", Limit(limited, 5), ("k_b" if limited is RIGHT else "k_a",))
    assert "chance" in str(refused.value)
