"""A second driver that is ready before it is needed: when it is started, when it is taken, and when it is not."""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from tidemark.errors import TestbedError
from tidemark.runner.log_files import keep_logs
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.runner.query_runs import Query
from tidemark.runner.standby import standby_of
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver
from tidemark.waiting import wait_until

SOON_S = 30.0
CODE = PipelineCode("left_outer")


def until(condition, what):
    wait_until(condition, SOON_S, lambda: what)


class Stack:
    """A stack that starts drivers, says so, and whose drivers are dead or not. ``holds`` lets none begin to serve."""

    def __init__(self, folder, *, holds=False, may_start=True):
        self.state_dir, self.dead, self.said = folder, set(), []
        self.may_start, self.killed, self.waits = may_start, threading.Event(), holds

    def work_dir(self, name):
        return self.state_dir / name

    def start_driver(self, name, _conf):
        self.said.append(f"begin {name}")
        if self.waits and not self.killed.wait(SOON_S):
            raise AssertionError(f"{name} was never killed")
        if self.waits or not self.may_start:
            raise TestbedError(f"the {name} died while starting", hint="see its log")
        return self.driver(name)

    def kill(self, name):
        self.said.append(f"kill {name}")
        self.killed.set()

    def stop(self, name):
        self.said.append(f"stop {name}")

    def driver(self, name):
        if name in self.dead:
            raise TestbedError(f"{name} does not run")
        lives = self.said.count(f"start {name}")
        return Driver(name, f"sc://{name}", f"app-{name}-{lives}", None)

    def start(self, name, *, warm):
        assert not warm
        self.said.append(f"start {name}")
        self.dead.discard(name)

    def register_session(self, _session, _name):
        return nullcontext()


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path)


def test_a_standby_is_started_once_it_may_and_is_taken_once(stack):
    may = threading.Event()
    with standby_of(stack, "run-1", CODE) as standby:
        assert standby.take() is None
        standby.prepare(may.is_set)
        assert not standby.is_settled()
        may.set()
        until(standby.is_settled, "the standby")
        assert standby.take().name == "run-1-standby-1"
        assert standby.take() is None
        standby.prepare(may.is_set)
        standby.prepare(may.is_set)  # one is on its way
        until(standby.is_settled, "the next standby")
        assert stack.said == ["begin run-1-standby-1", "begin run-1-standby-2"]
    assert stack.said[2:] == ["stop run-1-standby-2", "stop run-1-standby-1"]


def test_a_standby_that_was_never_due_is_not_started_at_the_end(stack):
    with standby_of(stack, "run-1", CODE) as standby:
        standby.prepare(lambda: False)
    assert stack.said == []
    assert standby.failures() == []


def test_a_standby_that_is_being_started_at_the_end_is_killed(tmp_path):
    stack = Stack(tmp_path, holds=True)
    with standby_of(stack, "run-1", CODE) as standby:
        standby.prepare(lambda: True)
        until(lambda: stack.said, "its start")
    assert set(stack.said[1:]) == {"kill run-1-standby-1"}
    assert standby.is_settled()


def test_a_standby_that_cannot_be_started_is_noted_and_the_next_one_is_tried(tmp_path):
    stack = Stack(tmp_path, may_start=False)
    with standby_of(stack, "run-1", CODE) as standby:
        standby.prepare(lambda: True)
        until(standby.is_settled, "the failure")
        assert standby.failures() == ["the run-1-standby-1 died while starting"]
        assert standby.take() is None
        stack.may_start = True
        standby.prepare(lambda: True)
        until(standby.is_settled, "the next standby")
        assert standby.take().name == "run-1-standby-2"
        assert standby.failures() == ["the run-1-standby-1 died while starting"]


def test_a_standby_that_has_died_or_was_started_again_is_not_taken(stack):
    with standby_of(stack, "run-1", CODE) as standby:
        standby.prepare(lambda: True)
        until(standby.is_settled, "the standby")
        stack.dead.add("run-1-standby-1")
        assert standby.take() is None
        standby.prepare(lambda: True)
        until(standby.is_settled, "the next standby")
        stack.start("run-1-standby-2", warm=False)
        assert standby.take() is None
        assert standby.failures() == [
            "run-1-standby-1 does not run", "run-1-standby-2 was started again by somebody else",
        ]  # fmt: skip


class Program:
    """A program that starts the query on whatever driver it was given."""

    has_ended = False

    def __init__(self, driver):
        self.driver = driver

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        pass

    def kill(self):
        pass

    def ask(self, command, _timeout_s, *, unless):
        unless()
        return {"query_id": "q-1", "app_id": self.driver.app_id, "asked": command}


