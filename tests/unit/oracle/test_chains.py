"""What stands around a join, judged: each step by itself, in histories that one can work out by hand."""

from __future__ import annotations

import json
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
    Value,
    Where,
    Window,
    read_contract,
)
from tidemark.formats.contract import Bound, Delivery, Filter, JoinKind, Term, WatermarkPolicy

COUNT = Aggregate(Window(source("a"), "end", 10_000), ("k_a",), (Value("n", "count"),))
COUNTS = Chain("counts", COUNT, ("k_a", "end", "n"))
ONCE = Chain("once", Deduplicate(source("a", 5), ("id_a",), within_watermark=True), ("id_a", "t_a"))
FIRST = Chain("first", Limit(source("a", None), 2), ("id_a",))
BOUND = Bound(-5000, 0)  # b comes within 5 s after a
JOINED = Join(JoinKind.LEFT_OUTER, source("a"), source("b"), (("k_a", "k_b"),), BOUND, time="t_a")
THEN_COUNTED = Chain(
    "then_counted",
    Aggregate(Window(JOINED, "end", 10_000), ("k_a",), (Value("n", "count"), Value("sum", "sum", "v_b"))),
    ("k_a", "end", "n", "sum"),
)
ONCE_JOINED = Chain(
    "once_joined",
    replace(JOINED, left=Deduplicate(source("a"), ("id_a",), within_watermark=True)),
    ("id_a", "id_b"),
)
AGAIN = source("c", time="t_c")
TWICE_JOINED = Chain(
    "twice_joined",
    Join(JoinKind.LEFT_OUTER, replace(JOINED, kind=JoinKind.INNER), AGAIN, (("k_a", "k_c"),), BOUND),
    ("id_a", "id_b", "id_c"),
)
CLICKS = Aggregate(Window(source("b"), "end_b", 10_000), ("k_b",), (Value("m", "count"),))
WINDOWS = Join(JoinKind.LEFT_OUTER, COUNT, CLICKS, (("k_a", "k_b"),), Bound(equal=True))
WINDOWS_JOINED = Chain("windows_joined", WINDOWS, ("k_a", "end", "n", "m"))
NO_FEWER = replace(WINDOWS, conditions=(Term(">=", "n", "m"),))
COMPARED = Chain("compared", NO_FEWER, ("k_a", "end", "n", "m"))


def properties(run: ChainRun) -> dict[str, int]:
    verdict = run.judge()
    assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason], (
        verdict.inconclusive
    )
    assert sum(verdict.findings_total.values()) == len(verdict.findings)
    return verdict.findings_total


def valid(run: ChainRun) -> None:
    verdict = run.judge()
    assert verdict.findings == []
    assert verdict.inconclusive == []
    assert verdict.verdict == "VALID"


def counted() -> ChainRun:
    """Rows at 3 s and 9.999 s are one window. The watermark of 15 closes it in the batch without data."""
    return (
        ChainRun(COUNTS)
        .batch("c1 u 3, c2 u 9.999, c3 v 4, c4 u 15")
        .batch(watermark=15, out="u 10 2, v 10 1")
        .flush(watermark=15, out="u 20 1")
    )


def test_a_window_is_written_when_the_watermark_reaches_its_end():
    valid(counted())


def test_a_row_that_is_older_than_the_watermark_counts_while_its_window_is_open():
    run = ChainRun(COUNTS).batch("c1 u 18").batch(watermark=18).batch("c2 u 11", watermark=18)
    valid(run.flush(watermark=18, out="u 20 2"))


def test_a_row_whose_window_was_closed_is_late_and_counting_it_is_named():
    def run(out: str) -> ChainRun:
        first = ChainRun(COUNTS).batch("c1 u 3, c2 u 20").batch(watermark=20, out="u 10 1")
        return first.batch("c3 u 9", watermark=20, out=out).flush(watermark=20, out="u 30 1")

    valid(run(""))
    late = run("u 10 1").judge()
    assert late.counts["late"] == 1
    assert set(late.findings_total) == {"duplicate_rows"}


