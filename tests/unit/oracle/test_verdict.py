"""Coverage goals, inconclusive checks and the three verdicts; contracts without refs; a check that raises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.unit.oracle.histories import LEFT_TOPIC, Run
from tidemark.errors import BrokenEvidence
from tidemark.formats.contract import Bound, Delivery
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.faults import AFTER_COMMIT, CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.oracle import Verdict
from tidemark.oracle import judgement as judging
from tidemark.oracle.coverage import hit_running_batches
from tidemark.oracle.input.history import Disposition, History
from tidemark.oracle.sql.join_answer import SqlAnswer, ask


def whole() -> Run:
    """Everything there is: a pair, a NULL row, a late row, edge rows, garbage, a NULL key, an event sent twice."""
    run = (
        Run("left_outer").batch("i1 a 10, i2 b 11, i2 b 11, garbage, i4 - 11", "c1 a 12", out="i1 c1").batch()
    )
    run.batch("i3 c 20, i9 d 9, i5 e 11.001", "c3 c 21", out="i3 c3").batch(out="i2 -, i4 -, i5 -").flush()
    run.records.append(run.record(3, "i2", "-", io=2))
    return run


GOALS = (
    "rows_joined",
    "null_row_after_eviction",
    "late_row_dropped",
    "edge_row_seen",
    "unreadable_filtered",
    "null_key_seen",
    "duplicate_event_seen",
)


def test_a_run_that_meets_every_goal_is_valid() -> None:
    run = whole()
    run.goals = list(GOALS)
    verdict = run.verdict()
    assert verdict.inconclusive == []
    assert verdict.verdict == "VALID"
    assert verdict.asked == ["flushed", "all_input_read", *GOALS]
    assert {name for name, reached in verdict.goals.items() if not reached} == {
        "each_bound_end_decides",  # waived, as by every run of these tests
        "duplicate_permitted",
        "written_kills_doubled",
        "fault_hit_running_batch",
    }


def test_the_counts_are_those_of_the_rows() -> None:
    counts = whole().verdict().counts
    assert {name: count for name, count in counts.items() if count} == {
        "rows_in": 10,
        "impressions_in": 8,
        "impressions_late": 1,
        "clicks_in": 2,
        "late": 1,
        "unreadable": 1,
        "null_key": 1,
        "duplicate_events": 1,
        "edge": 1,
        "matched": 2,
        "joined_rows": 2,
        "null_rows": 4,
        "expected_rows": 6,
        "output_records": 6,
        "batches": 6,
        "committed_batches": 6,
        "data_batches": 3,
        "no_data_batches": 3,
    }


@pytest.mark.parametrize(
    "goal", [*GOALS, "duplicate_permitted", "written_kills_doubled", "fault_hit_running_batch"]
)
def test_an_goal_that_is_required_and_not_met_is_unknown(goal: str) -> None:
    run = Run("left_outer").batch("" if goal == "null_row_after_eviction" else "i1 a 10", "c1 x 10")
    run.flush(out="" if goal == "null_row_after_eviction" else "i1 -")
    run.goals = [goal]
    verdict = run.verdict()
    assert verdict.verdict == "UNKNOWN"
    assert verdict.exit_code == 3
    missing = ": impressions: no NULL row came" if goal == "null_row_after_eviction" else ""
    assert verdict.inconclusive == [f"the coverage goal {goal!r} is required and was not met{missing}"]


def test_a_goal_that_this_join_cannot_meet_is_not_required() -> None:
    run = Run("inner").batch("i1 a 10").flush()
    run.goals = ["null_row_after_eviction", "semi_row_emitted"]
    assert run.verdict().verdict == "VALID"
    assert run.verdict().asked == ["flushed", "all_input_read"]


def test_an_unknown_goal_is_inconclusive() -> None:
    run = Run().batch("i1 a 10").flush()
    run.goals = ["world_peace"]
    assert run.verdict().verdict == "UNKNOWN"
    assert "none of: flushed" in run.verdict().inconclusive[0]


def test_a_finding_outranks_an_inconclusive_check() -> None:
    run = whole().without("i1 c1")
    run.goals = ["duplicate_permitted"]
    assert run.verdict().verdict == "INVALID"
    assert run.verdict().inconclusive


def test_a_run_that_was_not_flushed_is_unknown_and_owes_nothing_yet() -> None:
    verdict = Run("left_outer").batch("i1 a 10, i2 b 11", "c1 a 12", out="i1 c1").batch().verdict()
    assert verdict.findings == []
    assert verdict.inconclusive == ["the coverage goal 'flushed' is required and was not met"]


def test_input_that_no_committed_batch_read_is_inconclusive() -> None:
    run = Run().batch("i1 a 10", "c1 a 12", out="i1 c1").batch()
    run.rows[LEFT_TOPIC].append("i2 b 11")
    assert "the coverage goal 'all_input_read' is required and was not met" in run.verdict().inconclusive


def test_a_batch_that_read_more_than_the_evidence_holds_is_inconclusive() -> None:
    run = Run().batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    run.plans[-1] = msgspec.structs.replace(run.plans[-1], end_offsets={LEFT_TOPIC: {"0": 7}})
    assert "evidence has only 0 of 5 records" in run.verdict().inconclusive[0]


@pytest.mark.parametrize(
    ("proof", "hit"),
    [
        ({"planned": True, "committed": False}, True),
        ({"planned": True, "committed": True}, False),
        ({"planned": False, "committed": False}, False),
        ({"planned": True}, False),
        ({}, False),
    ],
)
def test_a_fault_has_to_hit_a_running_batch(proof: dict[str, Any], hit: bool) -> None:
    run = whole()
    fault = Fault(
        component=FaultComponent.EXECUTOR,
        action=FaultAction.KILL,
        at_utc="-",
        injected=True,
        batch=2,
        point=CommitPoint.PLANNED,
        recovery_s=1.5,
    )
    run.journal = [msgspec.structs.replace(fault, proof=proof)]
    run.goals = ["fault_hit_running_batch"]
    verdict = run.verdict()
    assert verdict.verdict == ("VALID" if hit else "UNKNOWN")
    assert (verdict.counts["faults_done"], verdict.counts["recovery_ms"]) == (1, 1500)


@pytest.mark.parametrize("point", AFTER_COMMIT)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_fault_whose_point_is_after_the_commit_has_to_hit_a_committed_batch(point, is_committed) -> None:
    fault = Fault(
        component=FaultComponent.DRIVER, action=FaultAction.KILL, at_utc="-", injected=True, batch=2, point=point,
        proof={"planned": True, "committed": is_committed},
    )  # fmt: skip

    assert hit_running_batches([fault]) is is_committed


def test_each_driver_killed_with_rows_written_has_to_double_some_or_the_kill_proves_nothing() -> None:
    def judged(*doubled: int) -> Verdict:
        run = (
            Run("left_outer")
            .batch("i1 a 10", "c1 a 12", out="i1 c1")
            .batch("i2 b 11", "c2 b 12", out="i2 c2")
        )
        run.flush()
        for batch in (0, 1):
            run.plans[batch] = msgspec.structs.replace(run.plans[batch], runs=2)
        for batch in doubled:
            run.out(batch, f"i{batch + 1} c{batch + 1}")
        proof = {"planned": True, "committed": False, "rows": {"0": 1}}
        run.journal = [
            Fault(
                component=FaultComponent.DRIVER,
                action=FaultAction.KILL,
                at_utc="-",
                injected=True,
                batch=batch,
                point=CommitPoint.WRITTEN,
                proof=proof,
            )
            for batch in (0, 1)
        ]
        run.delivery = Delivery.AT_LEAST_ONCE
        run.goals = ["written_kills_doubled"]
        return run.verdict()

    assert judged(0, 1).verdict == "VALID"
    assert judged(0).inconclusive == judged(1).inconclusive == judged().inconclusive == [
        "the coverage goal 'written_kills_doubled' is required and was not met"
    ]  # fmt: skip


def test_a_fault_that_was_not_injected_is_inconclusive() -> None:
    run = whole()
    run.journal = [
        Fault(
            component=FaultComponent.EXECUTOR,
            action=FaultAction.KILL,
            point=CommitPoint.PLANNED,
            at_utc="-",
            injected=False,
        )
    ]
    assert run.verdict().inconclusive == ["the coverage goal 'every_fault_done' is required and was not met"]


def test_a_check_that_raises_is_inconclusive_and_the_others_still_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr(judging, "replay", fails)
    assert whole().verdict().inconclusive == ["the model could not be judged: ZeroDivisionError: seven"]
    assert whole().without("i1 c1").findings() == {"lost_rows": 1}
    monkeypatch.setattr(judging, "ask", fails)
    verdict = whole().verdict()
    assert verdict.verdict == "UNKNOWN"
    assert "the SQL oracle could not be judged: ZeroDivisionError: seven" in verdict.inconclusive


def test_broken_evidence_is_the_callers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Run) -> list[OutputRecord]:
        raise BrokenEvidence("line 7")

    monkeypatch.setattr(Run, "output", broken)
    with pytest.raises(BrokenEvidence):
        whole().verdict()


def test_offsets_of_a_partition_that_is_no_number_are_broken_evidence() -> None:
    run = whole()
    run.plans[-1] = msgspec.structs.replace(run.plans[-1], end_offsets={LEFT_TOPIC: {"first": 7}})
    with pytest.raises(BrokenEvidence, match="invalid literal"):
        run.verdict()


def test_oracles_that_disagree_without_a_known_defect_are_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(number: int) -> Any:
        def asked(history: History) -> SqlAnswer:
            answer = ask(history)
            kept = np.arange(len(answer.identity)) != number
            columns = {
                name: getattr(answer, name)[kept]
                for name in ("identity", "batch", "is_right", "comes", "defect")
            }
            return replace(answer, **columns)

        return asked

    monkeypatch.setattr(judging, "ask", without(0))
    assert "oracles_disagree" in whole().findings()


@pytest.mark.parametrize("column", ["watermarks_ms", "disposition", "batch", "stored", "removed"])
def test_oracles_that_disagree_about_more_than_rows_are_a_finding(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(history: History) -> SqlAnswer:
        answer = ask(history)
        other = list(getattr(answer, column))
        other[1] = Disposition.LATE if column == "disposition" else other[1] + 1
        return replace(answer, **{column: other if column == "watermarks_ms" else np.array(other)})

    monkeypatch.setattr(judging, "ask", asked)
    assert "oracles_disagree" in whole().findings()


# Contracts without refs: output is a multiset of ids


def without_refs(run: Run) -> Run:
    run.contract = replace(run.contract, output=replace(run.contract.output, left_ref=None, right_ref=None))
    return run


def test_without_refs_rows_of_an_event_sent_twice_are_told_apart_by_their_number() -> None:
    def sent_twice() -> Run:
        run = Run("left_outer").batch("i1 a 10, i1 a 10, i2 b 10, i2 b 10", "c1 a 12").flush()
        return without_refs(run.out(0, "i1 c1, i1 c1").out(2, "i2 -, i2 -"))

    assert sent_twice().verdict().verdict == "VALID"
    assert sent_twice().out(0, "i1 c1").findings() == {"duplicate_rows": 1}
    assert sent_twice().out(1, "i2 -").findings() == {"premature_nulls": 1}
    once = sent_twice()
    del once.records[0]
    assert once.findings() == {"lost_rows": 1}
    del once.records[-1]
    assert once.findings() == {"lost_rows": 1, "missing_nulls": 1}


@pytest.mark.parametrize(
    ("left", "right", "row"), [("- a 10", "c1 a 12", "- c1"), ("i1 a 10", "- a 12", "i1 -")]
)
@pytest.mark.parametrize("kind", ["inner", "full_outer"])
def test_without_refs_a_pair_of_an_event_without_an_id_is_not_taken_for_a_null_row(
    kind: str, left: str, right: str, row: str
) -> None:
    def joined() -> Run:
        return without_refs(Run(kind).batch(left, right, out=row).flush())

    assert joined().verdict().verdict == "VALID"
    assert joined().out(0, row).findings() == {"duplicate_rows": 1}
    assert joined().without(row).findings() == {"lost_rows": 1}


def test_without_refs_a_null_row_beside_an_event_without_an_id_is_one() -> None:
    run = without_refs(Run("right_outer").batch("- b 10", "c1 a 12").flush(out="- c1"))
    assert run.verdict().verdict == "VALID"
    assert run.without("- c1").findings() == {"missing_nulls": 1}


def test_without_refs_an_unknown_id_is_a_phantom() -> None:
    run = without_refs(Run("left_outer").batch("i1 a 10", "c1 a 12", out="i1 c1").flush())
    assert run.verdict().verdict == "VALID"
    assert run.out(0, "i7 c1").findings() == {"phantom_rows": 1}
    assert run.out(0, "i1 c7").findings() == {"phantom_rows": 2}


def test_a_bound_that_never_expires_can_be_flushed() -> None:
    run = Run(bound=Bound(None, None)).batch("i1 a 10", "c1 a 100", out="i1 c1").flush()
    assert run.verdict().verdict == "VALID"


def test_sentinels_and_rows_made_of_them_are_not_compared() -> None:
    run = whole()
    run.records.append(run.record(5, "sentinel-i", "-"))
    verdict = run.verdict()
    assert verdict.verdict == "VALID"
    assert verdict.counts["sentinel_rows"] == 1
