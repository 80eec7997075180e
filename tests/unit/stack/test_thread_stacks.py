"""Thread stacks are what a JVM adds to its log; a process that adds none is said to, and no other is signalled."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tidemark.processes import ProcessId
from tidemark.stack import thread_stacks
from tidemark.stack.api import Executor
from tidemark.stack.compose.container_runtime import ContainerRuntime
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import Target

DUMP = 'Full thread dump OpenJDK\n\n"main" #1\n\nJNI global refs: 12, weak refs: 3\n'


def runtime(log, ask):
    return SimpleNamespace(
        log=lambda _component: log.read_text(), target=lambda _component: Target(), print_stacks=ask,
        executor_target=lambda _executor: Target(),
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_text("Full thread dump of before\nJNI global refs: 1\nits log\n")
    return path


def test_what_is_printed_since_the_question_is_read_back_without_what_surrounds_it(log):
    def ask(_target):
        log.write_text(f"{log.read_text()}2026-11-27 21:42:10\n{DUMP}\nHeap\n def new generation\n")
        return ""

    assert thread_stacks.of_component(runtime(log, ask), None) == DUMP


def test_a_process_that_is_suspended_is_said_to_be(log):
    found = thread_stacks.of_component(runtime(log, lambda _target: "process 7 is suspended (SIGSTOP)"), None)
    assert found == "no thread stacks: process 7 is suspended (SIGSTOP)\n"


def test_a_process_that_prints_nothing_is_said_to(log, monkeypatch):
    monkeypatch.setattr(thread_stacks, "PRINTED_S", 0.1)
    found = thread_stacks.of_component(runtime(log, lambda _target: ""), None)
    assert found == "no thread stacks: the process printed none within 0.1 s\n"


def test_the_stacks_of_executors_are_in_their_standard_output(tmp_path):
    out = tmp_path / "worker-1" / "app-1" / "0" / "stdout"
    out.parent.mkdir(parents=True)

    def ask(_target):
        out.write_text(DUMP)
        return ""

    one = Executor("0", "worker-1", ProcessId.own())
    assert thread_stacks.of_executors(runtime(out, ask), tmp_path, "app-1", [one]) == {"executor-0": DUMP}


def test_a_process_that_is_no_jvm_is_not_asked():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        target = Target(ProcessId.of(child.pid), family=True)
        assert ProcessRuntime(SimpleNamespace()).print_stacks(target) == "no Java process runs"
        assert child.poll() is None
        child.communicate(b"\n")
    assert child.returncode == 0
    assert ProcessRuntime(SimpleNamespace()).print_stacks(Target()) == "there is no process"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"Running": True, "Paused": False}, ""),
        ({"Running": True, "Paused": True}, "its container is frozen"),
        ({"Running": False, "Paused": False}, "its container does not run"),
    ],
)
def test_the_jvm_of_a_container_that_runs_is_asked_by_a_signal_and_no_other(
    state, engine_that_answers, status, said
):
    def answer(_method, path):
        if path.endswith("/version"):
            return 200, {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
        return (204, None) if path.endswith("/kill") else (200, {"State": status})

    seen = []
    engine_that_answers(answer, seen)
    state.make("compose")

    assert ContainerRuntime(state).print_stacks(Target(container="tidemark-x-driver")) == said
    asked = [path.partition("/containers/")[2] for path in seen if "/kill" in path]
    assert asked == ([] if said else ["tidemark-x-driver/kill?signal=SIGQUIT"])


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, ""), (3, "the process is gone, or no Java"), (4, "process 7 is suspended (SIGSTOP)")],
)
def test_of_an_executor_in_a_container_is_said_why_it_prints_nothing(state, monkeypatch, code, said):
    monkeypatch.setattr(ContainerRuntime, "_exec", lambda *_: (code, ""))
    target = Target(ProcessId(7, 1, "boot"), "tidemark-x-worker-1")

    assert ContainerRuntime(state).print_stacks(target) == said
