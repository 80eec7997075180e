from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.processes import ProcessId
from tidemark.stack import StackSpec, doctor
from tidemark.stack.doctor import Finding, examine
from tidemark.stack.install import jars
from tidemark.stack.registry import Lease


@pytest.fixture
def look(state, monkeypatch, tmp_path, executable):
    """A function that examines a machine with a good Java and no jars, and gives back one look."""
    java = executable("java", "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def one(what: str) -> doctor.Look:
        return next(
            found
            for found in examine(StackSpec(python=Path(sys.executable)), state.home)
            if found.what == what
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


def test_a_machine_without_a_stack_is_good_but_for_what_is_to_be_fetched(look):
    assert look("java").text.startswith("17.0.1 (")
    assert "connector 4.2.0" in look("pyspark").text
    assert look("loopback").finding is Finding.GOOD
    assert look("stack").text == "none runs"
    assert look("jars").finding is Finding.WARNING
    assert "needs the network once" in look("jars").hint


def test_a_missing_java_is_bad_and_the_rest_is_still_looked_at(look, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert look("java").finding is Finding.BAD
    assert "install Java 17" in look("java").hint
    assert look("loopback").finding is Finding.GOOD


def test_a_spoilt_jar_is_bad(look):
    for jar in jars.locked("broker", "files", "connector", "spark-4.2.0"):
        jar.path.parent.mkdir(parents=True, exist_ok=True)
        jar.path.write_bytes(b"spoilt")
    assert look("jars").finding is Finding.BAD
    assert "wrong checksum" in look("jars").text


def test_little_memory_is_said(look, monkeypatch):
    monkeypatch.setattr(doctor, "LEAST_MEMORY", 1 << 60)
    assert look("memory").finding is Finding.BAD
    assert "GiB available" in look("memory").text


def test_a_full_disk_is_said(look, monkeypatch):
    monkeypatch.setattr(doctor, "ENOUGH_DISK", 1 << 60)
    assert look("disk").finding is Finding.WARNING
    assert "make room" in look("disk").hint


def test_a_loopback_that_does_not_answer_is_bad(look, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("filtered")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert look("loopback").finding is Finding.BAD


@pytest.mark.usefixtures("running")
def test_a_running_stack_is_good(look):
    assert look("stack").text == "runs, while it is leased"


def test_a_part_that_does_not_run_is_named(look, running, state, component):
    state.write_component(component("worker-1", "worker", process=replace(running, start_ticks=1)))
    assert look("stack").text == "not running: worker-1"
    assert "tidemark up" in look("stack").hint


@pytest.mark.usefixtures("running")
def test_a_keeper_that_is_gone_is_said(look, state):
    state.discard("reapers", "reaper")
    assert look("stack").text == "its reaper is gone"


def test_what_is_left_of_a_start_that_died_is_bad(look, state):
    state.make()
    assert look("stack").finding is Finding.BAD
    assert "tidemark down" in look("stack").hint


def test_a_start_under_way_is_good(look, state):
    state.make()
    state.add("leases", Lease(ProcessId.own()), "starting")
    assert "being started" in look("stack").text


def test_a_stack_of_another_version_is_bad_and_can_be_ended(look, running, state):
    assert running.alive
    (state.path / "stack.json").write_text('{"layout": 99, "tidemark": "7.0"}')
    seen = look("stack")
    assert seen.finding is Finding.BAD
    assert "of another version of tidemark (7.0)" in seen.text
    assert "tidemark down" in seen.hint
