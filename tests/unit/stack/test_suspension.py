from __future__ import annotations

import pytest

from tidemark.errors import ContainerEngineError, DaemonDied
from tidemark.processes import ProcessId, end
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import Stopped, Target
from tidemark.stack.suspension import resume, resume_abandoned, stop, suspended
from tidemark.waiting import wait_until


@pytest.fixture
def process(state, sleeper) -> ProcessId:
    state.make()
    return sleeper()


@pytest.fixture
def target(process) -> Target:
    return Target(process)


@pytest.fixture
def runtime(state) -> ProcessRuntime:
    return ProcessRuntime(state)


def goes_on(process: ProcessId) -> None:
    wait_until(lambda: not process.paused, 5, lambda: "the resume")


def test_a_paused_process_goes_on_when_resumed(state, runtime, process, target):
    stop(state, runtime, target, "x")
    assert process.paused
    resume(state, runtime, target, "x")
    goes_on(process)


def test_a_held_process_stands_still_in_the_block_only(state, runtime, process, target):
    with suspended(state, runtime, target, "driver"):
        assert process.paused
    goes_on(process)
    assert state.records("stopped", Stopped) == []


def test_a_hold_does_not_resume_what_somebody_paused(state, runtime, process, target):
    stop(state, runtime, target, "part-driver")
    with suspended(state, runtime, target, "driver"):
        pass
    assert process.paused


def test_what_a_dead_process_paused_is_resumed(state, runtime, process, target, sleeper):
    owner = sleeper()
    stop(state, runtime, target, "x")
    state.add("stopped", Stopped(target, owner), "x")
    resume_abandoned(state, runtime)
    assert process.paused
    end([owner], ask_s=0)
    resume_abandoned(state, runtime)
    goes_on(process)


def test_what_cannot_be_resumed_now_stays_noted_and_is_resumed_later(
    state, runtime, process, target, sleeper
):
    class Down(ProcessRuntime):
        def resume(self, target):
            raise ContainerEngineError("the container engine is down")

    owner = sleeper()
    stop(state, runtime, target, "x")
    state.add("stopped", Stopped(target, owner), "x")
    end([owner], ask_s=0)
    with pytest.raises(ContainerEngineError):
        resume_abandoned(state, Down(state))
    assert process.paused
    resume_abandoned(state, runtime)
    goes_on(process)
    assert state.records("stopped", Stopped) == []


def test_a_process_that_is_gone_cannot_be_paused(state, runtime, process, target):
    end([process], ask_s=0)
    with pytest.raises(DaemonDied, match="driver"):
        stop(state, runtime, target, "driver")
    assert state.records("stopped", Stopped) == []