def test_a_wrong_count_is_a_row_that_was_lost_and_one_that_nothing_gives():
    run = counted()
    run.records[0] = run.record(1, ["u", "10", "3"])
    verdict = run.judge()

    assert verdict.findings_total == {"lost_rows": 1, "phantom_rows": 1}
    assert "its group is k_a u, end 1970-01-01T00:00:10.000Z, n 2" in verdict.findings[1].message
    assert verdict.findings[0].written == ["a/0/0", "a/0/1"]


def test_a_where_keeps_groups_by_their_values():
    described = Chain("many", Where(COUNT, (Filter("n", ">=", 2),)), ("k_a", "n"))
    run = ChainRun(described).batch("c1 u 3, c2 u 4, c3 v 4, c4 w 12").batch(watermark=12, out="u 2")
    valid(run.flush(watermark=12))
    run.out(1, "v 1")
    assert properties(run) == {"phantom_rows": 1}


def test_a_copy_is_dropped_until_the_delay_after_its_first_row_has_passed():
    """i1 at 10 is forgotten at a watermark of 15: its copy of 16 comes again, that of 12 did not."""
    run = ChainRun(ONCE).batch("i1 x 10", out="i1 10").batch(watermark=5)
    run.batch("i1 x 12", watermark=5).batch(watermark=7)
    run.batch("i2 x 20", watermark=7, out="i2 20").batch(watermark=15)
    run.batch("i1 x 16", watermark=15, out="i1 16")
    valid(run.flush(watermark=15, after=995).out(7, "s-a 1000"))


def test_a_copy_that_comes_out_is_named():
    run = ChainRun(ONCE).batch("i1 x 10", out="i1 10").batch("i1 x 10", watermark=5, out="i1 10")
    assert properties(run) == {"duplicate_rows": 1}


def test_which_of_two_rows_with_a_key_is_kept_is_read_from_the_output():
    for kept in ("i1 10", "i1 11"):
        run = ChainRun(ONCE).batch("i1 x 10, i1 x 11", out=f"{kept}, s-a 1000").batch(watermark=6)
        assert properties(run) == {"phantom_rows": 1}, "the sentinel was not read"
        run = ChainRun(ONCE).batch("i1 x 10, i1 x 11", out=kept)
        assert properties(run) == {}
    both = ChainRun(ONCE).batch("i1 x 10, i1 x 11", out="i1 10, i1 11")
    assert properties(both) == {"phantom_rows": 1}


def test_before_a_join_the_row_that_is_kept_cannot_be_observed_and_the_verdict_is_inconclusive():
    run = ChainRun(ONCE_JOINED).batch("i1 x 10, i1 y 11", "c1 x 12", out="i1 c1").flush(watermark=11)
    verdict = run.judge()

    assert verdict.verdict == "UNKNOWN"
    assert any("is not determined" in reason for reason in verdict.inconclusive)


def test_a_limit_owes_so_many_rows_whichever_they_are():
    for first, second in (("i1, i2", ""), ("i3, i1", "")):
        run = ChainRun(FIRST).batch("i1 x 1, i2 x 2, i3 x 3", out=first).batch("i4 x 4", out=second)
        run.sentinels = {"a": 4}
        valid(run)
    few = ChainRun(FIRST).batch("i1 x 1", out="i1").batch("i2 x 2, i3 x 3", out="i3")
    few.sentinels = {"a": 3}
    valid(few)


@pytest.mark.parametrize(
    ("out", "found"),
    [
        ("i1", {"lost_rows": 1}),
        ("i1, i2, i3", {"phantom_rows": 1}),
        ("i1, i9", {"lost_rows": 1, "phantom_rows": 1}),
        ("i1, i1", {"lost_rows": 1, "duplicate_rows": 1}),
    ],
)
def test_a_limit_that_lets_too_few_too_many_or_invented_rows_pass_is_named(out, found):
    assert properties(ChainRun(FIRST).batch("i1 x 1, i2 x 2, i3 x 3", out=out)) == found


