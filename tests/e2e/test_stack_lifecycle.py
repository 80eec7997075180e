"""The stack by hand, and what is left of it when things go wrong: nothing.

Each test has a state folder of its own, and calls the command as a user does, in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.processes import ProcessId, marked
from tidemark.stack import StackSpec, down
from tidemark.stack.backends import backend_of
from tidemark.stack.registry import TOKEN_VARIABLE, Lease, StateFolder
from tidemark.waiting import wait_until

COMMAND = """
import sys
from pathlib import Path
from tidemark import project
home = Path(sys.argv.pop(1))
project.state_dir = lambda: home
from tidemark.cli import main
main()
"""
UP = ("up", "--backend", "local")
LIVING_S = 60.0
"""Calibration: the first three daemons run within 3 s of a start, the last process of a stack ends within 6 s."""


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    down(home=tmp_path / "home")


def arguments(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", COMMAND, str(home), *words]


def tidemark(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments(home, *words),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent), **env},
        cwd=home.parent,
    )


def started(home: Path, count: int) -> list[ProcessId]:
    """The processes of a stack that is being started, once there are ``count``; its reaper is the last."""
    state = StateFolder(home)

    def enough() -> list[ProcessId] | None:
        token = state.token()
        found = marked(TOKEN_VARIABLE, token) if token else []
        reapers = [reaper.owner for _, reaper in state.records("reapers", Lease)]
        return [*found, *reapers] if len(found) >= count and reapers else None

    return wait_until(enough, LIVING_S, lambda: f"{count} processes of the stack in {home}")


def nothing_is_left(home: Path, processes: list[ProcessId]) -> None:
    def all_gone() -> bool:
        return not any(process.alive for process in processes) and not (home / "stack").exists()

    wait_until(all_gone, LIVING_S, lambda: f"{[p for p in processes if p.alive]} to end")


def test_no_class_is_on_the_class_path_twice(home):
    """The connector's jars are before Spark's own: whichever came first would win."""
    supplies = backend_of(StackSpec(), home).provide(lambda _: None)
    stub = "org/apache/spark/unused/UnusedStubClass.class"  # Spark's build puts it into each of Spark's jars

    def classes(jar: Path) -> set[str]:
        with zipfile.ZipFile(jar) as file:
            names = {name for name in file.namelist() if name.endswith(".class")}
        return {name for name in names if not name.endswith("-info.class") and name != stub}

    sparks = set().union(*map(classes, Path(supplies.spark_home, "jars").glob("*.jar")))
    assert "org/apache/spark/SparkContext.class" in sparks
    for jar in map(Path, supplies.spark_jars):
        ours = classes(jar)
        assert not ours & sparks, f"{jar.name} has what another jar has"
        sparks |= ours
    assert "org/apache/spark/sql/kafka010/KafkaSourceProvider.class" in sparks


def processes(status):
    """Which process each part is."""
    return {component["name"]: component["pid"] for component in status["components"]}


@pytest.mark.smoke
def test_a_stack_is_found_repaired_and_ended(home):
    first = tidemark(home, *UP, "--json")
    assert first.returncode == 0, first.stderr
    stack = json.loads(first.stdout)
    assert stack["remote"].startswith("sc://127.0.0.1:")

    status = json.loads(tidemark(home, "status", "--json").stdout)
    assert status["running"]
    second = json.loads(tidemark(home, *UP, "--json").stdout)
    assert second["remote"] == stack["remote"]
    again = json.loads(tidemark(home, "status", "--json").stdout)
    assert processes(again) == processes(status), "the second `tidemark up` started something"

    broker = next(component for component in status["components"] if component["name"] == "broker")
    ProcessId.of(broker["pid"]).signal(signal.SIGKILL)
    assert tidemark(home, "status").returncode == 4
    assert "not running: broker" in tidemark(home, "doctor").stdout
    assert tidemark(home, *UP).returncode == 0
    assert tidemark(home, "status").returncode == 0
    assert tidemark(home, "doctor").returncode == 0

    left = started(home, 5)
    assert tidemark(home, "down").stdout.strip() == "down"
    nothing_is_left(home, left)
    assert "no stack" in tidemark(home, "status").stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_a_start_that_is_interrupted_leaves_nothing(home, number, code):
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    with subprocess.Popen(arguments(home, *UP), env=env, cwd=home.parent, stderr=subprocess.DEVNULL) as up:
        processes = started(home, 2)
        up.send_signal(number)
        assert up.wait(LIVING_S) == code
    nothing_is_left(home, processes)


def java_that(tmp_path: Path, what: str) -> dict[str, str]:
    """A Java home whose ``java`` does ``what`` before it is the real one."""
    from tidemark.stack.install.toolchain import find_java

    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\n{what}\nexec {find_java()} "$@"\n')
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1])}


def test_a_daemon_that_dies_at_start_shows_its_last_words(home, tmp_path):
    env = java_that(tmp_path, 'case "$*" in *kafka.Kafka*) echo "no room on the moon"; exit 1;; esac')
    done = tidemark(home, *UP, **env)
    assert done.returncode == 4
    assert done.stderr.startswith("error: the broker died while it started\n")
    assert "no room on the moon" in done.stderr
    assert "hint:" in done.stderr
    assert not (home / "stack").exists()
    assert (home / "failed-start" / "broker.log").read_text() == "no room on the moon\n"


def test_an_old_java_is_one_clear_error(home, tmp_path):
    env = java_that(tmp_path, "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2; exit 0")
    done = tidemark(home, *UP, **env)
    assert done.returncode == 4
    assert done.stderr.startswith("error: Java 11 is too old\n")
    assert "hint: install Java 17" in done.stderr


def test_no_java_is_one_clear_error(home, tmp_path):
    done = tidemark(home, *UP, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 4
    assert done.stderr.startswith("error: there is no Java\n")
    assert "Traceback" not in done.stderr


def test_a_port_that_was_asked_for_and_is_taken_is_one_clear_error(home):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = tidemark(home, *UP, "--kafka-port", str(port))
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: port {port} is taken\n")
    assert not (home / "stack").exists()


ABANDON = """
import sys
from pathlib import Path
from pyspark.sql.connect.session import SparkSession
from tidemark.stack import lease, spec_to_lease

