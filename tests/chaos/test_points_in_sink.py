"""An executor or the driver killed, or an executor paused, while a task has a transaction of the sink open."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import CommitPoint, FaultComponent

pytestmark = [pytest.mark.chaos, pytest.mark.long]

CASES = {
    "left_outer": "executor@rows-sent,driver@entry-sent",
    "left_semi": "executor@entry-sent,driver@rows-sent",
    "inner": "executor:pause@rows-sent,executor:pause@entry-sent",
}


@pytest.mark.parametrize("join", CASES)
def test_what_lies_in_an_open_transaction_is_never_read_and_every_row_comes_once(join, run_on_own):
    result = run_on_own(join, seed=3, impressions=1000, faults=CASES[join])

    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = must_be_proved(evidence, read_schedule(CASES[join]))
    for fault in faults.values():
        open_rows, stable = fault.proof["open_rows"], fault.proof["stable"]
        assert all(stable[partition] < end for partition, end in open_rows.items())
        if fault.point is CommitPoint.ROWS_SENT:
            assert open_rows
        else:
            assert fault.proof["pending"]
    killed = [fault.batch for fault in faults.values() if fault.component is FaultComponent.DRIVER]
    assert [batch.batch for batch in evidence.batches() if batch.runs > 1] == killed
    assert not copies(evidence)