def then_counted() -> ChainRun:
    """A click within 5 s. The join hands on its watermark less 5.001 s; the window waits for that."""
    run = ChainRun(THEN_COUNTED).batch("i1 x 1, i2 x 2, i3 x 12", "c1 x 3 7, c2 x 12")
    run.batch(watermark=12)
    run.batch("i4 y 16", "c3 y 16 1", watermark=12).batch(watermark=16, out="x 10 2 14")
    return run.flush(watermark=16, out="x 20 1 -, y 20 1 1")


def test_an_aggregate_of_a_join_waits_for_what_the_join_hands_on():
    valid(then_counted())


def test_an_aggregate_of_a_join_that_comes_by_the_watermark_of_the_query_is_too_early():
    run = then_counted().without(0).out(1, "x 10 2 14")
    assert properties(run) == {"misplaced_rows": 1}


def twice_joined() -> ChainRun:
    """The NULL row of the second join waits for two bounds of 5.001 s: 11.2 - 10.002 > 1 of i1, not 2 of i2."""
    run = ChainRun(TWICE_JOINED).batch("i1 x 1, i2 y 2, i9 z 11.2", "c1 x 1, c2 y 2, c9 z 11.2", "d9 w 11.2")
    run.batch(watermark=11.2, out="i1 c1 -")
    return run.flush(watermark=11.2, out="i2 c2 -, i9 c9 -")


def test_a_join_of_a_join_evicts_by_the_watermark_that_the_first_hands_on():
    valid(twice_joined())


@pytest.mark.parametrize(
    ("index", "batch", "found"),
    [(1, 1, {"premature_nulls": 1}), (0, 3, {"misplaced_rows": 1}), (0, None, {"missing_nulls": 1})],
)
def test_null_rows_of_a_join_of_a_join_out_of_place_are_named(index, batch, found):
    run = twice_joined()
    row = ["i1 c1 -", "i2 c2 -"][index]
    twin = run.without(index)
    assert properties(twin.out(batch, row) if batch is not None else twin) == found


def test_a_null_row_beside_a_joined_one_is_named():
    run = ChainRun(TWICE_JOINED).batch("i1 x 1", "c1 x 2", "d1 x 3", out="i1 c1 d1, i1 c1 -")
    assert properties(run) == {"nulls_for_matched_rows": 1}


def test_windows_are_joined_in_the_batch_that_closes_them():
    run = ChainRun(WINDOWS_JOINED).batch("i1 u 3, i2 u 4, i3 v 5, i4 v 12", "c1 u 5, c2 w 12")
    run.batch(watermark=12, out="u 10 2 1, v 10 1 -")
    valid(run.flush(watermark=12, out="v 20 1 -"))
    assert properties(run.without(0)) == {"lost_rows": 1}


def test_a_condition_of_a_join_compares_what_was_counted():
    run = ChainRun(COMPARED).batch("i1 u 3, i2 v 5, i3 w 12", "c1 u 5, c2 v 5, c3 v 6, c4 w 12")
    run.batch(watermark=12, out="u 10 1 1, v 10 1 -")
    valid(run.flush(watermark=12, out="w 20 1 1"))


def test_late_rows_that_are_joined_are_named():
    run = ChainRun(ONCE_JOINED).batch("i1 x 20", "c1 x 20", out="i1 c1").batch(watermark=20)
    run.batch("i2 y 19", "c2 y 21", watermark=20, out="i2 c2")
    assert properties(run) == {"late_rows_joined": 1}


def test_after_a_restart_every_input_has_to_be_seen_again():
    def run(**plan: bool) -> ChainRun:
        return (
            ChainRun(ONCE_JOINED)
            .batch("i1 x 20", "c1 x 20", out="i1 c1")
            .batch("i2 x 30", "", watermark=20, **plan)
        )

    assert properties(run().batch(watermark=20)) == {}
    assert (
        properties(run(restarted=True).batch("", "c2 y 40", watermark=20).batch(watermark=30, out="")) == {}
    )
    assert properties(run(restarted=True).batch("", "", watermark=30)) == {"wrong_watermarks": 1}