@contextmanager
def query(stack, standby):
    """A query that has begun; its checkpoint has batch 0, committed."""
    for name in ("offsets", "commits"):
        (stack.state_dir / "checkpoint" / name).mkdir(parents=True)
        (stack.state_dir / "checkpoint" / name / "0").write_text("v1\n{}")
    checkpoint = Checkpoint(stack.state_dir / "checkpoint")
    begun = Query(stack, stack.driver("own"), checkpoint, lambda driver, _session: Program(driver))
    begun.standby = standby
    with begun:
        begun.start()
        yield begun


def do_batch(stack, batch):
    for name in ("offsets", "commits"):
        (stack.state_dir / "checkpoint" / name / str(batch)).write_text("v1\n{}")


def lose_driver(stack, standby, begun, *others):
    """The query's driver dies, with others, when its standby is ready; the query is asked for its status then."""
    do_batch(stack, 1)
    until(standby.is_settled, "the standby")
    stack.dead |= {"own", *others}
    begun.ask("status", 1.0)


def test_a_query_goes_on_on_its_standby_and_the_next_is_started_after_a_batch(stack):
    with standby_of(stack, "run-1", CODE) as standby, query(stack, standby) as begun:
        lose_driver(stack, standby, begun)
        assert [run.driver.name for run in begun.runs] == ["own", "run-1-standby-1"]
        assert begun.driver_name == "run-1-standby-1"
        assert begun.runs[-1].first_batch == 2
        with pytest.raises(TestbedError):  # not before the query has committed a batch there
            wait_until(standby.is_settled, 0.5, lambda: "a standby too early")
        do_batch(stack, 2)
        until(standby.is_settled, "the next standby")
        assert stack.said == ["begin run-1-standby-1", "begin run-1-standby-2"]


def test_a_driver_that_dies_before_its_standby_is_ready_is_started_again(stack):
    with standby_of(stack, "run-1", CODE) as standby, query(stack, standby) as begun:
        stack.dead.add("own")
        begun.ask("status", 1.0)
        assert [run.driver.app_id for run in begun.runs] == ["app-own-0", "app-own-1"]
    assert stack.said == ["start own"]


def test_a_standby_that_dies_in_its_first_batch_is_started_again(stack):
    with standby_of(stack, "run-1", CODE) as standby, query(stack, standby) as begun:
        lose_driver(stack, standby, begun)
        stack.dead.add("run-1-standby-1")
        begun.ask("status", 1.0)
        assert [run.driver.app_id for run in begun.runs[1:]] == [
            "app-run-1-standby-1-0", "app-run-1-standby-1-1",
        ]  # fmt: skip
        assert stack.said == ["begin run-1-standby-1", "start run-1-standby-1"]


def test_a_dead_standby_leaves_the_driver_to_be_started_again(stack):
    with standby_of(stack, "run-1", CODE) as standby, query(stack, standby) as begun:
        lose_driver(stack, standby, begun, "run-1-standby-1")
        assert begun.driver_name == "own"
        assert stack.said == ["begin run-1-standby-1", "start own"]


def test_a_query_without_a_standby_has_its_driver_started_again(stack):
    with query(stack, None) as begun:
        stack.dead.add("own")
        begun.ask("status", 1.0)
        assert (begun.driver_name, stack.said) == ("own", ["start own"])


def test_logs_of_a_driver_and_of_its_standby_are_kept_under_two_names(tmp_path):
    lives = [Driver(name, "", f"app-{name}", None) for name in ("own", "own", "standby")]
    stack = SimpleNamespace(
        state_dir=tmp_path, components=lambda _kind: [], logs=lambda name, _lines: f"log of {name}"
    )
    keep_logs(stack, lives, tmp_path)
    assert (tmp_path / "driver.log").read_text() == "log of own"
    assert (tmp_path / "driver-2.log").read_text() == "log of standby"


def test_whatever_keeps_a_standby_from_starting_it_is_said_and_not_raised(stack, monkeypatch):
    def has_no_memory(_name, _conf):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(stack, "start_driver", has_no_memory)
    with standby_of(stack, "run-1", CODE) as standby:
        standby.prepare(lambda: True)
        until(standby.is_settled, "the failure")
        assert standby.failures() == ["OSError: [Errno 12] Cannot allocate memory"]
        assert standby.take() is None
        assert standby.failures() == ["OSError: [Errno 12] Cannot allocate memory"]
