"""A query whose driver is killed goes on on its standby, and every row is right."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import shown
from tidemark.formats.evidence import RunDirectory
from tidemark.runner.run_options import SINKS

pytestmark = [pytest.mark.chaos, pytest.mark.long]


def drivers_of(result):
    """The drivers on which the query went on, in the order of the faults; the run is right, and nothing is missing."""
    assert result.verdict.verdict == "VALID", shown(result.verdict)
    faults = list(RunDirectory(result.run_dir).faults())
    assert all(fault.injected for fault in faults)
    return [fault.proof["recovered_on"].partition("-standby-")[2] for fault in faults]


@pytest.mark.parametrize("sink", SINKS)
def test_each_killed_driver_is_followed_by_a_standby(sink, run_pipeline):
    result = run_pipeline(
        "left_outer", seed=3, impressions=2000, sink=sink, standby=True,
        faults="driver@written,driver@half-written,driver@no-data",
    )  # fmt: skip

    assert drivers_of(result) == ["1", "2", "3"]
    assert "--standby" in result.command
    logs = {path.name for path in (result.run_dir / "logs").glob("driver*.log")}
    assert logs == {"driver.log", "driver-2.log", "driver-3.log", "driver-4.log"}


def test_a_standby_that_is_killed_in_its_first_batch_is_started_again(run_pipeline):
    result = run_pipeline(
        "left_outer",
        seed=4,
        impressions=2000,
        standby=True,
        faults="driver:kill-twice@planned,driver@written",
    )

    assert drivers_of(result) == ["1", "2"]
    [twice, _] = RunDirectory(result.run_dir).faults()
    batches = {batch.batch: batch for batch in RunDirectory(result.run_dir).batches()}
    assert batches[twice.batch].runs == 3