with lease(spec_to_lease()) as stack:
    own = stack.start_driver(sys.argv[1])
    session = SparkSession.builder.remote(stack.driver().remote).create()
    with stack.register_session(session.session_id, "driver"):
        rows = session.readStream.format("rate").load().writeStream.format("noop")
        rows.option("checkpointLocation", sys.argv[2]).trigger(processingTime="200 milliseconds").start()
        stack.pause("master")  # a container would take its executors along, and the query would stand still
        print("running", flush=True)
        sys.stdin.read()
"""


def test_what_a_killed_run_leaves_is_undone(stack, tmp_path):
    """Its streaming query is ended, its driver too, and what it paused goes on."""
    name = f"abandoned-{os.getpid()}"
    checkpoint = stack.work_dir(name)
    argv = [sys.executable, "-c", ABANDON, name, str(checkpoint)]
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as run:
        assert run.stdout.readline() == b"running\n"
        wait_until(lambda: _commits(checkpoint) > 1, LIVING_S, lambda: "two batches of the query")
        run.kill()

    wait_until(
        lambda: name not in stack.components(), LIVING_S, lambda: f"{name} to end: {stack.components()}"
    )
    states = {component.name: component.state for component in stack.status()}
    assert states["master"] == "running"  # other parts are other tests' to hold, beside this one
    seen = _commits(checkpoint), time.monotonic()

    def quiet() -> bool:
        nonlocal seen
        if _commits(checkpoint) != seen[0]:
            seen = _commits(checkpoint), time.monotonic()
        return time.monotonic() > seen[1] + 3

    wait_until(quiet, LIVING_S, lambda: f"the query to end; {seen[0]} batches")


def _commits(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))