def test_the_policy_max_goes_by_the_fastest_input():
    fast = replace(ONCE_JOINED, policy=WatermarkPolicy.MAX)
    assert properties(ChainRun(fast).batch("i1 x 20", "").batch(watermark=20, out="")) == {}
    assert properties(ChainRun(ONCE_JOINED).batch("i1 x 20", "").batch(watermark=20)) == {
        "wrong_watermarks": 1
    }


def test_a_batch_that_ran_again_excuses_its_rows_only_from_an_at_least_once_sink():
    def run(delivery: Delivery) -> ChainRun:
        made = ChainRun(ONCE).batch("i1 x 10", runs=2, restarted=True, out="i1 10, i1 10")
        made.delivery = delivery
        return made

    assert properties(run(Delivery.AT_LEAST_ONCE)) == {}
    assert properties(run(Delivery.EXACTLY_ONCE)) == {"duplicate_rows": 1}


@pytest.mark.parametrize(
    "changes",
    [{"headers": [("query", "the-query")]}, {"headers": [("query", "x"), ("batch", "0")]}, {"value": "[]"},
     {"value": json.dumps({"id_a": "i1", "t_a": "soon"})}],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_named(changes):
    run = ChainRun(ONCE).batch("i1 x 10", out="i1 10").out(0, "i1 10", **changes)
    assert properties(run) == {"corrupt_rows": 1}


def test_nothing_is_compared_behind_a_batch_that_is_missing():
    run = ChainRun(ONCE).batch("i1 x 10", out="i1 10").batch("i2 x 11", watermark=5, out="i2 11")
    run.plans[1].batch = 2
    run.records[1] = run.record(2, ["i2", "11"])
    verdict = run.judge()

    assert verdict.findings_total == {"missing_batches": 1}
    assert verdict.counts["not_compared"] == 1


def test_a_run_that_was_not_flushed_or_whose_limit_was_not_reached_is_unknown():
    assert (
        "the coverage goal 'flushed' is required and was not met"
        in ChainRun(COUNTS).batch("c1 u 3").judge().inconclusive
    )
    inconclusive = ChainRun(FIRST).batch("i1 x 1", out="i1").judge().inconclusive
    assert inconclusive == ["the coverage goal 'limit_reached' is required and was not met"]


def test_a_left_semi_join_in_a_chain_loses_rows_by_the_known_defect_and_only_since_4_2():
    semi = Chain(
        "semi_counted",
        Aggregate(
            Window(replace(JOINED, kind=JoinKind.LEFT_SEMI), "end", 10_000), ("k_a",), (Value("n", "count"),)
        ),
        ("k_a", "n"),
    )

    def run(version: str, out: str) -> ChainRun:
        made = ChainRun(semi).batch("i8 y 100", "c8 z 100").batch("i1 x 50", "c1 x 50", watermark=100)
        made.versions = {"spark": version}
        return made.flush(watermark=100, out=out)

    lost = run("4.2.0", "")
    verdict = lost.judge()
    assert verdict.findings_total == {"lost_rows": 1}
    assert verdict.findings[0].defect == "left-semi-loses-same-batch-rows"
    sound = run("4.1.4", "").out(1, "x 1")
    assert properties(sound) == {}
    older = run("3.3.4", "").out(1, "x 1")
    assert any("3.3.4" in reason for reason in older.judge().inconclusive)


def test_what_a_known_defect_changes_is_told_of_the_rows_that_a_limit_took():
    semi = Chain("semi_first", Limit(replace(JOINED, kind=JoinKind.LEFT_SEMI), 2), ("id_a",))
    run = ChainRun(semi).batch("i1 x 1", "c1 x 2", out="i1")
    run.batch("i2 y 3, i3 z 3", "c2 y 4, c3 z 4", watermark=1, out="i3")
    run.versions = {"spark": "4.2.0"}

    assert properties(run) == {}


def test_a_left_semi_join_of_windowed_aggregates_gives_nothing_since_4_2():
    semi = Chain("semi_windows", replace(NO_FEWER, kind=JoinKind.LEFT_SEMI), ("k_a", "n"))

    def run(version: str, out: str) -> ChainRun:
        made = ChainRun(semi).batch("i1 u 3, i2 u 4, i3 v 5, i4 x 12", "c1 u 5, c2 v 6, c3 v 7, c4 y 12")
        made.versions = {"spark": version}
        return made.batch(watermark=12, out=out).flush(watermark=12)

    verdict = run("4.3.0", "").judge()
    assert verdict.findings_total == {"lost_rows": 1}
    assert {finding.defect for finding in verdict.findings} == {"left-semi-loses-same-batch-rows"}
    assert properties(run("4.1.4", "u 2")) == {}


LATER = Chain("later", replace(JOINED, bound=Bound(10_000, 20_000)), ("id_a", "id_b"))


def later(spark: str, state_format: int, out: str = "i2 -") -> ChainRun:
    """The state watermark of the left side is 9.999 s ahead of the watermark: i2 is not late, and evictable at once."""
    run = ChainRun(LATER).batch("i1 x 100", "c1 y 100").batch(watermark=100, out="i1 -")
    run.batch("i2 x 105", "", watermark=100, out=out)
    run.versions, run.state_format = {"spark": spark}, state_format
    return run.flush(watermark=100, out="s-a -")


def test_a_null_row_that_state_format_4_loses_in_a_chain_is_of_the_known_defect_and_only_in_4_2():
    lost = later("4.2.0", 4, out="").judge()
    assert lost.findings_total == {"lost_rows": 1}
    assert lost.defects_total == {"format-4-misses-rows": 1}
    assert lost.unexplained_total == {}
    assert [finding.row for finding in lost.findings] == [{"id_a": "i2", "id_b": None}]

    for spark, state_format in (("4.2.0", 2), ("4.3.0", 4)):
        assert later(spark, state_format).judge().unexplained_total == {}
        assert later(spark, state_format, out="").judge().unexplained_total == {"missing_nulls": 1}


def test_state_format_4_explains_no_other_row_than_those_that_it_loses():
    assert later("4.2.0", 4).judge().unexplained_total == {"oracles_disagree": 1}
    assert later("4.2.0", 4, out="").without(0).judge().unexplained_total == {"missing_nulls": 1}


@pytest.mark.parametrize(
    "described", [COUNTS, ONCE, FIRST, THEN_COUNTED, TWICE_JOINED, WINDOWS_JOINED, COMPARED]
)
def test_a_chain_survives_json(described):
    assert read_contract(json.loads(json.dumps(described.to_json()))) == described


@pytest.mark.parametrize(
    "last",
    [
        Limit(source("a"), 0),
        Deduplicate(Limit(source("a"), 1), ("id_a",)),
        Deduplicate(source("a"), ("id_b",)),
        Window(source("a", None), "end", 1000),
        Aggregate(source("a"), ("id_a",), ()),
        Aggregate(source("a"), ("k_a",), (Value("x", "sum", "id_a"),)),
        Where(source("a"), (Filter("v_a", ">", 1),)),
        replace(JOINED, right=source("a")),
        replace(WINDOWS, kind=JoinKind.LEFT_SEMI),
        replace(WINDOWS, conditions=(Term(">=", "m", "n"),)),
        replace(WINDOWS, conditions=(Term(">=", "n", "k_b"),)),
        replace(WINDOWS, conditions=(Term(">=", "n", value=1),)),
        replace(WINDOWS, conditions=(Term("~", "n", "m"),)),
        replace(JOINED, keys=(("id_a", "k_b"),)),
        replace(JOINED, bound=Bound(1, 0)),
        replace(WINDOWS, bound=Bound(1, 2, equal=True)),
        replace(JOINED, time="t_b"),
        replace(JOINED, left=source("a", None)),
        source("a", filters=(Filter("id_a", ">", 1),)),
        source("a", -1),
    ],
)
def test_a_chain_that_cannot_be_is_refused(last):
    with pytest.raises(BrokenContract) as refused:
        Chain("wrong", last, ("id_a",))
    assert "tidemark/formats/chain/__init__.py" in str(refused.value)
