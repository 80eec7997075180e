from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.processes import ProcessId
from tidemark.stack import StackSpec, doctor
from tidemark.stack.doctor import CheckStatus, examine
from tidemark.stack.install import jars
from tidemark.stack.registry import Lease


@pytest.fixture
def check(state, monkeypatch, tmp_path, executable):
    """A function that examines a machine with a good Java and no jars, and returns one result."""
    java = executable("java", "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def one(name: str) -> doctor.CheckResult:
        return next(
            found
            for found in examine(StackSpec(python=Path(sys.executable)), state.home)
            if found.name == name
        )

    return one


@pytest.fixture
def running(state, stack_record, sleeper, component):
    """A stack of one part that runs, with a reaper."""
    token = state.make()
    stack_record.ready = True
    state.write(stack_record)
    process = sleeper(token)
    state.write_component(component(process=process))
    state.add("reapers", Lease(ProcessId.own()), "reaper")
    return process


def test_a_machine_without_a_stack_is_good_except_for_missing_jars(check):
    assert check("java").text.startswith("17.0.1 (")
    assert "connector 4.2.0" in check("pyspark").text
    assert check("loopback").status is CheckStatus.GOOD
    assert check("stack").text == "none runs"
    assert check("jars").status is CheckStatus.WARNING
    assert "over the network" in check("jars").hint


def test_a_missing_java_is_bad_and_the_other_checks_still_run(check, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check("java").status is CheckStatus.BAD
    assert "install Java 17" in check("java").hint
    assert check("loopback").status is CheckStatus.GOOD


def test_a_jar_with_a_wrong_checksum_is_bad(check):
    for jar in jars.locked("broker", "files", "connector", "spark-4.2.0"):
        jar.path.parent.mkdir(parents=True, exist_ok=True)
        jar.path.write_bytes(b"spoilt")
    assert check("jars").status is CheckStatus.BAD
    assert "wrong checksum" in check("jars").text


def test_too_little_memory_is_reported(check, monkeypatch):
    monkeypatch.setattr(doctor, "LEAST_MEMORY", 1 << 60)
    assert check("memory").status is CheckStatus.BAD
    assert "GiB available" in check("memory").text


def test_a_full_disk_is_reported(check, monkeypatch):
    monkeypatch.setattr(doctor, "ENOUGH_DISK", 1 << 60)
    assert check("disk").status is CheckStatus.WARNING
    assert "free disk space" in check("disk").hint


def test_a_loopback_without_connections_is_bad(check, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("filtered")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert check("loopback").status is CheckStatus.BAD


@pytest.mark.usefixtures("running")
def test_a_running_stack_is_good(check):
    assert check("stack").text == "runs, while it is leased"


def test_a_component_that_does_not_run_is_named(check, running, state, component):
    state.write_component(component("worker-1", "worker", process=replace(running, start_ticks=1)))
    assert check("stack").text == "not running: worker-1"
    assert "tidemark up" in check("stack").hint


@pytest.mark.usefixtures("running")
def test_a_missing_reaper_is_reported(check, state):
    state.discard("reapers", "reaper")
    assert check("stack").text == "its reaper does not run"


def test_the_remains_of_a_failed_start_are_bad(check, state):
    state.make()
    assert check("stack").status is CheckStatus.BAD
    assert "tidemark down" in check("stack").hint


def test_a_start_in_progress_is_good(check, state):
    state.make()
    state.add("leases", Lease(ProcessId.own()), "starting")
    assert "being started" in check("stack").text


def test_a_stack_of_another_version_is_bad_but_can_be_ended(check, running, state):
    assert running.alive
    (state.path / "stack.json").write_text('{"layout": 99, "tidemark": "7.0"}')
    seen = check("stack")
    assert seen.status is CheckStatus.BAD
    assert "another version of tidemark (7.0)" in seen.text
    assert "tidemark down" in seen.hint
