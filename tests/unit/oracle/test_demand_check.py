"""What a run has to do in time is judged by the times in its evidence: kept, just broken, or not to be judged."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.oracle.histories import Run
from tidemark.errors import UsageError
from tidemark.formats.contract import Delivery
from tidemark.formats.events import write_time
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.formats.liveness import Demands, Hang, HangPhase, read_progress
from tidemark.oracle.demand_check import OF_TIME

START_S = 1_000_000


def at(seconds: float) -> str:
    """A time of the journal, so many seconds after the start."""
    return write_time(round((START_S + seconds) * 1_000_000)).replace("Z", "+00:00")


def ms(seconds: float) -> int:
    return round((START_S + seconds) * 1000)


def fault(begin_s: float, batch: int, **fields: object) -> Fault:
    given = {
        "component": FaultComponent.BROKER, "action": FaultAction.PAUSE, "point": CommitPoint.PLANNED,
        "at_utc": at(begin_s), "injected": True, "batch": batch,
    }  # fmt: skip
    return Fault(**{**given, **fields})  # type: ignore[arg-type]


def run(*times: tuple[float, float | None], **demands: object) -> Run:
    """A run of five batches with the seconds of their plans and commits; ``None``: not committed, it is the last."""
    times = times or ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    made = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").batch("i2 b 20", "c2 b 21", out="i2 c2")
    made = made.batch().flush()
    made.plans = [plan for plan, _ in zip(made.plans, times, strict=False)]
    for plan, (planned_s, committed_s) in zip(made.plans, times, strict=True):
        plan.planned_at_ms = ms(planned_s)
        if committed_s is None:
            plan.committed = False
        else:
            plan.committed_at_ms = ms(committed_s)
    made.watermarks_s = made.watermarks_s[: len(made.plans)]
    made.demands = Demands(**demands) if demands else None  # type: ignore[arg-type]
    return made


def reported(made: Run, *rows: int) -> Run:
    """With Spark's reports of so many rows of state after each batch, in two operators."""
    made.reports = [
        {"batchId": batch, "stateOperators": [{"numRowsTotal": many - 1}, {"numRowsTotal": 1}]}
        for batch, many in enumerate(rows)
    ]
    return made


def findings(made: Run) -> dict[str, int]:
    """The findings of time; the reports above are not those of the join."""
    return {name: many for name, many in made.findings().items() if name in OF_TIME}


def test_a_run_without_demands_is_valid_and_measured():
    verdict = run().verdict()
    assert (verdict.verdict, verdict.findings) == ("VALID", [])
    assert verdict.counts["observed_ms"] == 8_000
    assert (verdict.counts["overdue_ms"], verdict.counts["in_time_ms"]) == (0, 3_000)


def test_a_run_without_times_has_no_such_counts():
    made = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    assert not {"observed_ms", "overdue_ms", "watermark_stood_ms"} & made.verdict().counts.keys()


def test_the_first_batch_is_not_overdue_since_it_starts_the_query():
    counts = run((0, 60), (62, 63), (64, 65), (66, 67), (68, 69)).verdict().counts
    assert (counts["overdue_ms"], counts["observed_ms"]) == (0, 9_000)


def test_a_batch_that_takes_long_is_overdue_beyond_three_medians():
    counts = run((0, 1), (2, 3), (4, 15), (16, 17), (18, 19)).verdict().counts
    assert (counts["in_time_ms"], counts["overdue_ms"], counts["observed_ms"]) == (3_000, 8_000, 18_000)


def test_a_recovery_in_time_keeps_its_demand():
    made = run(recover_within_s=2)
    made.journal = [fault(2, 1, recovery_s=2.0)]
    assert made.verdict().verdict == "VALID"


def test_a_recovery_that_takes_longer_is_slow_and_has_its_numbers():
    made = run(recover_within_s=2)
    made.journal = [fault(2, 1, recovery_s=2.0), fault(4, 2, recovery_s=2.1)]
    verdict = made.verdict()
    assert (verdict.verdict, verdict.findings_total) == ("INVALID", {"slow_recoveries": 1})
    assert verdict.findings[0].batch == 2
    assert verdict.findings[0].message == (
        "batch 2 was committed 2.1 s after pause broker at planned of batch 2, and 2 s are demanded (0.1 s more)"
    )
    assert verdict.cause == verdict.findings[0].message


