"""``tidemark up``, ``status``, ``doctor`` and ``down``; a failed or interrupted start leaves nothing behind.

Each test has its own state folder and runs the command in a process, as a user does.
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
from tidemark import paths
home = Path(sys.argv.pop(1))
paths.state_dir = lambda: home
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
    """The connector's jars come before Spark's own on the class path, so a duplicate would hide Spark's class."""
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
    """The process id of each component."""
    return {component["name"]: component["pid"] for component in status["components"]}


@pytest.mark.smoke
def test_a_stack_is_started_reused_repaired_and_ended(home):
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

    running = started(home, 5)
    assert tidemark(home, "down").stdout.strip() == "down"
    nothing_is_left(home, running)
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


def java_with(tmp_path: Path, script: str) -> dict[str, str]:
    """A Java home whose ``java`` runs ``script`` and then the real Java."""
    from tidemark.stack.install.toolchain import find_java

    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\n{script}\nexec {find_java()} "$@"\n')
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1])}


def test_a_daemon_that_dies_while_starting_shows_the_end_of_its_log(home, tmp_path):
    env = java_with(tmp_path, 'case "$*" in *kafka.Kafka*) echo "no room on the moon"; exit 1;; esac')
    done = tidemark(home, *UP, **env)
    assert done.returncode == 4
    assert done.stderr.startswith("error: the broker died while starting\n")
    assert "no room on the moon" in done.stderr
    assert "hint:" in done.stderr
    assert not (home / "stack").exists()
    assert (home / "failed-start" / "broker.log").read_text() == "no room on the moon\n"


def test_an_old_java_is_one_clear_error(home, tmp_path):
    env = java_with(tmp_path, "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2; exit 0")
    done = tidemark(home, *UP, **env)
    assert done.returncode == 4
    assert done.stderr.startswith("error: Java 11 is too old\n")
    assert "hint: install Java 17" in done.stderr


def test_no_java_is_one_clear_error(home, tmp_path):
    done = tidemark(home, *UP, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 4
    assert done.stderr.startswith("error: no Java was found\n")
    assert "Traceback" not in done.stderr


def test_a_requested_port_in_use_is_one_clear_error(home):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = tidemark(home, *UP, "--kafka-port", str(port))
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: port {port} is in use\n")
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
        stack.pause("master")  # not a worker: its executors would be paused too, and the query would make no progress
        print("running", flush=True)
        sys.stdin.read()
"""


def test_the_reaper_cleans_up_after_a_killed_run(stack, tmp_path):
    """Its streaming query and its driver end, and the component that it paused is resumed."""
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
    assert states["master"] == "running"  # other tests may have paused other components meanwhile
    last = _commits(checkpoint), time.monotonic()

    def no_commits() -> bool:
        nonlocal last
        if _commits(checkpoint) != last[0]:
            last = _commits(checkpoint), time.monotonic()
        return time.monotonic() > last[1] + 3

    wait_until(no_commits, LIVING_S, lambda: f"the query to end; {last[0]} batches")


def _commits(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))
