"""A run is ``VALID`` only if it exercised what its contract promises, or waived it by name."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tests.unit.oracle.histories import Run
from tidemark.formats.chain import Aggregate, Chain, Join, Value, Window
from tidemark.formats.contract import Bound, JoinKind, Side, WatermarkPolicy
from tidemark.oracle import judge
from tidemark.oracle.coverage import ALWAYS_REQUIRED, WAIVABLE

LOWER, UPPER = "lower_ms (left - right below -5,000 ms)", "upper_ms (left - right above 0 ms)"
UNMET = "is required and was not met:"
IMPLIED = {"most_records_readable", "each_input_accepted", "each_key_field_decides", "each_bound_end_decides"}
LEFT, RIGHT = "i1 a 10, i2 b 30", "c3 a 9, c1 a 12, c4 d 12, c2 b 40"
"""A pair (i1, c1); c4 has another key, c3 and c2 are before and behind the bound; i2, c2, c3 and c4 are unmatched."""
NULLS = {
    "inner": "",
    "left_outer": "i2 -",
    "right_outer": "- c2",
    "full_outer": "i2 -, - c2",
    "left_semi": "",
}


def strict(kind="left_outer", **changes):
    run = Run(kind, **changes)
    run.waived = []
    return run


def exercised(kind):
    pair = "i1" if kind == "left_semi" else "i1 c1"
    early = "- c3, - c4" if kind in ("right_outer", "full_outer") else ""  # before the sentinels are read
    return strict(kind).batch(LEFT, RIGHT, out=pair).out(1, early).flush(out=NULLS[kind])


def reasons(run, goal):
    """Why a run does not meet a goal; it has no finding, and its only other reasons are goals."""
    verdict = run.verdict()
    assert verdict.findings == []
    assert verdict.verdict == "UNKNOWN"
    start = f"the coverage goal {goal!r} is required and was not met"
    return [reason.removeprefix(start) for reason in verdict.inconclusive if reason.startswith(start)]


def of_goals(verdict):
    start = "the coverage goal "
    return [reason.removeprefix(start) for reason in verdict.inconclusive if reason.startswith(start)]


@pytest.mark.parametrize("kind", NULLS)
def test_a_run_that_exercises_its_contract_is_valid_and_every_goal_of_it_was_asked(kind):
    verdict = exercised(kind).verdict()

    assert (verdict.verdict, verdict.findings, verdict.inconclusive) == ("VALID", [], [])
    of_kind = {"semi_row_emitted"} if kind == "left_semi" else {"rows_joined"}
    of_kind |= {"null_row_after_eviction"} if "outer" in kind else set()
    assert set(verdict.asked) == {*ALWAYS_REQUIRED, *IMPLIED, *of_kind}


@pytest.mark.parametrize("kind", ["inner", "left_outer", "right_outer", "full_outer", "left_semi"])
def test_a_run_without_a_pair_is_unknown(kind):
    nulls = {"left_outer": "i1 -", "right_outer": "- c1", "full_outer": "i1 -, - c1"}.get(kind, "")
    goal = "semi_row_emitted" if kind == "left_semi" else "rows_joined"

    assert reasons(strict(kind).batch("i1 a 10", "c1 b 12").flush(out=nulls), goal) == [""]


@pytest.mark.parametrize(
    ("kind", "left", "right", "nulls", "missing"),
    [
        ("left_outer", "i1 a 10", "c1 a 12, c2 b 12", "", "impressions"),
        ("right_outer", "i1 a 10, i2 b 10", "c1 a 12", "", "clicks"),
        ("full_outer", "i1 a 10", "c1 a 12, c2 b 12", "- c2", "impressions"),
        ("full_outer", "i1 a 10, i2 b 10", "c1 a 12", "i2 -", "clicks"),
        ("full_outer", "i1 a 10", "c1 a 12", "", "impressions, clicks"),
    ],
)
def test_a_null_row_of_each_preserved_side_has_to_come(kind, left, right, nulls, missing):
    run = strict(kind).batch(left, right, out="i1 c1").flush(out=nulls)

    assert reasons(run, "null_row_after_eviction") == [f": {missing}: no NULL row came"]


def test_a_null_row_that_is_never_due_is_not_asked():
    run = strict("left_outer", bound=Bound()).batch("i1 a 10", "c1 a 12", out="i1 c1").flush()

    assert not {"null_row_after_eviction", "each_bound_end_decides"} & set(run.verdict().asked)


def test_rows_of_each_input_have_to_be_accepted():
    run = strict("inner").batch("i1 a 30", "c1 a 30", out="i1 c1").batch().batch("", "c2 a 12").flush()
    assert reasons(run, "each_input_accepted") == []

    run = strict("left_outer").batch("i1 a 10", "c1 - 12").flush(out="i1 -")
    assert reasons(run, "each_input_accepted") == [": clicks: no row was accepted"]


@pytest.mark.parametrize(("garbage", "met"), [(3, True), (4, False)])
def test_most_records_of_a_topic_have_to_be_readable(garbage, met):
    left = ", ".join(["i1 a 10", "i2 b 30", "i3 b 30", *["garbage"] * garbage])
    run = strict().batch(left, RIGHT, out="i1 c1").flush(out="i2 -, i3 -")

    assert (run.verdict().verdict == "VALID") == met
    if not met:
        assert reasons(run, "most_records_readable") == [": 4 of 7 of impressions: records are unreadable"]


@pytest.mark.parametrize(
    ("bound", "right", "missing"),
    [
        (Bound(-5000, 0), "c1 a 12, c2 b 40", UPPER),
        (Bound(-5000, 0), "c1 a 12, c3 a 9", LOWER),
        (Bound(-5000, 0), "c1 a 12, c2 b 35", f"{LOWER}, {UPPER}"),  # at the end, and so not beyond it
        (Bound(-5000, 0), "c1 a 12, c2 c 40, c3 d 9", f"{LOWER}, {UPPER}"),  # of other keys
        (Bound(-5000, None), "c1 a 12, c3 a 9", LOWER),
        (Bound(None, 0), "c1 a 12, c2 b 40", UPPER),
        (Bound(equal=True), "c1 a 10, c2 b 30", "equal (times that are not equal)"),
        (
            Bound(0, 0, window_ms=5000),
            "c1 a 12, c2 b 34",
            "lower_ms (left - right below 0 ms), upper_ms (left - right above 0 ms)",
        ),
    ],
)
def test_a_pair_has_to_be_beyond_each_end_of_the_bound(bound, right, missing):
    verdict = strict("inner", bound=bound).batch(LEFT, right).flush().verdict()

    said = f"'each_bound_end_decides' {UNMET} {missing}: no pair of rows with the same key is there"
    assert said in of_goals(verdict)


@pytest.mark.parametrize(
    ("bound", "right"),
    [
        (Bound(-5000, 0), "c1 a 12, c2 b 35.001, c3 a 9.999"),
        (Bound(-5000, 0, lower_strict=True, upper_strict=True), "c1 a 15, c2 a 10"),  # the ends are outside
        (Bound(equal=True), "c1 a 10.001"),
        (Bound(0, 0, window_ms=5000), "c1 a 9, c2 a 15"),
    ],
)
def test_a_pair_just_beyond_an_end_is_enough(bound, right):
    assert strict("inner", bound=bound).batch(LEFT, right).flush().verdict().goals["each_bound_end_decides"]


class TwoFields(Run):
    """Keys are written ``user.ad``."""

    def __init__(self, kind):
        sides = {
            name: Side(topic, one_id, ("user", other), "time", 0)
            for name, topic, one_id, other in (
                ("left", "impressions", "iid", "ad"),
                ("right", "clicks", "cid", "of"),
            )
        }
        super().__init__(kind, **sides)
        self.waived = []

    def value(self, topic, row):
        name, key, seconds = row.split()
        user, _, ad = key.partition(".")
        value = json.loads(super().value(topic, f"{name} {user} {seconds}"))
        return json.dumps(value | {"ad": ad, "of": ad}).encode()


@pytest.mark.parametrize(
    ("right", "missing"),
    [
        ("c1 a.x 12", "user, ad = of"),
        ("c1 a.x 12, c2 a.y 12", "user"),
        ("c1 a.x 12, c2 b.x 12", "ad = of"),
        (
            "c1 a.x 12, c2 b.y 12",
            "user, ad = of",
        ),  # differs in both: without one field it is still kept apart
        ("c1 a.x 12, c2 a.y 16, c3 b.x 9", "user, ad = of"),  # is out of the bound, too
        ("c1 a.x 12, c2 a.y 15, c3 b.x 10", ""),
    ],
)
def test_each_key_field_has_to_keep_a_pair_apart_by_itself(right, missing):
    verdict = TwoFields("inner").batch("i1 a.x 10", right, out="i1 c1").flush().verdict()

    assert verdict.findings == []
    assert verdict.goals["each_key_field_decides"] == (missing == "")
    reason = f"the coverage goal 'each_key_field_decides' is required and was not met: {missing}: "
    assert (reason + "no pair differs in it alone" in verdict.inconclusive) == (missing != "")


def test_a_pair_that_differs_in_one_field_is_found_among_many_that_do_not():
    left = ", ".join(f"i{n} a.x {10 + n}" for n in range(40))
    right = ", ".join([*(f"c{n} a.x {10 + n}" for n in range(40)), "d b.x 100, e a.y 49"])

    verdict = TwoFields("inner").batch(left, right).flush().verdict()

    [reason] = [one for one in verdict.inconclusive if "each_key_field_decides" in one]
    assert reason.endswith("not met: user: no pair differs in it alone")


def stepped(*batches, **changes):
    run = strict("inner", **changes)
    run.pace = "stepped"
    for left, right in batches:
        run.batch(left, right)
    return run.flush().verdict()


@pytest.mark.parametrize(
    ("batches", "changes", "asked"),
    [
        ([("i1 a 10, i2 a 30, i3 a 12", "c1 a 40")], {}, True),
        ([("i1 a 10, i2 a 30", "c1 a 40, c2 a 12")], {}, True),
        ([("i1 a 10, i2 a 30, i3 a 30", "c1 a 40, c2 a 40")], {}, False),  # not behind
        (
            [("i1 a 10, i2 a 30, i3 a 12", "c1 a 11")],
            {},
            False,
        ),  # the other input's watermark never passes it
        ([("i1 a 10, i2 a 30, i3 a 12", "c1 a 11")], {"policy": WatermarkPolicy.MAX}, True),
        ([("i1 a 10, i2 a 30, i3 a 12", "c1 a 40")], {"delays_s": (18, 0)}, False),  # as much as the delay
        ([("i1 a 10, i2 a 30, i3 a 12", "c1 a 40")], {"delays_s": (17.999, 0)}, True),
    ],
)
def test_a_late_row_is_asked_where_the_trace_can_have_one(batches, changes, asked):
    verdict = stepped(*batches, **changes)

    assert ("late_row_dropped" in verdict.asked) == asked
    reason = "the coverage goal 'late_row_dropped' is required and was not met"
    assert (reason in verdict.inconclusive) == asked


def test_a_late_row_that_was_dropped_meets_its_goal():
    verdict = stepped(("i1 a 10, i2 a 30", "c1 a 40"), ("", ""), ("i3 a 12", ""))

    assert "late_row_dropped" in verdict.asked
    assert verdict.goals["late_row_dropped"]


def test_a_late_row_is_not_asked_where_the_pace_decides_about_it():
    run = strict("inner").batch("i1 a 10, i2 a 30, i3 a 12", "c1 a 40").flush()

    assert "late_row_dropped" not in run.verdict().asked


def test_a_run_may_waive_what_it_does_not_exercise_by_name():
    run = strict().batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    missed = ["null_row_after_eviction", "each_key_field_decides", "each_bound_end_decides"]
    assert run.verdict().verdict == "UNKNOWN"
    run.waived = [*missed, "rows_joined"]

    verdict = run.verdict()

    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])
    assert verdict.waived == missed  # and not what it met
    assert not set(verdict.asked) & set(run.waived)


@pytest.mark.parametrize("name", ["flushed", "all_input_read", "every_fault_done", "world_peace"])
def test_what_says_whether_there_was_anything_to_judge_cannot_be_waived(name):
    run = exercised("left_outer")
    run.waived = [name]

    verdict = run.verdict()

    assert verdict.verdict == "UNKNOWN"
    assert verdict.inconclusive == [
        f"the coverage goal {name!r} cannot be waived; these can: {', '.join(WAIVABLE)}"
    ]


def test_a_difference_between_contract_and_plan_is_a_finding_though_all_rows_are_right():
    run = exercised("inner")
    manifest = msgspec.structs.replace(
        run.manifest, plan_differs=["keys: one; the other", "bound: one; the other"]
    )

    verdict = Planned(run, manifest).verdict()

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"plan_differs": 2}
    assert verdict.findings[0].message == "contract and plan differ in keys: one; the other"


class Planned:
    """A run with another manifest."""

    def __init__(self, run, manifest):
        self._run, self.manifest = run, manifest

    def __getattr__(self, name):
        return getattr(self._run, name)

    def verdict(self):
        return judge(self)


COUNTS = Chain(
    "counts",
    Aggregate(Window(source("a"), "end", 10_000), ("k_a",), (Value("n", "count"),)),
    ("k_a", "end", "n"),
)


def test_a_chain_has_to_read_most_records_and_rows_of_each_input():
    run = ChainRun(COUNTS)
    run.waived = []
    verdict = run.batch("i1 - 3").flush().judge()

    assert (
        "the coverage goal 'each_input_accepted' is required and was not met: a: no row was accepted"
        in verdict.inconclusive
    )
    assert {"most_records_readable", "each_input_accepted"} <= set(verdict.asked)


SOON = Join(
    JoinKind.LEFT_OUTER, source("a"), source("b"), (("k_a", "k_b"),), Bound(lower_ms=-5000, upper_ms=0), time="t_a"
)  # fmt: skip
ROWS_OF_A, ROWS_OF_B = "i1 x 10, i2 y 20", "c3 x 9, c1 x 12, c4 z 12, c2 x 17"
"""A pair (i1, c1); c4 has another key, c3 and c2 are before and behind the bound; i2 is unmatched."""


def joined(kind, a=ROWS_OF_A, b=ROWS_OF_B, nulls="i2 -"):
    """A chain that is a join, run on these rows."""
    described = replace(SOON, kind=kind)
    is_semi = kind is JoinKind.LEFT_SEMI
    run = ChainRun(Chain("joined", described, ("id_a",) if is_semi else ("id_a", "id_b")))
    run.waived = []
    pair = ("i1" if is_semi else "i1 c1") if "c1" in b else ""
    first = 20 if "y 20" in a else 10
    read = nulls if kind is JoinKind.LEFT_OUTER else ""
    return run.batch(a, b, out=pair).flush(watermark=min(first, 17 if "17" in b else 12), out=read)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT_OUTER, JoinKind.LEFT_SEMI])
def test_a_chain_that_exercises_its_join_is_valid_and_every_goal_of_it_was_asked(kind):
    verdict = joined(kind).judge()

    assert (verdict.verdict, verdict.findings, verdict.inconclusive) == ("VALID", [], [])
    of_kind = {"semi_row_emitted"} if kind is JoinKind.LEFT_SEMI else {"rows_joined"}
    of_kind |= {"null_row_after_eviction"} if kind is JoinKind.LEFT_OUTER else set()
    assert set(verdict.asked) == {*ALWAYS_REQUIRED, *IMPLIED, *of_kind, "rows_came"}


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        (
            JoinKind.LEFT_OUTER,
            {"a": "i1 x 10", "nulls": ""},
            f"'null_row_after_eviction' {UNMET} join 1 (left_outer) left: no NULL row came",
        ),
        (
            JoinKind.INNER,
            {"a": "i1 x 10", "b": "c3 x 9, c1 x 12, c2 x 17"},
            f"'each_key_field_decides' {UNMET} join 1 (inner) k_a = k_b: no pair differs in it alone",
        ),
        (
            JoinKind.INNER,
            {"b": "c3 x 9, c1 x 12, c4 z 12"},
            f"'each_bound_end_decides' {UNMET} join 1 (inner) {LOWER}: no pair of rows with the same key is there",
        ),
        (
            JoinKind.LEFT_SEMI,
            {"b": "c1 x 12, c4 z 12, c2 x 17"},
            f"'each_bound_end_decides' {UNMET} join 1 (left_semi) {UPPER}: no pair of rows with the same key is there",
        ),
    ],
)
def test_a_join_of_a_chain_that_was_not_put_to_the_test_is_named(kind, changes, said):
    verdict = joined(kind, **changes).judge()

    assert verdict.findings == []
    assert of_goals(verdict) == [said]


def test_a_join_without_a_row_is_named_in_a_chain_of_two():
    chain = Chain(
        "twice", Join(JoinKind.LEFT_OUTER, SOON, source("c"), (("k_a", "k_c"),), Bound(equal=True)), ("id_a",)
    )
    run = ChainRun(chain)
    run.waived = []
    verdict = run.batch("i1 x 10", "c1 x 12", "d1 x 11", out="i1").flush(watermark=10).judge()

    said = of_goals(verdict)
    assert f"'rows_joined' {UNMET} join 2 (left_outer): no row came" in said
    assert [reason for reason in said if "join 1 (left_outer): no row came" in reason] == []


def test_a_null_row_inside_of_a_chain_that_the_run_did_not_give_does_not_count():
    """Nothing of i2 would ever be in the output, so that the run counts as flushed; it was not evicted in it."""
    inner = Join(JoinKind.INNER, SOON, source("c"), (("k_a", "k_c"),), Bound(equal=True))
    goal = "null_row_after_eviction"

    def judged(*, evicts: bool):
        run = ChainRun(Chain("twice", inner, ("id_a",)))
        run.batch("i1 x 10, i2 y 10", "c1 x 12", "d1 x 10", out="i1")
        if evicts:
            run.batch("i3 x 30", "c3 x 30", "d3 x 30", watermark=10, out="i3").batch(watermark=30)
        run.goals = [goal]
        return run.judge()

    short, whole = judged(evicts=False), judged(evicts=True)
    assert short.findings == whole.findings == []
    assert short.goals["flushed"]
    assert (short.goals[goal], whole.goals[goal]) == (False, True)
