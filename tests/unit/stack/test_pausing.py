from __future__ import annotations

import pytest

from tidemark.errors import DaemonDied
from tidemark.process import ProcessId, end
from tidemark.stack.pausing import held, pause_process, resume_process, resume_the_abandoned
from tidemark.stack.state import Stopped
from tidemark.wait import wait_until


@pytest.fixture
def target(state, sleeper) -> ProcessId:
    state.make()
    return sleeper()


def test_a_paused_process_goes_on_when_resumed(state, target):
    pause_process(state, target, "x")
    assert target.paused
    resume_process(state, target, "x")
    wait_until(lambda: not target.paused, 5, lambda: "the resume")


def test_a_held_process_stands_still_in_the_block_only(state, target):
    with held(state, target, "driver"):
        assert target.paused
    wait_until(lambda: not target.paused, 5, lambda: "the resume")
    assert state.records("stopped", Stopped) == []


def test_a_hold_does_not_resume_what_somebody_paused(state, target):
    pause_process(state, target, "part-driver")
    with held(state, target, "driver"):
        pass
    assert target.paused


def test_what_a_dead_process_paused_is_resumed(state, target, sleeper):
    owner = sleeper()
    pause_process(state, target, "x")
    state.add("stopped", Stopped(target, owner), "x")
    resume_the_abandoned(state)
    assert target.paused
    end([owner], ask_s=0)
    resume_the_abandoned(state)
    wait_until(lambda: not target.paused, 5, lambda: "the resume")


def test_a_process_that_is_gone_cannot_be_paused(state, target):
    end([target], ask_s=0)
    with pytest.raises(DaemonDied, match="driver"):
        pause_process(state, target, "driver")
    assert state.records("stopped", Stopped) == []
