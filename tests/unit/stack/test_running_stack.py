"""What a running stack lists: its components, and the executors of a driver."""

from __future__ import annotations

import sys
from itertools import permutations

import pytest

from tidemark.errors import ContainerEngineError
from tidemark.processes import ProcessId
from tidemark.stack.api import ComponentKind, Executor
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.running_stack import RunningStack, without_forks

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@pytest.fixture
def executor(sleeper):
    """A function that starts a process which looks like an executor of ``app-0``."""

    def start(worker: str, number: int, app_id: str = "app-0"):
        options = f"--executor-id {number} --app-id {app_id} --worker-url spark://Worker@{worker}".split()
        return sleeper(argv=[sys.executable, "-c", "import signal; signal.pause()", BACKEND, *options])

    return start


def test_executors_belong_to_the_application_and_to_a_worker_of_this_stack(state, executor, component):
    workers = [component(f"worker-{n}", "worker", address=f"127.0.0.1:{20000 + n}") for n in (1, 2)]
    ours = executor("127.0.0.1:20001", 0), executor("127.0.0.1:20002", 1)
    executor("127.0.0.1:20001", 0, "app-1")
    executor("127.0.0.1:20003", 0)  # another stack's master named its application in the same second

    found = ProcessRuntime(state).executors("app-0", workers)

    assert sorted(found) == [Executor(str(n), f"worker-{n + 1}", process) for n, process in enumerate(ours)]


def test_a_fork_of_an_executor_is_not_an_executor():
    first = Executor("0", "worker-1", ProcessId(50, 1000, "boot"))
    second = Executor("1", "worker-2", ProcessId(40, 1001, "boot"))
    fork = Executor("0", "worker-1", ProcessId(7, 1250, "boot"))

    for seen in permutations([fork, second, first]):
        assert sorted(without_forks(seen)) == [first, second]


def test_executors_are_listed_in_order(state, stack_record, component):
    """A fault's victim is counted from the first of them."""
    state.make()
    state.write_component(component("driver", "driver", process=ProcessId.own()))
    (state.path / "event-logs" / "driver" / "app-0").mkdir(parents=True)
    executors = [Executor(str(n), f"worker-{n % 2 + 1}", ProcessId(100 + n, n, "boot")) for n in range(5)]

    class Runtime(ProcessRuntime):
        def executors(self, app_id, _workers):
            assert app_id == "app-0"
            return executors[::-1]

    assert RunningStack(state, stack_record, Runtime(state)).executors("driver") == executors


def test_the_threads_of_a_driver_are_kept_if_its_executors_cannot_be_listed(
    state, stack_record, component, tmp_path
):
    state.make()
    (tmp_path / "driver.log").touch()
    state.write_component(component("driver", "driver", process=ProcessId.own()))
    (state.path / "event-logs" / "driver" / "app-0").mkdir(parents=True)

    class Runtime(ProcessRuntime):
        def executors(self, _app_id, _workers):
            raise ContainerEngineError("the executors on worker-1 cannot be listed")

    assert RunningStack(state, stack_record, Runtime(state)).thread_stacks("driver") == {
        "driver": "no thread stacks: no Java process runs\n",
        "executors": "no thread stacks: the executors on worker-1 cannot be listed\n",
    }


def test_components_are_listed_by_kind_and_not_by_name(state, stack_record, component):
    state.make()
    for name, kind in {
        "broker": "broker",
        "registry": "registry",
        "proxy": "proxy",
        "master": "master",
        "worker-1": "worker",
        "driver": "driver",
        "job": "app",
    }.items():
        state.write_component(component(name, kind))
    for name in ("broker-events", "master-data", "worker-pay"):
        state.write_component(component(name, "driver", owner=ProcessId.own()))
    stack = RunningStack(state, stack_record, ProcessRuntime(state))

    assert {kind.value: stack.components(kind) for kind in ComponentKind} == {
        "broker": ["broker"],
        "registry": ["registry"],
        "proxy": ["proxy"],
        "master": ["master"],
        "worker": ["worker-1"],
        "driver": ["driver", "broker-events", "master-data", "worker-pay"],
        "app": ["job"],
    }
    assert len(stack.components()) == 10
