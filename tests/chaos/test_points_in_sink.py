"""An executor or the driver killed, or an executor paused, or the network of a broker cut, at a step of the sink."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import OF_TRANSACTION, TASK_HELD, CommitPoint, FaultComponent

pytestmark = [pytest.mark.chaos, pytest.mark.long]

IN_TRANSACTION = {
    "left_outer": "executor@rows-sent,driver@entry-sent",
    "left_semi": "executor@entry-sent,driver@rows-sent",
    "inner": "executor:pause@rows-sent,executor:pause@entry-sent",
}
HELD = {
    "left_outer": "executor@fenced,driver@looked-up",
    "right_outer": "executor@looked-up,driver@fenced",
    "full_outer": "executor:pause@fenced,executor:pause@looked-up,executor:pause@begun",
    "left_semi": "executor@begun,driver@partition-written",
    "inner": "executor@partition-written,executor:pause@partition-written,driver@begun",
}
UNANSWERED = {
    "left_outer": "broker:cut-responses@entry-sent,broker:cut-requests@entry-sent",
    "inner": "broker:reset@entry-sent,broker@entry-sent",
}
GENERATOR = {"full_outer": ("--null-keys", "0")}
"""It takes NULL keys for equal."""


@pytest.fixture
def judged(run_on_own):
    """Runs a join under faults: its evidence and the faults, each proved; every row is right and came once."""

    def run(join, schedule):
        result = run_on_own(
            join, seed=3, impressions=1000, faults=schedule, generator=GENERATOR.get(join, ())
        )
        must_be_right(join, result.verdict)
        evidence = RunDirectory(result.run_dir)
        faults = must_be_proved(evidence, read_schedule(schedule))
        killed = [fault.batch for fault in faults.values() if fault.killed(FaultComponent.DRIVER)]
        assert [batch.batch for batch in evidence.batches() if batch.runs > 1] == sorted(killed)
        assert not copies(evidence)
        return faults.values()

    return run


@pytest.mark.parametrize("join", IN_TRANSACTION)
def test_what_lies_in_an_open_transaction_is_never_read_and_every_row_comes_once(join, judged):
    for fault in judged(join, IN_TRANSACTION[join]):
        open_rows, stable = fault.proof["open_rows"], fault.proof["stable"]
        assert all(stable[partition] < end for partition, end in open_rows.items())
        if fault.point is CommitPoint.ROWS_SENT:
            assert open_rows
        else:
            assert fault.proof["pending"]


@pytest.mark.parametrize("join", HELD)
def test_every_row_comes_once_whichever_step_a_task_was_held_at(join, judged):
    for fault in judged(join, HELD[join]):
        entry = fault.proof["ledger"].get(str(fault.proof["held"]["partition"]))
        assert (entry == fault.batch + 1) is (fault.point is CommitPoint.PARTITION_WRITTEN)
        assert fault.proof["executor_id"] == fault.proof["held"]["executor_id"]


@pytest.mark.parametrize("join", UNANSWERED)
def test_a_commit_whose_request_or_answer_is_lost_counts_once(join, judged):
    for fault in judged(join, UNANSWERED[join]):
        assert fault.proof["pending"]


def test_every_step_of_the_sink_is_met():
    asked = [
        spec for schedule in (*IN_TRANSACTION.values(), *HELD.values()) for spec in read_schedule(schedule)
    ]

    assert {spec.point for spec in asked} == {*OF_TRANSACTION, *TASK_HELD}
    assert {spec.point for spec in asked if spec.component is FaultComponent.DRIVER} >= {*TASK_HELD}
