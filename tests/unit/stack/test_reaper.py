"""The reaper without a container engine: it logs an error once, and gives up in the end."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from tidemark.errors import ContainerEngineError, DeadlineExceeded
from tidemark.processes import ProcessId, base_environment, end, spawn, tail
from tidemark.stack import reaper
from tidemark.stack.reaper import Attempts, watch
from tidemark.stack.registry import Lease, Stopped, Target
from tidemark.waiting import wait_until


@pytest.fixture
def no_engine(tmp_path, monkeypatch):
    """There is no container engine, and a stack in containers."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    return f"unix://{tmp_path}/engine.sock"


@pytest.fixture
def containers(state, stack_record, sleeper):
    """The state of a stack in containers, one of which was paused by a process that is dead."""
    token = state.make("compose")
    stack_record.backend, stack_record.ready = "compose", True
    state.write(stack_record)
    dead = sleeper()
    end([dead], ask_s=0)
    state.add("stopped", Stopped(Target(container="tidemark-x-broker"), dead), "component-broker")
    return token


def test_a_reaper_without_a_container_engine_logs_that_once(no_engine, containers, state, tmp_path):
    state.add("leases", Lease(ProcessId.own()), "ours")
    log = tmp_path / "reaper.log"
    process = spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.reaper", str(state.home), containers],
        log=log,
        cwd=tmp_path,
        env=base_environment(DOCKER_HOST=no_engine, PYTHONPATH=":".join(sys.path)),
    )
    try:
        wait_until(lambda: tail(log), 20, lambda: "the reaper to log something")
        with pytest.raises(DeadlineExceeded, match="more lines"):
            wait_until(lambda: len(tail(log, 100).splitlines()) > 6, 4, lambda: "more lines")
        assert process.alive
    finally:
        end([process], ask_s=0)
    assert tail(log).count("no container engine can be reached") == 1
    assert "Traceback" not in tail(log)


def test_the_reaper_gives_up_a_stack_that_it_cannot_end(no_engine, containers, state, capsys, monkeypatch):
    monkeypatch.setattr(reaper, "POLL_S", 0.05)
    assert no_engine

    watch(state, containers, give_up_s=1.0)

    log = capsys.readouterr().out
    assert log.count("ending the unused stack: failed") == 1
    assert log.rstrip().endswith("`tidemark down` ends it")
    assert state.token() == containers, "a stack that could not be ended can still be found"


def test_the_reaper_gives_up_containers_of_a_deleted_folder_that_it_cannot_remove(
    no_engine, containers, state, capsys, monkeypatch
):
    monkeypatch.setattr(reaper, "POLL_S", 0.05)
    assert no_engine

    (state.path / "token").unlink()
    (state.path / "backend").write_text("compose")
    watch(state, containers, give_up_s=0.3)

    log = capsys.readouterr().out
    assert log.count("failed") == 1
    assert "the next start in this project removes them" in log


def test_the_pause_doubles_while_a_task_fails(monkeypatch):
    now, tried = [100.0], []
    monkeypatch.setattr(reaper.time, "monotonic", lambda: now[0])
    attempts = Attempts("a task")

    def fails():
        tried.append(now[0])
        raise ContainerEngineError("down")

    while now[0] < 160.0:
        attempts.make(fails)
        now[0] += 0.5
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses[:5] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert set(pauses[5:]) == {reaper.LONGEST_PAUSE_S}
    assert attempts.failing_for_s == now[0] - 100.0


def test_a_recovered_task_is_logged_and_runs_at_once_again(capsys):
    attempts = Attempts("a task")

    def fails():
        raise ContainerEngineError("down")

    assert not attempts.make(fails)
    attempts._due = 0.0
    assert attempts.make(lambda: None)
    assert attempts.make(lambda: None)
    assert attempts.failing_for_s == 0.0
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "a task: failed",
        "a task: succeeded after failing for 0 s",
    ]


def test_the_log_of_differing_failures_is_limited(capsys):
    attempts = Attempts("a task")
    for number in range(10 * reaper.MOST_MESSAGES):

        def fails(number=number):
            raise ContainerEngineError(f"failure {number}")

        attempts._due = 0.0
        attempts.make(fails)
    assert capsys.readouterr().out.count("a task: failed") == reaper.MOST_MESSAGES
