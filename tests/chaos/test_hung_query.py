"""A query that commits nothing more ends its run as UNKNOWN, with since when, what was awaited, and thread stacks."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.e2e.conftest import shown
from tidemark.errors import EXIT_UNKNOWN, TidemarkError
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.stack import DRIVER

pytestmark = [pytest.mark.chaos]

HUNG_AFTER_S = 25.0
"""Calibration: a batch of this run takes 1 s; on a machine with a load of 25 the first one took 20 s."""
AFTER_SLICE = 3


def hung_run(run_on_own, harm):
    """A run to which something is done for good once some slices are read."""

    def report(what, done, _total):
        if (what, done) == ("publish", AFTER_SLICE):
            harm()

    result = run_on_own(
        "left_outer", seed=3, impressions=300, hung_after_s=HUNG_AFTER_S, generator=("--slices", "6"),
        report=report, state_rows_at_most=100_000,
    )  # fmt: skip
    verdict, evidence = result.verdict, RunDirectory(result.run_dir)
    assert (verdict.verdict, verdict.exit_code) == ("UNKNOWN", EXIT_UNKNOWN), shown(verdict)
    assert verdict.inconclusive[0].startswith("the query hung: no batch was committed from 20")
    assert judge(evidence).inconclusive == verdict.inconclusive
    committed = [batch.batch for batch in evidence.batches() if batch.committed]
    hang = evidence.manifest.hang
    assert hang is not None
    assert hang.committed == committed[-1] >= AFTER_SLICE - 1
    assert verdict.counts["overdue_ms"] >= 1000 * HUNG_AFTER_S
    assert (result.run_dir / "report.html").is_file()
    return evidence, hang


@pytest.mark.long
def test_a_query_whose_executors_stand_still_hung_and_the_threads_of_its_driver_are_kept(
    own_stack, run_on_own
):
    paused = []

    def harm():
        paused.extend(own_stack.pause_executor(DRIVER, one) for one in own_stack.executors(DRIVER))

    try:
        evidence, hang = hung_run(run_on_own, harm)
    finally:
        for one in paused:
            with suppress(TidemarkError):
                own_stack.resume_executor(DRIVER, one)
    assert hang.planned == hang.committed + 1
    assert hang.waited_for == "a batch that reads the last record published"
    assert hang.stacks == ["stacks/driver.txt", *(f"stacks/executor-{one.executor_id}.txt" for one in paused)]
    of_driver, *of_executors = [(evidence.path / name).read_text() for name in hang.stacks]
    assert "MicroBatchExecution" in of_driver
    assert of_executors
    assert all("is suspended" in text for text in of_executors)


@pytest.mark.long
def test_a_query_whose_driver_stands_still_hung_and_it_is_said_that_it_is_suspended(own_stack, run_on_own):
    try:
        evidence, hang = hung_run(run_on_own, lambda: own_stack.pause(DRIVER))
    finally:
        own_stack.kill(DRIVER)  # and with it the query, which nobody could stop
    assert hang.planned is None
    assert hang.waited_for == "an answer of the driver"
    of_driver, *of_executors = [(evidence.path / name).read_text() for name in hang.stacks]
    assert "is suspended" in of_driver
    assert of_executors
    assert all("Full thread dump" in text for text in of_executors)
