"""What the reaper does where the container engine is down: bounded words, and an end."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from tidemark.errors import ContainerEngineError, DeadlineExceeded
from tidemark.processes import ProcessId, base_environment, end, spawn, tail
from tidemark.stack import reaper
from tidemark.stack.reaper import Attempts, keep
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
    state.add("stopped", Stopped(Target(container="tidemark-x-broker"), dead), "part-broker")
    return token


def test_a_keeper_without_an_engine_says_so_once(no_engine, containers, state, tmp_path):
    state.add("leases", Lease(ProcessId.own()), "ours")
    log = tmp_path / "reaper.log"
    process = spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.reaper", str(state.home), containers],
        log=log,
        cwd=tmp_path,
        env=base_environment(DOCKER_HOST=no_engine, PYTHONPATH=":".join(sys.path)),
    )
    try:
        wait_until(lambda: tail(log), 20, lambda: "the reaper to say something")
        with pytest.raises(DeadlineExceeded, match="more words"):
            wait_until(lambda: len(tail(log, 100).splitlines()) > 6, 4, lambda: "more words")
        assert process.alive
    finally:
        end([process], ask_s=0)
    assert tail(log).count("no container engine answers") == 1
    assert "Traceback" not in tail(log)


def test_a_stack_that_cannot_be_ended_is_left_after_a_while(
    no_engine, containers, state, capsys, monkeypatch
):
    monkeypatch.setattr(reaper, "LOOK_S", 0.05)
    assert no_engine

    keep(state, containers, give_up_s=1.0)

    said = capsys.readouterr().out
    assert said.count("ending the stack, which nobody needs, failed") == 1
    assert said.rstrip().endswith("`tidemark down` ends it")
    assert state.token() == containers, "what could not be ended can be found"


def test_containers_of_a_folder_that_is_gone_are_given_up_too(
    no_engine, containers, state, capsys, monkeypatch
):
    monkeypatch.setattr(reaper, "LOOK_S", 0.05)
    assert no_engine

    (state.path / "token").unlink()
    (state.path / "backend").write_text("compose")
    keep(state, containers, give_up_s=0.3)

    said = capsys.readouterr().out
    assert said.count("failed") == 1
    assert "the next start in this project removes them" in said


def test_what_fails_is_tried_ever_less_often(monkeypatch):
    now, tried = [100.0], []
    monkeypatch.setattr(reaper.time, "monotonic", lambda: now[0])
    attempts = Attempts("a duty")

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


def test_what_works_again_is_said_and_done_at_once_the_next_time(capsys):
    attempts = Attempts("a duty")

    def fails():
        raise ContainerEngineError("down")

    assert not attempts.make(fails)
    attempts._due = 0.0
    assert attempts.make(lambda: None)
    assert attempts.make(lambda: None)
    assert attempts.failing_for_s == 0.0
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "a duty failed",
        "a duty: done",
    ]


def test_failures_that_each_say_something_new_do_not_fill_a_disk(capsys):
    attempts = Attempts("a duty")
    for number in range(10 * reaper.MOST_MESSAGES):

        def fails(number=number):
            raise ContainerEngineError(f"failure {number}")

        attempts._due = 0.0
        attempts.make(fails)
    assert capsys.readouterr().out.count("a duty failed") == reaper.MOST_MESSAGES
