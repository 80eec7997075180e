from __future__ import annotations

import pytest

from tidemark.errors import ContainerEngineError, DaemonDied, TestbedError
from tidemark.processes import ProcessId, end
from tidemark.stack.local import process_runtime
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.packet_rules import packets_of
from tidemark.stack.registry import Lease, Stopped, Target
from tidemark.stack.suspension import (
    claim,
    give_back,
    kill_recorded,
    killed_by_others,
    resume,
    resume_abandoned,
    suspend,
    suspended,
)
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


def test_a_suspended_process_runs_again_when_resumed(state, runtime, process, target):
    suspend(state, runtime, target, "x")
    assert process.paused
    resume(state, runtime, target, "x")
    goes_on(process)


def test_a_process_is_suspended_only_inside_the_block(state, runtime, process, target):
    with suspended(state, runtime, target, "driver"):
        assert process.paused
    goes_on(process)
    assert state.records("stopped", Stopped) == []


def test_the_end_of_a_block_does_not_resume_a_paused_process(state, runtime, process, target):
    suspend(state, runtime, target, "component-driver")
    with suspended(state, runtime, target, "driver"):
        pass
    assert process.paused


def test_a_suspension_by_a_process_that_died_is_undone(state, runtime, process, target, sleeper):
    owner = sleeper()
    suspend(state, runtime, target, "x")
    state.add("stopped", Stopped(target, owner), "x")
    resume_abandoned(state, runtime)
    assert process.paused
    end([owner], ask_s=0)
    resume_abandoned(state, runtime)
    goes_on(process)


def test_a_failed_resume_stays_recorded_and_is_retried(state, runtime, process, target, sleeper):
    class Down(ProcessRuntime):
        def resume(self, target):
            raise ContainerEngineError("the container engine is down")

    owner = sleeper()
    suspend(state, runtime, target, "x")
    state.add("stopped", Stopped(target, owner), "x")
    end([owner], ask_s=0)
    with pytest.raises(ContainerEngineError):
        resume_abandoned(state, Down(state))
    assert process.paused
    resume_abandoned(state, runtime)
    goes_on(process)
    assert state.records("stopped", Stopped) == []


def test_a_process_that_has_ended_cannot_be_suspended(state, runtime, process, target):
    end([process], ask_s=0)
    with pytest.raises(DaemonDied, match="driver"):
        suspend(state, runtime, target, "driver")
    assert state.records("stopped", Stopped) == []


def test_of_a_family_known_members_stop_before_others_are_looked_for(runtime, sleeper, monkeypatch):
    parent, known, new = sleeper(), sleeper(), sleeper()
    family, seen, stop_first = [known], [], [parent]

    def looked_for(process):
        assert process == parent
        wait_until(lambda: all(one.paused for one in stop_first), 5, lambda: f"{stop_first} to stop")
        seen.append([one.pid for one in (known, new) if one.paused])
        return list(family)

    monkeypatch.setattr(process_runtime, "_descendants", looked_for)
    target = Target(parent, family=True)
    assert runtime.suspend(target)
    assert seen == [[]]
    assert known.paused
    runtime.resume(target)
    goes_on(known)
    family.append(new)
    stop_first.append(known)
    seen.clear()

    assert runtime.suspend(target)

    assert seen == [[known.pid]]
    assert all(one.paused for one in (parent, known, new))
    runtime.resume(target)
    for one in (parent, known, new):
        goes_on(one)


def test_a_member_that_has_left_a_family_runs_on(runtime, sleeper, monkeypatch):
    parent, left = sleeper(), sleeper()
    families = iter([[left], [left], []])
    monkeypatch.setattr(process_runtime, "_descendants", lambda _process: next(families))
    target = Target(parent, family=True)
    runtime.suspend(target)
    runtime.resume(target)

    runtime.suspend(target)

    assert parent.paused
    goes_on(left)


def test_a_link_that_another_process_watches_is_neither_watched_nor_given_back(state, runtime, sleeper):
    state.make()
    forgotten = []
    runtime.packet_links.forget = forgotten.append
    mine, theirs = packets_of("broker"), packets_of("broker-2")
    state.add("stopped", Stopped(Target(link=theirs), sleeper()), f"link-{theirs}")

    claim(state, mine)
    claim(state, mine)
    with pytest.raises(TestbedError, match="is used by another process") as error:
        claim(state, theirs)
    give_back(state, runtime)

    assert "one after the other" in error.value.hint
    assert forgotten == [mine]
    assert [record.target.link for _, record in state.records("stopped", Stopped)] == [theirs]


def test_a_kill_is_recorded_for_other_processes_unless_it_fails(state, component, sleeper):
    state.make()
    with kill_recorded(state, component()), kill_recorded(state, component("driver", "driver")):
        recorded = [path.stem for path, _ in state.records("killed", Lease)]
    assert recorded == ["broker"]
    state.add("leases", Lease(ProcessId.own()), "own")
    assert killed_by_others(state) == {}

    state.add("killed", Lease(owner := sleeper()), "worker-1")
    assert killed_by_others(state) == {}
    state.add("leases", Lease(owner), "other")
    assert killed_by_others(state) == {"worker-1": owner}
    end([owner], ask_s=0)
    assert killed_by_others(state) == {}

    with pytest.raises(ContainerEngineError), kill_recorded(state, component("master", "master")):
        raise ContainerEngineError("the container engine is down")
    assert not (state.path / "killed" / "master.json").exists()
