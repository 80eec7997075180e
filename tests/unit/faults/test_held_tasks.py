"""An executor whose task waits at a step of the sink: which is stopped, and when the batch is not at the point."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tidemark.faults.commit_points import RunningBatch
from tidemark.faults.executor import stop_executor_at_point
from tidemark.faults.schedule import PlannedFault, read_schedule
from tidemark.formats.faults import TASK_HELD, CommitPoint
from tidemark.sink.ledger_checks import Task
from tidemark.sink.task.held_steps import FOLDER_VARIABLE, holding
from tidemark.stack import Executor

BATCH = 4
STEP = {"fenced": "initialised", "looked-up": "looked-up", "begun": "begun", "partition-written": "committed"}


class Target:
    """A query in which batch 4 runs, of two executors; ``ledger`` has the next batch of each sink partition."""

    driver = "driver"

    def __init__(self, folder, **ledger):
        self.said, self.running = [], BATCH
        self.checkpoint = SimpleNamespace(query_id=lambda: "q", running=lambda: self.running)
        self.progress = SimpleNamespace(snapshot=lambda: {"ledger": ledger})
        self.stack = SimpleNamespace(
            work_dir=lambda _name: folder,
            executors=lambda _driver: [Executor(str(number), "worker-1", None) for number in range(2)],
            pause_executor=lambda _driver, one: self.said.append(("pause", one.executor_id)),
            resume_executor=lambda _driver, one: self.said.append(("resume", one.executor_id)),
        )


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Stops the executor of a task of partition 0 that comes to a step, of an executor of that id."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))

    def stop(target, point, executor_id="1"):
        monkeypatch.setattr("tidemark.sink.task.held_steps._executor_id", lambda: executor_id)
        task = Task(query="q", run="run", batch=BATCH, partition=0, attempt=0, partitions=2)
        [spec] = read_schedule(f"executor@{point}")
        fault = PlannedFault(spec, BATCH, 0.0, 0)
        with ThreadPoolExecutor(1) as other:
            found = other.submit(
                stop_executor_at_point, target, fault, RunningBatch(BATCH, {}), unless=lambda: None
            )
            while not found.done():
                holding(task)(STEP[point])
            return found.result()

    return stop


@pytest.mark.parametrize("point", TASK_HELD)
def test_the_executor_of_the_held_task_is_stopped(point, stopped, tmp_path):
    entry = BATCH + 1 if point is CommitPoint.PARTITION_WRITTEN else BATCH
    target = Target(tmp_path, **{"0": entry, "1": BATCH + 1})

    found = stopped(target, point)

    assert found.executor.executor_id == "1"
    assert found.proof["held"] == {"partition": 0, "attempt": 0, "executor_id": "1"}
    assert found.look() == found.proof
    assert target.said == [("pause", "1")]
    assert [*tmp_path.iterdir()] == []


def test_an_executor_is_resumed_if_the_ledger_has_no_entry_of_a_task_that_has_committed(stopped, tmp_path):
    target = Target(tmp_path, **{"0": BATCH})

    assert stopped(target, "partition-written") is None
    assert target.said == [("pause", "1"), ("resume", "1")]


def test_a_task_of_an_executor_that_is_gone_goes_on(stopped, tmp_path):
    target = Target(tmp_path, **{"0": BATCH})

    assert stopped(target, "begun", executor_id="9") is None
    assert target.said == []
    assert [*tmp_path.iterdir()] == []


def test_a_batch_that_is_over_has_no_such_task(tmp_path):
    target = Target(tmp_path, **{"0": BATCH})
    target.running = None
    [spec] = read_schedule("executor@begun")
    fault, now = PlannedFault(spec, BATCH, 0.0, 0), RunningBatch(BATCH, {})

    assert stop_executor_at_point(target, fault, now, unless=lambda: None) is None
    assert [*tmp_path.iterdir()] == []
