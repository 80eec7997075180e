"""A user's job as the query of a run: started again after a kill, given up if it fails each time, and what is said."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext

import pytest

from tests.unit.preflight.test_event_plans import QUERY, log, started, tree
from tidemark.errors import PipelineFailed, StartHung, TestbedError
from tidemark.runner.app_jobs import ClassicJob, ConnectJob
from tidemark.runner.app_query import AppQuery
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver

MAX = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}
FAILED = """\
26/01/01 12:00:00 WARN something
Traceback (most recent call last):
  File "<frozen runpy>", line 88, in _run_code
  File "{folder}/adteam/job.py", line 7, in main
    query.awaitTermination()
  File "{folder}/.venv/lib/python3.11/site-packages/pyspark/sql/streaming/query.py", line 227, in awaitTermination
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated with exception
ValueError: 'n/a' is no number
26/01/01 12:00:01 INFO the end
"""


class MadeUpStack:
    """A stack with one job: whether it lives, and its log; each start plans the next batch unless it ``fails``."""

    def __init__(self, folder, *, fails=False):
        self.state_dir = folder
        self.checkpoint = folder / "checkpoint"
        self.lives, self.log, self.fails, self.starts = False, "", fails, 0
        self.plans = True

    def start(self, _name="job", **_options):
        self.starts += 1
        (self.state_dir / "event-logs" / "job").mkdir(parents=True, exist_ok=True)
        (self.state_dir / "event-logs" / "job" / f"app-{self.starts}").touch()
        if self.fails:
            self.die(FAILED.format(folder=self.state_dir))
            return
        self.lives = True
        if not self.plans:
            self.log += "connecting to the source"
            return
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
            (self.checkpoint / name / str(self.starts - 1)).touch()
        (self.checkpoint / "metadata").write_text('{"id": "q"}')

    def start_app(self, _name, _words, _environment, _cwd):
        self.start()

    def die(self, said=""):
        self.lives, self.log = False, self.log + said

    def driver(self, name):
        if not self.lives:
            raise TestbedError("it does not run", hint="start it")
        return Driver(name, "", f"process-{self.starts}", None)

    def logs(self, _name, _lines):
        return self.log

    def suspended(self, _name):
        return nullcontext()

    def kill(self, _name):
        self.lives = False

    stop = kill


@pytest.fixture
def made(tmp_path):
    def make(*, again=False, fails=False):
        stack = MadeUpStack(tmp_path, fails=fails)
        log = tmp_path / "app.log"
        job = ClassicJob(stack, "job", [], {}, log)
        return stack, AppQuery(stack, Checkpoint(stack.checkpoint), job, log, again=again)

    return make


def test_a_job_that_was_killed_is_started_again_and_each_run_has_its_event_log(made, tmp_path):
    stack, query = made(again=True)
    with query:
        query.start()
        stack.die()
        assert query.ask("status", 1.0)["isTriggerActive"] is False
        assert query.ask("stop", 1.0)["progress"] == []

    assert (query.query_id, stack.starts, query.failures) == ("q", 2, [])
    assert [run.first_batch for run in query.runs] == [0, 1]
    assert [run.driver.app_id for run in query.runs] == ["app-1", "app-2"]
    assert (tmp_path / "app.log").is_file()


def test_the_plan_of_a_job_is_that_of_its_last_event_log_with_a_batch(made):
    stack, query = made(again=True)
    with query:
        query.start()
        query.query_id = QUERY
        assert query.ask("explain", 1.0)["plan"] == ""
        log(stack.state_dir / "event-logs" / "job" / "app-1", started(tree("inner")))
        (stack.state_dir / "event-logs" / "job" / "app-2").touch()
        planned = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": MAX}
        (stack.checkpoint / "offsets" / "0").write_text(f"v1\n{json.dumps(planned)}\n")
        answer = query.ask("explain", 1.0)

    assert answer["plan"].startswith("== Physical Plan ==\n")
    assert "StreamingSymmetricHashJoin" in answer["plan"]
    assert answer["policy"] == "max"


def test_the_policy_of_a_job_that_deletes_old_batches_is_that_of_its_last_one(made):
    stack, query = made()
    with query:
        query.start()
        (stack.checkpoint / "offsets" / "0").unlink()
        planned = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": MAX}
        (stack.checkpoint / "offsets" / "11").write_text(f"v1\n{json.dumps(planned)}\n")
        answer = query.ask("explain", 1.0)

    assert answer["policy"] == "max"


def test_a_job_that_failed_by_itself_is_noted_once(made, tmp_path):
    stack, query = made(again=True)
    with query:
        query.start()
        stack.die(FAILED.format(folder=tmp_path))
        query.ask("status", 1.0)
        stack.die()
        query.ask("status", 1.0)

    assert query.failures == ["the job ended: ValueError: 'n/a' is no number"]
    assert stack.starts == 3


def test_without_faults_a_job_that_ends_is_an_error_with_its_place(made, tmp_path):
    stack, query = made()
    with query:
        query.start()
        stack.die(FAILED.format(folder=tmp_path))
        with pytest.raises(PipelineFailed, match="the job ended: ValueError: 'n/a' is no number") as failed:
            query.ask("status", 1.0)

    assert failed.value.detail == f"{tmp_path}/adteam/job.py:7 in main"
    assert "app.log" in failed.value.hint


def test_a_job_that_fails_at_its_start_is_an_error_and_its_log_is_kept(made, tmp_path):
    _, query = made(fails=True)
    with query, pytest.raises(PipelineFailed, match="ValueError"):
        query.start()

    assert "ValueError" in (tmp_path / "app.log").read_text()


def test_a_job_that_says_nothing_is_said_to(made):
    stack, query = made()
    with query:
        query.start()
        stack.die()
        with pytest.raises(PipelineFailed, match="it said nothing"):
            query.ask("status", 1.0)


def test_a_job_that_never_commits_is_given_up(made):
    stack, query = made(again=True)
    with query:
        query.start()
        stack.fails = True
        stack.die()
        with pytest.raises(PipelineFailed, match="ValueError"):
            query.ask("status", 1.0)

    assert stack.starts < 10


@pytest.mark.parametrize("is_started", [False, True])
def test_a_job_that_lives_and_plans_no_batch_hung_in_its_start(made, is_started):
    stack, query = made(again=True)
    query.start_s = 0.1
    with query:
        if is_started:
            query.start()
            stack.die()
        stack.plans = False
        with pytest.raises(StartHung) as raised:
            query.ask("status", 1.0) if is_started else query.start()

    error = raised.value
    assert error.waited_for == f"the job to plan batch {int(is_started)}"
    assert "connecting to the source" in error.detail
    assert error.is_answering, "it can be ended"


BATCH = """mkdir -p {checkpoint}/offsets {checkpoint}/commits
number=$(ls {checkpoint}/commits | wc -l)
echo batch $number
echo '{{"id": "q"}}' > {checkpoint}/metadata
touch {checkpoint}/offsets/$number {checkpoint}/commits/$number
exec sleep 600
"""


class OneDriver:
    """A stack with one driver, which may die and be started again."""

    def __init__(self, folder):
        self.state_dir, self.number, self.lives = folder, 1, True
        self._make_log()

    def _make_log(self):
        log = self.state_dir / "event-logs" / "mine" / f"app-{self.number}"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("x" * 100)
        os.utime(log, (self.number, self.number))

    def start(self, _name, *, warm):
        assert not warm
        if not self.lives:
            self.number, self.lives = self.number + 1, True
            self._make_log()

    def driver(self, name):
        if not self.lives:
            raise TestbedError("it does not run", hint="start it")
        folder = self.state_dir / "event-logs" / "mine"
        return Driver(name, "sc://here:1", f"app-{self.number}", folder / f"app-{self.number}")


@pytest.fixture
def connected(tmp_path):
    stack, log, checkpoint = OneDriver(tmp_path), tmp_path / "app.log", tmp_path / "checkpoint"
    words = ["sh", "-c", BATCH.format(checkpoint=checkpoint)]
    job = ConnectJob(stack, stack.driver("mine"), words, {"PATH": os.environ["PATH"]}, log)
    return stack, job, AppQuery(stack, Checkpoint(checkpoint), job, log, again=True)


def test_a_connect_program_is_started_again_with_its_driver_and_ends_with_the_run(connected, tmp_path):
    stack, job, query = connected
    with query:
        query.start()
        stack.lives = False
        assert query.ask("status", 1.0)["event"] == "status"
        assert stack.lives
        living = job.driver()
    assert (query.driver_name, living.app_id, query.query_id) == ("mine", "app-2", "q")
    assert [(run.driver.app_id, run.first_batch, run.log_start) for run in query.runs] == [
        ("app-1", 0, 100),
        ("app-2", 1, 100),
    ]
    assert (tmp_path / "app.log").read_text() == "batch 0\nbatch 1\n"
    with pytest.raises(TestbedError, match="the job has ended"):
        job.driver()


def test_a_connect_program_that_ends_is_started_again_on_the_driver_that_lives(connected):
    stack, job, query = connected
    with query:
        query.start()
        job.kill()
        query.ask("status", 1.0)

    assert [run.driver.app_id for run in query.runs] == ["app-1", "app-1"]
    assert stack.number == 1
