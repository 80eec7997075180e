"""Requests to freeze or thaw a container are retried if the engine fails or has stale state.

The one here answers as Docker does.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from types import SimpleNamespace

import pytest

from tidemark import waiting
from tidemark.errors import ContainerEngineError
from tidemark.stack.compose import container_freezer
from tidemark.stack.compose.container_runtime import ContainerRuntime
from tidemark.stack.registry import Stopped, Target
from tidemark.stack.suspension import suspend

NAME = "tidemark-x-driver"
TARGET = Target(container=NAME)
UNUSED_PID = 2**30
CANNOT = (500, {"message": "Cannot pause container: OCI runtime pause failed: unable to freeze: unknown"})


class EngineThatFails:
    """One container, a process that the kernel knows nothing of.

    The first ``failures`` requests fail, each after calling ``meanwhile``.
    """

    def __init__(self, failures=0, *, pid=UNUSED_PID, paused=False, meanwhile=None):
        self.failures = failures
        self.state = {"Running": True, "Paused": paused, "Pid": pid}
        self.meanwhile = meanwhile or {}
        self.requests = Counter()

    def answer(self, method, path):
        if path.endswith("/version"):
            return 200, {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
        what = path.rsplit("/", 1)[1]
        if what == "json":
            return 200, {"State": self.state}
        self.requests[what] += 1
        if not self.state["Running"] or self.state["Paused"] == (what == "pause"):
            return 409, {"message": f"container {NAME} is not as it must be for {what}"}
        if self.requests[what] <= self.failures:
            self.state.update(self.meanwhile)
            return CANNOT
        self.state["Paused"] = what == "pause"
        return 204, None


@pytest.fixture
def runtime(state, engine_that_answers):
    """A function that makes the runtime whose engine has the container."""

    def of(engine: EngineThatFails) -> ContainerRuntime:
        engine_that_answers(engine.answer)
        state.make("compose")
        return ContainerRuntime(state)

    return of


def test_a_failed_freeze_is_retried(runtime):
    engine = EngineThatFails(failures=3)

    assert runtime(engine).suspend(TARGET)

    assert engine.state["Paused"]
    assert engine.requests["pause"] == 4


def test_a_failed_thaw_is_retried(runtime):
    engine = EngineThatFails(failures=3, paused=True)

    runtime(engine).resume(TARGET)

    assert not engine.state["Paused"]
    assert engine.requests["unpause"] == 4


def test_a_freeze_that_succeeded_despite_an_error_is_not_retried(runtime):
    engine = EngineThatFails(failures=1, meanwhile={"Paused": True})

    assert runtime(engine).suspend(TARGET)

    assert engine.requests["pause"] == 1


def test_a_container_that_ends_meanwhile_does_not_run(runtime):
    engine = EngineThatFails(failures=1, meanwhile={"Running": False})

    assert not runtime(engine).suspend(TARGET)

    assert engine.requests["pause"] == 1


def test_a_container_already_in_the_requested_state_is_left_alone(runtime):
    engine = EngineThatFails(paused=True)
    of_it = runtime(engine)

    assert of_it.suspend(TARGET)
    of_it.resume(TARGET)
    of_it.resume(TARGET)

    assert not engine.state["Paused"]
    assert engine.requests == {"pause": 1, "unpause": 2}


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A function that has the kernel say of this process whether it is frozen."""
    monkeypatch.setattr(container_freezer, "CGROUPS", tmp_path / "cgroups")

    def says(frozen):
        for file, word in container_freezer._state_files(os.getpid()):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"populated 1\n{word}\n" if frozen else "populated 1\nfrozen 0\n")

    return says


def test_a_freeze_refused_because_of_stale_state_is_retried(runtime, kernel):
    kernel(frozen=False)
    engine = EngineThatFails(pid=os.getpid(), paused=True)
    learns = iter([False, False, True])
    look = engine.answer

    def answer(method, path):
        given = look(method, path)
        if path.endswith("/json") and next(learns):
            engine.state["Paused"] = False
        return given

    engine.answer = answer

    assert runtime(engine).suspend(TARGET)

    assert engine.state["Paused"]
    assert engine.requests["pause"] == 4


def test_the_kernels_state_decides_whether_to_retry(runtime, kernel):
    kernel(frozen=True)
    engine = EngineThatFails(failures=1, pid=os.getpid())

    assert runtime(engine).suspend(TARGET)

    assert engine.requests["pause"] == 1


def test_a_container_that_never_freezes_keeps_running_and_the_error_is_raised(runtime, state, monkeypatch):
    quarters = itertools.count(step=container_freezer.FREEZE_S / 4)  # of the time that it may take
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=quarters.__next__, sleep=lambda _s: None))
    engine = EngineThatFails(failures=10**6)

    with pytest.raises(ContainerEngineError, match=f"the container engine could not freeze {NAME}") as error:
        suspend(state, runtime(engine), TARGET, "driver")

    assert "unable to freeze" in error.value.detail
    assert engine.requests["pause"] > 1
    assert state.records("stopped", Stopped) == []
