"""The program that looks after single processes inside a container, run here."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tidemark.stack
from tidemark.processes import end

PROGRAM = Path(tidemark.stack.__file__).parent / "inside" / "worker_processes.py"


@pytest.fixture
def told():
    """A function that tells the program something and returns its answer."""
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


def test_a_process_is_halted_goes_on_and_is_killed(told, sleeper):
    process = sleeper()

    assert told("halt", *named(process)) == [0, ""]
    assert process.paused
    assert told("go-on", *named(process)) == [0, ""]
    assert told("lives", *named(process)) == [0, ""]
    assert told("kill", *named(process)) == [0, ""]
    assert not process.alive


def test_what_is_gone_is_said_to_be_gone(told, sleeper):
    process = sleeper()
    end([process], ask_s=0)

    assert [told(word, *named(process))[0] for word in ("halt", "lives")] == [3, 3]
    assert [told(word, *named(process))[0] for word in ("go-on", "kill")] == [0, 0]


def test_a_later_process_of_the_same_id_is_left_alone(told, sleeper):
    process = sleeper()

    for other in (replace(process, start_ticks=process.start_ticks - 1), replace(process, boot_id="another")):
        assert told("kill", *named(other)) == [0, ""]
    assert process.alive


def test_executors_of_an_application_are_listed_by_their_command(told, sleeper):
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    sleep = [sys.executable, "-c", "import signal; signal.pause()", backend]
    process = sleeper(argv=[*sleep, "--executor-id", "7", "--app-id", "app-0"])
    sleeper(argv=[*sleep, "--executor-id", "8", "--app-id", "app-1"])

    code, said = told("list", "app-0")

    assert code == 0
    assert json.loads(said) == {
        "executor_id": "7", "pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id
    }  # fmt: skip