def test_a_recovery_that_the_injector_did_not_see_is_known_by_the_commit():
    made = run(recover_within_s=0.5)
    made.journal = [fault(2.4, 1), fault(4.6, 2)]
    assert findings(made) == {"slow_recoveries": 1}
    assert made.verdict().findings[0].message.startswith("batch 1 was committed 0.6 s after")


def test_without_an_injected_fault_a_recovery_is_not_judged():
    made = run(recover_within_s=2)
    assert made.verdict().verdict == "UNKNOWN"
    assert made.verdict().inconclusive == [
        "it was not judged whether there was recovery within 2 s: no fault was injected"
    ]


def test_a_recovery_without_a_commit_is_not_judged():
    made = run(recover_within_s=100)
    made.journal = [fault(4, 2)]
    made.plans[2] = type(made.plans[2])(batch=2, watermark_ms=0, end_offsets=made.plans[2].end_offsets)
    assert findings(made) == {}
    assert any("when batch 2 was committed" in why for why in made.verdict().inconclusive)


@pytest.mark.parametrize(("demand", "broken"), [({"progress_batches": 1}, 0), ({"progress_batches": 2}, 1)])
def test_batches_that_are_committed_while_a_fault_lasts_are_progress(demand, broken):
    made = run(**demand)
    made.journal = [fault(2, 1, recovery_s=1.0, ended_at_utc=at(4.9))]
    assert findings(made) == ({"standstills": 1} if broken else {})


def test_a_standstill_says_how_long_the_fault_lasted():
    made = run(progress_batches=1)
    made.journal = [fault(2, 1, recovery_s=1.0, ended_at_utc=at(2.9))]
    assert made.verdict().findings[0].message == (
        f"no batches were committed while pause broker at planned of batch 1 lasted for 0.9 s (from {at(2)}),"
        " and 1 are demanded"
    )


@pytest.mark.parametrize(("rows", "broken"), [(2, 0), (3, 1)])
def test_rows_in_batches_that_are_committed_while_a_fault_lasts_are_progress(rows, broken):
    made = run(progress_rows=rows)
    made.journal = [fault(2, 1, recovery_s=1.0, ended_at_utc=at(5.5))]
    assert findings(made) == ({"standstills": 1} if broken else {})


def test_progress_during_faults_that_last_no_time_is_not_judged():
    made = run(progress_batches=1)
    made.journal = [fault(2, 1, action=FaultAction.KILL, recovery_s=1.0)]
    verdict = made.verdict()
    assert (verdict.verdict, len(verdict.inconclusive)) == ("UNKNOWN", 1)
    assert "no fault was injected that lasts" in verdict.inconclusive[0]


@pytest.mark.parametrize(("limit_s", "broken"), [(6.0, 0), (5.9, 1)])
def test_a_watermark_stands_from_its_first_batch_to_the_next_watermark(limit_s, broken):
    made = run((0, 1), (1, 3), (3, 5), (8, 9), (9, 10), watermark_stands_at_most_s=limit_s)
    assert [plan.watermark_ms for plan in made.batches()] == [0, 10_000, 20_000, 20_000, 1_000_000]
    assert findings(made) == ({"stalled_watermarks": 1} if broken else {})


@pytest.mark.parametrize(("limit_s", "broken"), [(1.001, 0), (1.0009, 1)])
def test_a_watermark_that_stands_as_long_as_is_demanded_to_the_millisecond_keeps_the_demand(limit_s, broken):
    made = run((0, 0.1), (1.001, 1.1), (2, 2.1), (2.2, 2.3), (2.4, 2.5), watermark_stands_at_most_s=limit_s)
    assert findings(made) == ({"stalled_watermarks": 1} if broken else {})


