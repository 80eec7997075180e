"""The agent that signals single processes in a container, run on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tidemark.stack
from tidemark.processes import end

PROGRAM = Path(tidemark.stack.__file__).parent / "inside" / "worker_processes.py"


@pytest.fixture
def run_command():
    """A function that sends the agent a command and returns its answer."""
    with subprocess.Popen(
        [sys.executable, "-I", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:

        def tell(*words):
            program.stdin.write(json.dumps(words) + "\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        yield tell
        program.stdin.close()
        assert program.wait(30) == 0


def named(process):
    return str(process.pid), str(process.start_ticks), process.boot_id


def test_a_process_is_suspended_resumed_and_killed(run_command, sleeper):
    process = sleeper()

    assert run_command("suspend", *named(process)) == [0, ""]
    assert process.paused
    assert run_command("resume", *named(process)) == [0, ""]
    assert run_command("lives", *named(process)) == [0, ""]
    assert run_command("kill", *named(process)) == [0, ""]
    assert not process.alive


def test_a_process_that_has_ended_is_reported_as_gone(run_command, sleeper):
    process = sleeper()
    end([process], ask_s=0)

    assert [run_command(word, *named(process))[0] for word in ("suspend", "lives")] == [3, 3]
    assert [run_command(word, *named(process))[0] for word in ("resume", "kill")] == [0, 0]


def test_a_process_that_is_no_jvm_is_not_asked_for_its_threads(run_command, sleeper):
    process = sleeper()

    assert run_command("quit", *named(process)) == [3, ""]
    assert process.alive


def test_a_jvm_that_is_suspended_is_not_asked_for_its_threads(run_command, sleeper, tmp_path):
    java = tmp_path / "java"
    shutil.copy(shutil.which("sleep"), java)
    process = sleeper(argv=[str(java), "60"])
    run_command("suspend", *named(process))

    assert run_command("quit", *named(process)) == [4, ""]
    run_command("resume", *named(process))
    assert run_command("lives", *named(process)) == [0, ""]


def test_a_reused_process_id_is_never_signalled(run_command, sleeper):
    process = sleeper()

    for other in (replace(process, start_ticks=process.start_ticks - 1), replace(process, boot_id="another")):
        assert run_command("kill", *named(other)) == [0, ""]
    assert process.alive


def test_executors_of_an_application_are_found_by_their_command_line(run_command, sleeper):
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    sleep = [sys.executable, "-c", "import signal; signal.pause()", backend]
    process = sleeper(argv=[*sleep, "--executor-id", "7", "--app-id", "app-0"])
    sleeper(argv=[*sleep, "--executor-id", "8", "--app-id", "app-1"])

    code, output = run_command("list", "app-0")

    assert code == 0
    assert json.loads(output) == {
        "executor_id": "7", "pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id
    }  # fmt: skip
