"""What Spark's optimizer takes out of a chain, by examples whose plans were looked at; see ``chain_fuzz`` for more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tidemark.errors import BrokenContract
from tidemark.formats.chain import (
    Aggregate,
    Chain,
    Deduplicate,
    Join,
    Limit,
    Step,
    Value,
    Where,
    Window,
    time_of,
)
from tidemark.formats.contract import Bound, Filter, JoinKind, Term, WatermarkPolicy
from tidemark.oracle.spark.outer_join_elimination import distinct_keys, optimized

COUNT = Aggregate(Window(source("a"), "end", 10_000), ("k_a",), (Value("n", "count"),))
CLICKS = Aggregate(Window(source("b"), "end_b", 10_000), ("k_b",), (Value("m", "count"),))
WINDOWS = Join(JoinKind.LEFT_OUTER, COUNT, CLICKS, (("k_a", "k_b"),), Bound(equal=True), "end")
PLAIN = Join(JoinKind.LEFT_OUTER, source("a"), source("b"), (("k_a", "k_b"),), Bound(-5000, 0), "t_a")
RIGHT = replace(PLAIN, kind=JoinKind.RIGHT_OUTER, time="t_b")


def counts(topic: str, *more_keys: str) -> Aggregate:
    """``n_a`` for each ``k_a`` and window ``w_a``; ``more_keys`` are more fields by which rows of ``a`` are counted."""
    window = Window(source(topic, required=(f"k_{topic}", *more_keys)), f"w_{topic}", 10_000)
    return Aggregate(window, (f"k_{topic}", *more_keys), (Value(f"n_{topic}", "count"),))


def joined(left: Step, right: Step, kind: JoinKind = JoinKind.INNER, **changes) -> Join:
    """Two of them, by key and window, of which that of the left goes on, or that of the preserved side."""
    a, b = time_of(left)[-1], time_of(right)[-1]
    time = {JoinKind.RIGHT_OUTER: f"w_{b}", JoinKind.FULL_OUTER: None}.get(kind, f"w_{a}")
    return replace(Join(kind, left, right, ((f"k_{a}", f"k_{b}"),), Bound(equal=True), time), **changes)


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


A, B, C = counts("a"), counts("b"), counts("c")
FINE = counts("c", "v_c")
"""Of a ``k_c`` and window there are more than one of these."""
LEFT_OUTER, RIGHT_OUTER = JoinKind.LEFT_OUTER, JoinKind.RIGHT_OUTER
FULL_OUTER, LEFT_SEMI = JoinKind.FULL_OUTER, JoinKind.LEFT_SEMI
MORE = (Term(">", "n_b", "n_c"),)
TWICE = Aggregate(B, ("k_b", "n_b"), (Value("again", "count"),))


@pytest.mark.parametrize(
    ("step", "keys"),
    [
        pytest.param(source("b"), [], id="a source has none"),
        pytest.param(Window(source("b"), "w_b", 10_000), [], id="a window has none"),
        pytest.param(B, ["k_b w_b"], id="an aggregate has its groups"),
        pytest.param(replace(B, keys=()), ["w_b"], id="an aggregate of all rows of a window"),
        pytest.param(TWICE, ["k_b w_b"], id="an aggregate of an aggregate keeps smaller groups"),
        pytest.param(
            replace(TWICE, keys=("n_b",)), ["n_b w_b"], id="it has its own where those are not smaller"
        ),
        pytest.param(Where(B, (Filter("n_b", ">", 1),)), ["k_b w_b"], id="a filter keeps them"),
        pytest.param(Window(B, "wide", 20_000), [], id="a window of a window is a new one"),
        pytest.param(Deduplicate(B, ("k_b",)), [], id="a deduplication has none"),
        pytest.param(Deduplicate(B, ("k_b",), within_watermark=True), [], id="within the watermark neither"),
        pytest.param(joined(B, C), ["k_b w_b"], id="an inner join keeps those with its time"),
        pytest.param(joined(B, C, time="w_c"), ["k_c w_c"], id="that may be the time of the right"),
        pytest.param(joined(B, C, LEFT_OUTER), ["k_b w_b"], id="a left outer join those of the left"),
        pytest.param(joined(B, C, RIGHT_OUTER), ["k_c w_c"], id="a right outer join those of the right"),
        pytest.param(joined(B, C, FULL_OUTER), [], id="a full outer join none"),
        pytest.param(
            joined(B, C, LEFT_SEMI, conditions=MORE), ["k_b w_b"], id="a left semi join those of the left"
        ),
        pytest.param(joined(B, FINE, LEFT_SEMI, conditions=MORE), ["k_b w_b"], id="whatever is on its right"),
        pytest.param(joined(B, FINE), [], id="an inner join where the right repeats rows"),
        pytest.param(joined(B, FINE, time="w_c"), ["k_c v_c w_c"], id="it keeps those of the right"),
        pytest.param(joined(B, FINE, LEFT_OUTER), [], id="a left outer join where the right repeats rows"),
        pytest.param(joined(FINE, B, RIGHT_OUTER), [], id="a right outer join where the left repeats rows"),
        pytest.param(
            joined(FINE, B, LEFT_OUTER),
            ["k_c v_c w_c"],
            id="a left outer join keeps those that the right finds",
        ),
        pytest.param(joined(B, C, keys=()), [], id="an inner join by time alone"),
        pytest.param(
            joined(B, Window(source("c"), "w_c", 10_000)), [], id="a join with rows that are not counted"
        ),
        pytest.param(
            joined(B, FINE, LEFT_OUTER, conditions=(Term("=", "n_b", "v_c"),)),
            ["k_b w_b"],
            id="an equation is a key",
        ),
    ],
)
def test_spark_knows_the_keys_of_a_step(step, keys):
    assert distinct_keys(step) == {frozenset(key.split()) for key in keys}


DISTINCT = [
    (joined(A, joined(B, C), LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(A, joined(B, C), LEFT_OUTER), ("k_a", "n_c"), (0, 1, 2)),
    (joined(A, joined(B, C)), ("k_a", "n_a"), (0, 1, 2)),
    (joined(A, joined(B, C), LEFT_OUTER, keys=(("k_a", "k_c"),)), ("k_a", "n_a"), (0, 1, 2)),
    (joined(A, joined(B, C, time="w_c"), LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(A, joined(B, C, time="w_c"), LEFT_OUTER, keys=(("k_a", "k_b"),)), ("k_a", "n_a"), (0, 1, 2)),
    (joined(A, joined(B, C, LEFT_OUTER), LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(A, joined(B, C, RIGHT_OUTER), LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(A, joined(B, C, LEFT_SEMI, conditions=MORE), LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(A, joined(B, FINE), LEFT_OUTER), ("k_a", "n_a"), (0, 1, 2)),
    (joined(A, joined(B, FINE, LEFT_OUTER), LEFT_OUTER), ("k_a", "n_a"), (0, 1, 2)),
    (joined(A, Deduplicate(B, ("k_b", "w_b")), LEFT_OUTER), ("k_a", "n_a"), (0, 1)),
    (joined(A, TWICE, LEFT_OUTER), ("k_a", "n_a"), (0,)),
    (joined(joined(B, C), A, RIGHT_OUTER), ("k_a", "n_a"), (2,)),
    (joined(joined(B, C, LEFT_OUTER), A, LEFT_OUTER), ("k_b", "n_b"), (0,)),
    (joined(joined(B, C, LEFT_OUTER), A, LEFT_OUTER), ("k_b", "n_c"), (0, 1)),
    (joined(joined(B, C, LEFT_OUTER), A), ("k_b", "n_b"), (0, 2)),
    (joined(A, FINE, LEFT_OUTER, conditions=(Term("=", "n_a", "v_c"),)), ("k_a", "n_a"), (0,)),
    (joined(A, FINE, LEFT_OUTER, conditions=(Term("<=", "n_a", "v_c"),)), ("k_a", "n_a"), (0, 1)),
]
"""The last step of a chain, its output, and which of its sources are read. ``tests/spark`` asks Spark."""


@pytest.mark.parametrize(("last", "output", "kept"), DISTINCT)
def test_a_join_whose_rows_spark_knows_to_be_distinct_is_not_read(last, output, kept):
    assert optimized(Chain("any", last, output)).sources == kept


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