def test_a_stalled_watermark_says_where_it_stood_and_in_which_batches():
    made = run(watermark_stands_at_most_s=3)
    [finding] = made.verdict().findings
    assert finding.message == (
        "the watermark stood at 1970-01-01T00:00:20.000Z for 4.0 s (batches 2 to 3), and 3 s are demanded"
    )


def test_a_watermark_without_times_is_not_judged():
    made = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    made.demands = Demands(watermark_stands_at_most_s=1)
    verdict = made.verdict()
    assert verdict.verdict == "UNKNOWN"
    assert "when each batch was planned and committed" in verdict.inconclusive[0]


@pytest.mark.parametrize(("limit", "broken"), [(7, {}), (6, {"oversized_states": 1})])
def test_the_rows_of_all_operators_are_the_state_of_a_batch(limit, broken):
    assert findings(reported(run(state_rows_at_most=limit), 2, 7, 3, 1, 1)) == broken


def test_an_oversized_state_names_the_largest_and_counts_the_others():
    made = reported(run(state_rows_at_most=2), 2, 7, 3, 1, 1)
    [finding] = [one for one in made.verdict().findings if one.property == "oversized_states"]
    assert finding.batch == 1
    assert finding.message == (
        "batch 1 left 7 rows in the state, and at most 2 are demanded; 2 batches left more than that,"
        " the first is batch 1"
    )


def test_a_state_of_which_a_report_is_missing_is_not_judged():
    made = reported(run(state_rows_at_most=100), 2, 7, 3, 1)
    assert any("how many batch 4 left" in why for why in made.verdict().inconclusive)


@pytest.mark.parametrize(("limit", "is_judged"), [(9, True), (8, False)])
def test_what_a_batch_without_a_report_left_is_at_most_what_the_next_left_and_removed(limit, is_judged):
    made = reported(run(state_rows_at_most=limit), 2, 7, 3, 1, 1)
    del made.reports[2]
    made.reports[2]["stateOperators"] = [{"numRowsTotal": 1, "numRowsRemoved": 8}]
    assert any("how many batch 2 left" in why for why in made.verdict().inconclusive) is not is_judged


def test_a_query_that_hung_is_inconclusive_and_overdue_since():
    made = run((0, 1), (2, 3), (4, None))
    made.hang = Hang(
        since_utc=at(3),
        seen_utc=at(33),
        waited_for="a batch",
        committed=1,
        planned=2,
        stacks=["stacks/driver.txt"],
    )
    verdict = made.verdict()
    assert verdict.verdict == "UNKNOWN"
    assert verdict.inconclusive[0] == (
        f"the query hung: no batch was committed from {at(3)} until {at(33)}, when the run was given up (the last was"
        " batch 1; batch 2 was planned); it waited for a batch; thread stacks: stacks/driver.txt"
    )
    assert (verdict.counts["overdue_ms"], verdict.counts["observed_ms"]) == (30_000, 32_000)


def test_a_fault_from_which_a_query_that_hung_did_not_recover_breaks_the_demand():
    made = run((0, 1), (2, 3), (4, None), recover_within_s=20)
    made.hang = Hang(since_utc=at(3), seen_utc=at(33), waited_for="a batch", committed=1, planned=2)
    made.journal = [fault(4, 2, action=FaultAction.KILL)]
    verdict = made.verdict()
    assert verdict.verdict == "INVALID"
    assert verdict.findings[0].message.startswith("batch 2 was still not committed 29.0 s after kill broker")


@pytest.mark.parametrize("times", [[(0, 1), (2, 3)], [(0, 1), (2, 3), (4, None)]])
def test_after_a_kill_at_committed_the_next_batch_shows_the_recovery(times):
    made = run(*times, recover_within_s=20)
    made.hang = Hang(
        since_utc=at(3), seen_utc=at(33), waited_for="a batch", committed=1, planned=len(times) - 1
    )
    made.journal = [
        fault(4, 1, action=FaultAction.KILL, component=FaultComponent.DRIVER, point=CommitPoint.COMMITTED)
    ]

    verdict = made.verdict()
    assert verdict.findings_total["slow_recoveries"] == 1
    assert verdict.findings[0].message.startswith("batch 2 was still not committed 29.0 s after kill driver")
    assert verdict.findings[0].batch == 2


