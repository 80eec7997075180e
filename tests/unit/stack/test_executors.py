"""Which processes of this machine count as executors of a driver."""

from __future__ import annotations

import sys

import pytest

from tidemark.stack.processes import ProcessRuntime
from tidemark.stack.protocol import Executor
from tidemark.stack.running import without_forks

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@pytest.fixture
def executor(sleeper):
    """A function that starts a process which looks like an executor of ``app-0``."""

    def start(worker: str, number: int, app_id: str = "app-0"):
        options = f"--executor-id {number} --app-id {app_id} --worker-url spark://Worker@{worker}".split()
        return sleeper(argv=[sys.executable, "-c", "import signal; signal.pause()", BACKEND, *options])

    return start


def test_an_executor_is_of_the_application_and_on_a_worker_of_this_stack(state, executor, part):
    workers = [part(f"worker-{n}", "worker", address=f"127.0.0.1:{20000 + n}") for n in (1, 2)]
    ours = executor("127.0.0.1:20001", 0), executor("127.0.0.1:20002", 1)
    executor("127.0.0.1:20001", 0, "app-1")
    executor("127.0.0.1:20003", 0)  # another stack's master named its application in the same second

    found = ProcessRuntime(state).executors("app-0", workers)

    assert found == [
        Executor(str(n), f"worker-{n + 1}", process.pid, pytest.approx(process.create_time))
        for n, process in enumerate(ours)
    ]


def test_what_an_executor_is_just_starting_does_not_count():
    first, second = Executor("0", "worker-1", 50, 10.0), Executor("1", "worker-2", 40, 10.01)
    fork = Executor("0", "worker-1", 7, 12.5)

    assert without_forks([fork, second, first]) == [first, second]
