"""A hundred thousand impressions, twenty-two kills: of executors, and of drivers at every commit point."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from tests.chaos.copies import copies
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.exclusive]

FAULTS = (
    "driver@planned,driver@half-written*2,driver@written*2,driver@no-data,"
    "executor@planned*5,executor@half-written*6,executor@no-data*5"
)
A_MINUTE = 4
"""Calibration: with a driver that is back within 20 s and an executor within 10 s there are six."""


def must_be_proved(run):
    """Each fault that was asked for."""
    wanted = {(spec.component, spec.action, spec.point): spec.count for spec in read_schedule(FAULTS)}
    injected = (fault for fault in run.faults() if fault.injected)
    assert Counter((fault.component, fault.action, fault.point) for fault in injected) == wanted


def must_come_soon_after_one_another(faults):
    """So many a minute."""
    times = sorted(datetime.fromisoformat(fault.at_utc) for fault in faults)
    minutes = (times[-1] - times[0]).total_seconds() / 60
    assert (len(faults) - 1) / minutes >= A_MINUTE, f"{len(faults)} faults in {minutes:.1f} minutes"


def test_exactly_once_is_exactly_once(run_pipeline):
    result = run_pipeline("left_outer", seed=11, impressions=100_000, faults=FAULTS)

    assert result.verdict.verdict == "VALID", result.verdict
    assert result.verdict.delivery == "exactly-once"
    run = RunDirectory(result.run_dir)
    must_be_proved(run)
    must_come_soon_after_one_another(run.faults())
    assert not copies(run)
    assert sum(batch.runs - 1 for batch in run.batches()) == 6