def test_without_a_hang_the_commit_of_the_next_batch_is_the_recovery_from_a_kill_at_committed():
    made = run((0, 1), (2, 3), (4, 9), recover_within_s=20)
    made.journal = [
        fault(4, 1, action=FaultAction.KILL, component=FaultComponent.DRIVER, point=CommitPoint.COMMITTED)
    ]
    assert findings(made) == {}
    made.demands = msgspec.structs.replace(made.demands, recover_within_s=4)
    assert findings(made) == {"slow_recoveries": 1}


def test_a_query_that_did_not_stop_is_inconclusive_and_no_batch_was_overdue():
    made = run(watermark_stands_at_most_s=10)
    made.hang = Hang(
        since_utc=at(9), seen_utc=at(129), waited_for="the query to stop", committed=4, phase=HangPhase.STOP
    )
    verdict = made.verdict()
    assert (verdict.verdict, verdict.findings) == ("UNKNOWN", [])
    [why] = verdict.inconclusive
    assert why == (
        f"the query hung: it did not stop from {at(9)} until {at(129)}, when the run was given up (batch 4 is the last"
        " that was committed); it waited for the query to stop"
    )
    assert (verdict.counts["overdue_ms"], verdict.counts["observed_ms"]) == (0, 8_000)


def test_a_query_that_never_started_is_inconclusive_and_nothing_of_it_is_wrong():
    made = Run("left_outer").batch("i1 a 10", "c1 a 12", out="i1 c1")
    made.plans, made.watermarks_s, made.records = [], [], []
    made.hang = Hang(
        since_utc=at(0), seen_utc=at(300), waited_for="the query to start", phase=HangPhase.START
    )
    verdict = made.verdict()
    assert (verdict.verdict, verdict.findings) == ("UNKNOWN", [])
    assert "it did not start from" in verdict.inconclusive[0]
    assert "none was ever committed" in verdict.inconclusive[0]


@pytest.mark.parametrize("phase", [None, HangPhase.STOP, HangPhase.DRAIN])
def test_rows_behind_the_end_of_an_output_that_is_not_complete_are_not_lost(phase):
    made = Run("left_outer").batch("i1 a 10, i2 b 10", "c1 a 12", out="i1 c1").batch().flush()
    made.records = made.records[:0]
    if phase is not None:
        made.hang = Hang(since_utc=at(0), seen_utc=at(60), waited_for="its end", phase=phase)
    verdict = made.verdict()
    if phase is HangPhase.DRAIN:
        assert (verdict.verdict, verdict.findings, verdict.causes) == ("UNKNOWN", [], [])
        assert "2 rows that committed batches owed are not in the output" in " ".join(verdict.inconclusive)
    else:
        assert (verdict.verdict, verdict.findings_total) == ("INVALID", {"lost_rows": 1, "missing_nulls": 1})


def test_a_row_that_came_and_is_wrong_is_a_finding_of_an_output_that_is_not_complete_too():
    made = (
        Run("left_outer").batch("i1 a 10, i2 b 10", "c1 a 12", out="i1 c1, i1 c1").batch().flush(out="i2 -")
    )
    made.delivery = Delivery.EXACTLY_ONCE
    made.hang = Hang(since_utc=at(0), seen_utc=at(60), waited_for="its end", phase=HangPhase.DRAIN)
    assert made.verdict().verdict == "INVALID"
    assert made.findings() == {"duplicate_rows": 1}


def test_demands_that_are_no_amounts_are_refused():
    assert Demands(recover_within_s=float("nan")).problem()
    assert Demands(progress_rows=0).problem()
    assert not Demands(state_rows_at_most=0).problem()


def test_progress_is_read_as_batches_or_rows():
    assert [read_progress(text) for text in ("", "1", "3 batches", "500rows")] == [
        (None, None), (1, None), (3, None), (None, 500),
    ]  # fmt: skip
    for text in ("0", "-1", "some", "3 files"):
        with pytest.raises(UsageError, match="no amount of progress"):
            read_progress(text)
