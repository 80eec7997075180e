"""A query that commits nothing more hangs; one that is slow, or failed, does not."""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.runner.test_checkpoint import commit, plan
from tidemark.errors import DeadlineExceeded, PipelineFailed, QueryHung
from tidemark.runner.hung_query import hang_of, keep_stacks
from tidemark.runner.pace import LAST_READ, Feed
from tidemark.sparkfiles.checkpoint import Checkpoint

ENDS = {"left": {"0": 4}}


class Query:
    """It answers each question by a function."""

    def __init__(self, answer):
        self.answer = answer

    def ask(self, command, _timeout_s):
        return self.answer(command)

    def suspended(self):
        return nullcontext(True)

    def began_after(self, _batch):
        return False


def busy(_command):
    return {"isTriggerActive": True, "message": "Processing new data"}


def feed(folder, answer=busy, **more):
    return Feed(Query(answer), Checkpoint(folder), lambda: ENDS, hung_after_s=0.2, **more)


def error_of(told: Feed) -> QueryHung:
    with pytest.raises(QueryHung) as raised:
        told.wait_until_read()
    return raised.value


def test_a_query_that_commits_no_batch_with_the_last_record_hung(tmp_path):
    plan(tmp_path, 0, 0, '{"left":{"0":4}}')

    error = error_of(feed(tmp_path))

    assert error.message == f"the query committed nothing more: timed out after 0.2 s waiting for {LAST_READ}"
    assert (error.waited_for, error.is_answering) == (LAST_READ, True)
    assert "planned [0], committed []" in error.detail
    assert "Processing new data" in error.detail


def test_a_query_that_goes_on_committing_is_waited_for(tmp_path):
    plan(tmp_path, 0, 0, '{"left":{"0":1}}')
    asked = []

    def answer(command):
        asked.append(command)
        commit(tmp_path, 0, 0)
        if len(asked) > 1:
            plan(tmp_path, 1, 0, '{"left":{"0":4}}')
            commit(tmp_path, 1, 0)
        return busy(command)

    assert feed(tmp_path, answer).wait_until_read().batch == 1


def test_a_query_that_is_never_idle_hung_and_one_that_failed_did_not(tmp_path):
    with pytest.raises(QueryHung) as raised:
        feed(tmp_path).publish_one_batch(lambda: pytest.fail("it was not idle"))
    assert raised.value.waited_for == "the query to be idle"

    def failed(_command):
        raise PipelineFailed("it failed")

    with pytest.raises(PipelineFailed):
        feed(tmp_path, failed).publish_one_batch(lambda: None)


def test_a_driver_that_does_not_start_in_time_is_no_hang(tmp_path):
    def answer(_command):
        raise DeadlineExceeded("the driver is not up")

    with pytest.raises(DeadlineExceeded) as raised:
        feed(tmp_path, answer).publish_one_batch(lambda: None)
    assert not isinstance(raised.value, QueryHung)


def test_a_hang_has_its_last_commit_and_what_was_planned_since(tmp_path):
    for batch in (0, 1):
        plan(tmp_path, batch, 0, '{"left":{"0":1}}')
    commit(tmp_path, 0, 0)
    now = datetime.now(UTC)
    os.utime(tmp_path / "commits" / "0", ns=(0, int((now - timedelta(seconds=60)).timestamp()) * 10**9))
    error = QueryHung("a batch", 30.0, hint="none")

    hang = hang_of(error, Checkpoint(tmp_path), now, 30.0)

    assert hang is not None
    assert (hang.committed, hang.planned, hang.waited_for) == (0, 1, "a batch")
    gone = datetime.fromisoformat(hang.seen_utc) - datetime.fromisoformat(hang.since_utc)
    assert timedelta(seconds=59) < gone < timedelta(seconds=120)
    assert hang_of(error, Checkpoint(tmp_path), now, 600.0) is None, "it has committed since"


def test_a_query_that_never_committed_hung_since_its_start(tmp_path):
    started = datetime.now(UTC) - timedelta(seconds=90)

    hang = hang_of(QueryHung("a batch", 30.0, hint="none"), Checkpoint(tmp_path), started, 30.0)

    assert hang is not None
    assert datetime.fromisoformat(hang.since_utc) == started.replace(
        microsecond=started.microsecond // 1000 * 1000
    )
    assert "none was ever committed" in hang.said()


def test_thread_stacks_are_files_and_what_fails_is_said(tmp_path):
    class Stack:
        def thread_stacks(self, driver):
            if driver == "gone":
                raise DeadlineExceeded("the driver does not run")
            return {"driver": "Full thread dump", "executor-0": "no thread stacks: it is suspended"}

    assert keep_stacks(Stack(), "driver", tmp_path) == (["stacks/driver.txt", "stacks/executor-0.txt"], "")
    assert (tmp_path / "stacks" / "executor-0.txt").read_text().endswith("suspended")
    files, failed = keep_stacks(Stack(), "gone", tmp_path)
    assert (files, failed) == ([], "the thread stacks could not be collected: the driver does not run")
