"""Reading Spark's event log: failed task attempts, executors of state partitions, progress reports."""

from __future__ import annotations

import json

import pytest

from tidemark.formats.evidence import ExecutorAssignment
from tidemark.sparkfiles.eventlog import QueryEvents


def job(number, query, batch, *stages):
    properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
    return {"Event": "SparkListenerJobStart", "Job ID": number, "Stage IDs": stages, "Properties": properties}


def task(stage, reason):
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task End Reason": {"Reason": reason}}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "app-1.inprogress"

    def write(*events, tail=""):
        path.write_text("".join(json.dumps(event) + "\n" for event in events) + tail)
        return path

    return write


def test_a_task_attempt_that_did_not_succeed_is_counted_for_its_batch(log):
    path = log(
        job(1, "mine", 4, 10, 11),
        task(10, "Success"), task(11, "ExecutorLostFailure"), task(11, "TaskKilled"), task(11, "Success"),
        job(2, "mine", 5, 12),
        task(12, "FetchFailed"),
    )  # fmt: skip

    assert QueryEvents(path, 0, "mine").failed_tasks() == {4: 2, 5: 1}


def test_tasks_of_another_query_on_the_same_driver_are_not_counted(log):
    path = log(
        job(1, "theirs", 4, 10), task(10, "ExecutorLostFailure"), job(2, "mine", 0, 11), task(11, "Success")
    )

    assert QueryEvents(path, 0, "mine").failed_tasks() == {}


def test_lines_before_the_run_and_an_incomplete_last_line_are_not_read(log):
    old = json.dumps(job(1, "mine", 1, 9)) + "\n" + json.dumps(task(9, "TaskKilled")) + "\n"
    path = log(tail=old + json.dumps(job(2, "mine", 2, 10)) + "\n" + json.dumps(task(10, "TaskKilled"))[:-5])

    assert QueryEvents(path, len(old), "mine").failed_tasks() == {}


def test_job_ended_is_true_once_a_job_of_the_batch_has_ended(log):
    path = log(job(1, "mine", 4, 10), {"Event": "SparkListenerJobEnd", "Job ID": 1}, job(2, "mine", 5, 11))
    events = QueryEvents(path, 0, "mine")

    assert events.job_ended(4)
    assert not events.job_ended(5)


def test_the_excerpt_has_the_lines_of_this_query_and_of_executors(log):
    lost = {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"}
    mine = [job(1, "mine", 4, 10), task(10, "Success"), lost]
    path = log(mine[0], job(2, "theirs", 4, 11), task(11, "Success"), mine[1], lost)

    assert [json.loads(line) for line in QueryEvents(path, 0, "mine").excerpt()] == json.loads(
        json.dumps(mine)
    )


def test_progress_reports_are_those_of_the_query(log):
    name = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    reports = [{"id": query, "batchId": batch} for query, batch in (("mine", 0), ("theirs", 0), ("mine", 1))]
    path = log(*({"Event": name, "progress": report} for report in reports))

    assert list(QueryEvents(path, 0, "mine").progress()) == [reports[0], reports[2]]


def join_job(number, batch, *stages):
    """A job whose last stage is the join's."""
    infos = [{"Stage ID": stage, "RDD Info": [{"Scope": '{"name":"Exchange"}'}]} for stage in stages]
    infos[-1]["RDD Info"].append({"Scope": '{"id":"7","name":"StreamingSymmetricHashJoin"}'})
    return {**job(number, "mine", batch, *stages), "Stage Infos": infos}


def ran(stage, partition, executor, reason="Success"):
    info = {"Index": partition, "Partition ID": partition, "Executor ID": executor}
    return {**task(stage, reason), "Task Info": info}


def test_a_state_partition_is_assigned_to_the_executor_of_its_last_successful_task(log):
    gone = {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"}
    path = log(
        join_job(1, 4, 10, 11),
        ran(10, 0, "9"), ran(11, 0, "1"), ran(11, 1, "0", "ExecutorLostFailure"), gone, ran(11, 1, "2"),
        join_job(2, 5, 12), ran(12, 0, "2"),
    )  # fmt: skip
    events = QueryEvents(path, 0, "mine")

    assert list(events.executor_assignments(1)) == [
        ExecutorAssignment(batch=4, executors={"0": "1", "1": "2"}, lost=["1"]),
        ExecutorAssignment(batch=5, executors={"0": "2"}),
    ]
    assert [executor_assignment.executors for executor_assignment in events.executor_assignments(2)] == [
        {"0": "2:1", "1": "2:2"},
        {"0": "2:2"},
    ]


def test_lines_of_a_later_run_on_the_same_driver_are_not_read(log):
    path = log(
        job(1, "mine", 4, 10), task(10, "ExceptionFailure"), job(2, "mine", 4, 11), task(11, "TaskKilled")
    )
    lines = path.read_bytes().splitlines(keepends=True)
    between = len(b"".join(lines[:2]))

    assert QueryEvents(path, 0, "mine", between).failed_tasks() == {4: 1}
    assert QueryEvents(path, between, "mine").failed_tasks() == {4: 1}
    assert QueryEvents(path, 0, "mine").failed_tasks() == {4: 2}
