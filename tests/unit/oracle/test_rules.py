"""Each rule of Spark, on a history small enough to be checked by hand.

Where nothing else is said the watermark delays are 0 s and a click belongs to an impression if it comes within 5 s
after it: an impression at ``t`` expires when the watermark passes ``t + 5 s``, a click when it passes ``t``. Each batch
spells out its eviction watermark, which the model has to predict; the naive model has no say here.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.either_oracle import modelled
from tests.unit.oracle.histories import LEFT_TOPIC, Run
from tidemark.formats.contract import Bound, WatermarkPolicy
from tidemark.oracle.input.history import History, first_of, read_history, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS


def emitted(run: Run) -> dict[str, int]:
    """Output row (``i1 c1``, ``i1 -``, ``i1``) -> its batch, once the watermarks were found to be those of the run."""
    history, prediction = model(run)
    planned = [batch.plan.watermark_ms for batch in history.batches]
    assert prediction.watermarks_ms[: len(planned)] == planned, (
        "the run names other watermarks than the model"
    )
    rows = {}
    for identity, batch in prediction.batch_of.items():
        names = ["-", "-"]
        for row in (first_of(identity), right_of(identity)):
            if row is not None:
                names[history.rows.side[row]] = str(history.rows.id[row])
        rows[names[0] if run.contract.kind == "left_semi" else " ".join(names)] = batch
    return rows


def model(run: Run) -> tuple[History, Prediction]:
    history = read_history(run)
    return history, modelled(history)


# Lateness: the watermark of the batch before


@pytest.mark.parametrize(
    ("seconds", "joined"), [(10, False), (10.001, True), (9.999, False), (10.000_001, True)]
)
def test_a_row_at_the_late_watermark_is_dropped_and_one_after_it_is_not(seconds: float, joined: bool) -> None:
    run = Run().batch("i1 a 10", "c1 x 10", watermark=0).batch(watermark=10)
    run.batch(f"i2 b {seconds:.6f}", "c2 b 12", watermark=10)
    assert ("i2 c2" in emitted(run)) is joined


def test_the_late_watermark_is_that_of_the_batch_before_and_not_of_the_batch_itself() -> None:
    run = Run().batch("i1 a 10", "c1 x 10", watermark=0).batch("i2 b 5", "c2 b 6", watermark=10)
    assert emitted(run) == {"i2 c2": 1}
    run.batch("i3 c 5", "c3 c 6", watermark=10)
    assert emitted(run) == {"i2 c2": 1}


def test_the_first_batch_drops_rows_at_the_epoch_and_before() -> None:
    run = Run(bound=Bound(None, None)).batch("i1 a 0, i2 b 0.001", "c1 a 1, c2 b 1", watermark=0)
    assert emitted(run) == {"i2 c2": 0}


# The watermark


def test_the_watermark_is_the_latest_time_less_the_delay_of_the_slower_input() -> None:
    run = Run(delays_s=(2, 3)).batch("i1 a 10", "c1 b 12", watermark=0)
    emitted(run.batch(watermark=8))
    emitted(run.batch("i2 a 20", watermark=8).batch(watermark=9))


def test_the_watermark_waits_for_an_input_that_was_silent() -> None:
    run = Run().batch("i1 a 10", watermark=0).batch("i2 a 20", watermark=0).batch("", "c1 b 15", watermark=0)
    emitted(run.batch(watermark=15))


def test_under_the_policy_max_the_faster_input_decides() -> None:
    run = (
        Run(policy=WatermarkPolicy.MAX).batch("i1 a 10", watermark=0).batch("i2 a 20", "c1 b 5", watermark=10)
    )
    emitted(run.batch(watermark=20))


def test_the_watermark_never_goes_back() -> None:
    run = Run().batch("i1 a 10", "c1 b 10", watermark=0).batch("i2 a 5", "c2 a 6", watermark=10)
    emitted(run.batch(watermark=10))


def test_the_watermark_is_in_whole_milliseconds_rounded_down() -> None:
    emitted(Run().batch("i1 a 10.000999", "c1 b 10.0015", watermark=0).batch(watermark=10))


def test_a_late_row_moves_the_watermark_of_its_input() -> None:
    run = Run().batch("i1 a 10", "c1 b 10", watermark=0).batch(watermark=10)
    emitted(run.batch("i2 a 9", "c2 a 12", watermark=10).batch("i3 a 11", watermark=10).batch(watermark=11))


@pytest.mark.parametrize(("kind", "moved"), [("inner", False), ("left_semi", False), ("left_outer", True)])
def test_a_null_key_moves_the_watermark_only_where_it_stays_in_the_join(kind: str, moved: bool) -> None:
    run = Run(kind).batch("i1 a 10", "c1 b 20", watermark=0).batch("i2 - 15", watermark=10)
    emitted(run.batch(watermark=15 if moved else 10))


def test_a_null_key_on_the_right_never_moves_the_watermark() -> None:
    run = Run("left_outer").batch("i1 a 20", "c1 b 10", watermark=0).batch("", "c2 - 15", watermark=10)
    emitted(run.batch(watermark=10))


def test_a_record_that_is_no_event_is_nothing_to_the_join() -> None:
    run = Run("left_outer").batch("i1 a 20, garbage", "c1 b 10, garbage", watermark=0)
    history, prediction = model(run.batch(watermark=10))
    assert len(history.rows) == 4
    assert prediction.batch_of == {}


@pytest.mark.parametrize("how", [{"runs": 2}, {"runs": 2, "restarted": True}, {"restarted": True}])
def test_a_query_that_was_restarted_has_forgotten_what_its_inputs_showed(how: dict[str, Any]) -> None:
    run = Run().batch("i1 a 100", "c1 b 50", watermark=0).batch("", "c2 b 80", watermark=50, **how)
    emitted(run.batch("i2 a 101", watermark=50).batch(watermark=80))


def test_a_query_that_goes_on_remembers_them() -> None:
    run = Run().batch("i1 a 100", "c1 b 50", watermark=0).batch("", "c2 b 80", watermark=50)
    emitted(run.batch("i2 a 101", watermark=80).batch(watermark=80))


def test_an_expiry_that_a_restart_puts_off_is_not_yet_due() -> None:
    run = (
        Run("left_outer")
        .batch("i1 a 10", "c1 b 5", watermark=0)
        .batch("", "c2 b 30", watermark=5, restarted=True)
    )
    due = emitted(run.batch("i2 b 40", "c3 d 45", watermark=5).batch(watermark=40))
    assert due["i1 -"] == 3


# Joining and the state


def test_a_pair_of_one_batch_is_joined_once_and_duplicates_multiply() -> None:
    run = Run().batch("i1 a 10, i2 a 10", "c1 a 11, c2 a 12, c3 b 11", watermark=0)
    assert emitted(run) == {"i1 c1": 0, "i1 c2": 0, "i2 c1": 0, "i2 c2": 0}


@pytest.mark.parametrize(("seconds", "joined"), [(9.999, False), (10, True), (15, True), (15.001, False)])
def test_both_ends_of_the_bound_are_inclusive(seconds: float, joined: bool) -> None:
    assert bool(emitted(Run().batch("i1 a 10", f"c1 a {seconds}", watermark=0))) is joined


@pytest.mark.parametrize(("seconds", "joined"), [(10, False), (10.001, True), (14.999, True), (15, False)])
def test_strict_ends_exclude(seconds: float, joined: bool) -> None:
    bound = Bound(-5000, 0, lower_strict=True, upper_strict=True)
    assert bool(emitted(Run(bound=bound).batch("i1 a 10", f"c1 a {seconds}", watermark=0))) is joined


@pytest.mark.parametrize(("watermark", "null_row"), [(15, False), (15.001, True)])
@pytest.mark.parametrize("strict", [False, True])
def test_a_row_leaves_the_state_when_its_state_watermark_reaches_it(
    watermark: float, null_row: bool, strict: bool
) -> None:
    """Inclusive: evicted at ``t <= W - 5 s - 1 ms``; strict: a millisecond earlier."""
    watermark -= 0.001 * strict
    run = Run("left_outer", bound=Bound(-5000, 0, lower_strict=strict))
    run.batch(f"i1 a 10, i2 b {watermark}", f"c1 x {watermark}", watermark=0).batch(watermark=watermark)
    assert ("i1 -" in emitted(run)) is null_row


def test_null_rows_come_in_the_batch_without_data() -> None:
    run = Run("left_outer").batch("i1 a 10, i2 b 20", "c1 a 12, c2 x 20", watermark=0)
    assert emitted(run.batch(watermark=20)) == {"i1 c1": 0}
    run.batch("i3 c 30", "c3 x 30", watermark=20)
    assert emitted(run.batch(watermark=30)) == {"i1 c1": 0, "i2 -": 3}


def test_a_row_that_is_not_late_but_evictable_is_still_joined_and_its_null_row_comes_in_its_own_batch() -> (
    None
):
    run = Run("left_outer").batch("i1 x 30", "c1 y 30", watermark=0)
    run.batch("i2 a 10, i3 b 10", "c2 a 11", watermark=30)
    assert emitted(run) == {"i2 c2": 1, "i3 -": 1}


def test_a_right_row_that_is_evictable_is_not_kept_for_a_later_batch() -> None:
    run = Run().batch("i1 x 30", "c1 y 30", watermark=0).batch("", "c2 a 11", watermark=30)
    assert emitted(run.batch("i2 a 31", watermark=30)) == {}


def test_a_row_with_a_null_key_gets_its_null_row_and_never_a_partner() -> None:
    run = Run("left_outer").batch("i1 - 10, i2 b 20", "c1 - 10, c2 x 20", watermark=0).batch(watermark=20)
    assert emitted(run) == {"i1 -": 1}


@pytest.mark.parametrize("kind", ["inner", "left_semi"])
def test_null_keys_are_nothing_to_inner_and_semi(kind: str) -> None:
    assert emitted(Run(kind).batch("i1 - 10", "c1 - 10", watermark=0).batch(watermark=0)) == {}


def test_an_open_end_keeps_a_side_for_ever() -> None:
    run = Run(bound=Bound(-5000, None)).batch("i1 x 10", "c1 a 10", watermark=0)
    run.batch("i2 y 100", "c2 y 100", watermark=10).batch("i3 a 101", watermark=100)
    assert emitted(run) == {"i2 c2": 1, "i3 c1": 2}


# Left semi


def test_a_semi_row_comes_at_its_first_match_and_never_again() -> None:
    run = Run("left_semi").batch("i1 a 10", watermark=0).batch("", "c1 a 11, c2 a 12", watermark=0)
    run.batch("", "c3 a 13", watermark=10)
    assert emitted(run) == {"i1": 1}


def test_a_semi_row_finds_a_right_row_of_its_own_batch_or_of_one_before() -> None:
    run = Run("left_semi").batch("", "c1 a 11", watermark=0).batch("i1 a 10, i2 b 10", "c2 b 12", watermark=0)
    assert emitted(run) == {"i1": 1, "i2": 1}


def smallest_case(kind: str) -> Run:
    """``(1, 50 s)`` is late on neither side: the late watermark of its batch is still 0."""
    run = Run(kind, bound=Bound(-1000, 1000)).batch("i1 9 100", "c1 9 100", watermark=0)
    return run.batch("i2 1 50", "c2 1 50", watermark=100).batch("i3 9 101", "c3 9 101", watermark=100)


def test_the_smallest_case_of_the_known_defect() -> None:
    assert emitted(smallest_case("inner")) == {"i1 c1": 0, "i2 c2": 1, "i1 c3": 2, "i3 c1": 2, "i3 c3": 2}
    assert emitted(smallest_case("left_semi")) == {"i1": 0, "i3": 2}


def test_the_known_defect_is_a_finding_that_names_it_and_the_row() -> None:
    run = smallest_case("left_semi").out(0, "i1").out(2, "i3").flush()
    verdict = run.verdict()
    assert verdict.verdict == "INVALID"
    (found,) = verdict.findings
    assert (found.property, found.defect) == ("lost_rows", LEFT_SEMI_LOSES_SAME_BATCH_ROWS)
    assert found.row == {"iid": "i2"}
    assert found.written == [f"{LEFT_TOPIC}/0/1"]
    assert "c2 (clicks/0/1" in found.message
    assert "4.1 gives these rows" in verdict.known_defects[LEFT_SEMI_LOSES_SAME_BATCH_ROWS]


def test_a_row_lost_otherwise_does_not_name_the_defect() -> None:
    run = smallest_case("left_semi").out(0, "i1").flush()
    assert [(found.row["iid"], found.defect) for found in run.verdict().findings] == [
        ("i3", None),
        ("i2", LEFT_SEMI_LOSES_SAME_BATCH_ROWS),
    ]


def test_a_spark_without_the_defect_that_loses_the_row_does_not_name_it() -> None:
    run = smallest_case("left_semi").out(0, "i1").out(2, "i3").flush()
    run.versions = {"spark": "4.1.4"}
    assert [(found.property, found.defect) for found in run.verdict().findings] == [("lost_rows", None)]
    run = smallest_case("left_semi").out(0, "i1").out(1, "i2, i2").out(2, "i3").flush()
    run.versions = {"spark": "4.1.4"}
    assert run.findings() == {"repeated_semi_rows": 1}


@pytest.mark.parametrize(("spark", "verdict"), [("4.1.4", "VALID"), ("4.2.0", "INVALID"), ("", "INVALID")])
def test_a_spark_without_the_defect_gives_the_row(spark: str, verdict: str) -> None:
    run = smallest_case("left_semi").out(0, "i1").out(1, "i2").out(2, "i3").flush()
    run.versions = {"spark": spark}
    assert run.verdict().verdict == verdict
    assert run.findings() == ({} if verdict == "VALID" else {"oracles_disagree": 1})
