"""A second driver that is ready before it is needed: when it is started, when it is taken, and when it is not."""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from tidemark.errors import TestbedError
from tidemark.runner.query_runs import Query
from tidemark.runner.standby import Standby
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver
from tidemark.waiting import wait_until

SOON_S = 30.0


class Drivers:
    """Starts drivers, and says which were started and ended."""

    def __init__(self, *, may_start=True):
        self.said, self.may_start = [], may_start

    @contextmanager
    def start(self, name):
        self.said.append(f"start {name}")
        if not self.may_start:
            raise TestbedError("the driver died while starting", hint="see its log")
        yield Driver(name, f"sc://{name}", f"app-{name}", None)
        self.said.append(f"end {name}")


def until(condition, what):
    wait_until(condition, SOON_S, lambda: what)


def test_a_standby_is_started_once_it_may_and_is_taken_once():
    drivers, may = Drivers(), threading.Event()
    with Standby("run-1", drivers.start) as standby:
        assert standby.take() is None
        standby.prepare(may.is_set)
        assert not standby.is_ready()
        assert drivers.said == []
        may.set()
        until(standby.is_ready, "the standby")
        assert standby.take().name == "run-1-standby-1"
        assert standby.take() is None
        standby.prepare(may.is_set)
        standby.prepare(may.is_set)  # one is on its way
        until(standby.is_ready, "the next standby")
        assert drivers.said == ["start run-1-standby-1", "start run-1-standby-2"]
    assert drivers.said[2:] == ["end run-1-standby-2", "end run-1-standby-1"]


def test_a_standby_that_was_never_due_is_not_started_at_the_end():
    drivers = Drivers()
    with Standby("run-1", drivers.start) as standby:
        standby.prepare(lambda: False)
    assert drivers.said == []


def test_a_standby_that_cannot_be_started_is_an_error_of_the_run():
    drivers = Drivers(may_start=False)

    def taken():
        try:
            return standby.take()
        except TestbedError as error:
            return error

    with Standby("run-1", drivers.start) as standby:
        standby.prepare(lambda: True)
        until(taken, "the error")
        with pytest.raises(TestbedError, match="died while starting"):
            standby.is_ready()


class Stack:
    """A stack whose drivers die by the name."""

    def __init__(self, folder):
        self.state_dir, self.dead, self.started = folder, set(), []

    def driver(self, name):
        if name in self.dead:
            raise TestbedError(f"{name} does not run")
        return Driver(name, f"sc://{name}", f"app-{name}-{self.started.count(name)}", None)

    def start(self, name, *, warm):
        assert not warm
        self.started.append(name)
        self.dead.discard(name)

    def register_session(self, _session, _name):
        return nullcontext()


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path)


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


def commit(stack, batch):
    (stack.state_dir / "checkpoint" / "commits" / str(batch)).write_text("v1\n{}")


def test_a_query_goes_on_on_its_standby_and_the_next_is_started_after_a_batch(stack):
    drivers = Drivers()
    with Standby("run-1", drivers.start) as standby, query(stack, standby) as begun:
        assert begun.driver_name == "own"
        commit(stack, begun.runs[-1].first_batch)
        until(standby.is_ready, "the standby")
        stack.dead.add("own")
        begun.ask("status", 1.0)
        assert [run.driver.name for run in begun.runs] == ["own", "run-1-standby-1"]
        assert begun.driver_name == "run-1-standby-1"
        assert stack.started == []
        assert not standby.is_ready()  # not before the query has committed a batch there
        (stack.state_dir / "checkpoint" / "offsets" / "1").write_text("v1\n{}")
        commit(stack, begun.runs[-1].first_batch)
        until(standby.is_ready, "the next standby")
        assert drivers.said == ["start run-1-standby-1", "start run-1-standby-2"]


def test_a_driver_that_dies_before_its_standby_is_ready_is_started_again(stack):
    drivers = Drivers()
    with Standby("run-1", drivers.start) as standby, query(stack, standby) as begun:
        stack.dead.add("own")
        begun.ask("status", 1.0)
        assert [run.driver.app_id for run in begun.runs] == ["app-own-0", "app-own-1"]
        assert stack.started == ["own"]
    assert drivers.said == []


def test_a_query_without_a_standby_has_its_driver_started_again(stack):
    with query(stack, None) as begun:
        stack.dead.add("own")
        begun.ask("status", 1.0)
        assert (begun.driver_name, stack.started) == ("own", ["own"])


def test_logs_of_a_driver_and_of_its_standby_are_kept_under_two_names(tmp_path):
    from tidemark.runner.log_files import keep_logs

    lives = [Driver(name, "", f"app-{name}", None) for name in ("own", "own", "standby")]
    stack = SimpleNamespace(
        state_dir=tmp_path, components=lambda _kind: [], logs=lambda name, _lines: f"log of {name}"
    )
    keep_logs(stack, lives, tmp_path)
    assert (tmp_path / "driver.log").read_text() == "log of own"
    assert (tmp_path / "driver-2.log").read_text() == "log of standby"
