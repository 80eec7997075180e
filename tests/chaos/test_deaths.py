"""A driver killed twice, all executors killed at once, pauses longer than timeouts: every row is right nevertheless."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.e2e.conftest import shown
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import POINTS, FaultAction, FaultComponent
from tidemark.runner.run_options import SINKS

pytestmark = [pytest.mark.chaos, pytest.mark.long]

EXACTLY_ONCE, SPARK = SINKS
EXECUTOR_S = 200
"""Longer than ``spark.network.timeout``, two minutes, and a look at it each minute (``spark.network.timeoutInterval``):
the driver gives the executor up, and the worker ends it."""
BROKER_S = 75
"""Longer than clients wait for an answer: a minute (``socket.timeout.ms``), or half a one (``request.timeout.ms``)."""


def twice(*at):
    return ",".join(f"driver:kill-twice@{point}" for point in at)


def must_be_right(result):
    assert result.verdict.verdict == "VALID", shown(result.verdict)
    evidence = RunDirectory(result.run_dir)
    assert all(fault.injected for fault in evidence.faults())
    again = copies(evidence)
    assert again.total() == result.verdict.counts["duplicates_permitted"]
    assert result.verdict.delivery == "at-least-once" or not again
    return evidence, again


def must_have_died_twice(evidence, again, points):
    faults = [fault for fault in evidence.faults() if fault.action is FaultAction.KILL_TWICE]
    assert sorted(fault.point for fault in faults) == sorted(points)
    batches = {batch.batch: batch for batch in evidence.batches()}
    for fault in faults:
        assert fault.proof["app_id"] != fault.proof["again"]["app_id"]
        assert batches[fault.batch].runs == 3
    # Where the second kill came too late there is one kill; both were tried again in another batch.
    restarted = {fault.batch for fault in evidence.faults() if fault.killed(FaultComponent.DRIVER)}
    assert {batch for batch, found in batches.items() if found.runs > 1} == restarted
    assert set(again) <= restarted


@pytest.mark.parametrize(
    ("sink", "others"), [(EXACTLY_ONCE, ("executors@planned", "executors@no-data")), (SPARK, ())]
)
def test_a_driver_killed_twice_in_a_batch_doubles_nothing_of_other_batches(sink, others, run_pipeline):
    points = POINTS[FaultComponent.DRIVER, FaultAction.KILL_TWICE]
    faults = ",".join([twice(*points), *others])

    evidence, again = must_be_right(
        run_pipeline("left_outer", seed=5, impressions=2500, sink=sink, faults=faults)
    )

    must_have_died_twice(evidence, again, points)
    all_at_once = [fault for fault in evidence.faults() if fault.component is FaultComponent.EXECUTORS]
    assert len(all_at_once) == len(others)
    assert all(len(fault.proof["executor_ids"]) > 1 for fault in all_at_once)


def test_an_executor_paused_beyond_the_network_timeout_is_replaced_and_doubles_nothing(run_pipeline):
    faults = f"executor:pause@half-written~{EXECUTOR_S}"

    result = run_pipeline("left_outer", seed=5, impressions=1000, faults=faults)

    evidence, _ = must_be_right(result)
    [fault] = evidence.faults()
    given_up = f"Removing executor {fault.proof['executor_id']} with no recent heartbeats"
    assert given_up in (result.run_dir / "logs" / "driver.log").read_text()
    assert {batch.batch: batch.failed_tasks for batch in evidence.batches()}[fault.batch] > 0


@pytest.mark.parametrize("sink", SINKS)
def test_a_broker_paused_beyond_the_request_timeout_doubles_nothing(sink, run_on_own):
    faults = f"broker:pause@half-written~{BROKER_S}"

    _, again = must_be_right(run_on_own("left_outer", seed=5, impressions=1000, sink=sink, faults=faults))

    assert not again
