"""A hundred thousand impressions, eleven kills: seven executors, and four drivers with a batch written."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.copies import copies
from tidemark.evidence import RunDirectory

pytestmark = [pytest.mark.chaos, pytest.mark.long]

SCHEDULE = {"seed": 11, "impressions": 100_000, "kill_executors": 7, "kill_drivers": 4}


def done(run):
    return Counter((fault.fault, fault.point) for fault in run.faults() if fault.done)


def test_exactly_once_is_exactly_once(run_pipeline):
    result = run_pipeline("left_outer", **SCHEDULE)

    assert result.verdict.verdict == "VALID", result.verdict
    assert result.verdict.delivery == "exactly-once"
    run = RunDirectory(result.run_dir)
    assert done(run).total() == 11
    assert done(run)["KillDriver", "written"] == 4
    assert sum(batch.runs - 1 for batch in run.batches()) >= 4


def test_the_same_schedule_with_sparks_own_sink_shows_its_duplicates(run_pipeline):
    result = run_pipeline("left_outer", sink="spark", **SCHEDULE)

    assert result.verdict.verdict == "VALID", result.verdict
    run = RunDirectory(result.run_dir)
    assert done(run).total() == 11
    again = copies(run)
    assert again.total() == result.verdict.counts["duplicates_excused"] > 0
    begun_twice = {batch.batch for batch in run.batches() if batch.runs > 1 or batch.failed_tasks}
    assert set(again) <= begun_twice
