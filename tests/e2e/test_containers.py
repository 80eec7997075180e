"""Containers: a failure is a clear error or a clean recovery, and leaves nothing behind.

Each test has its own state folder and runs the command as a user does. What a stack leaves behind is found in the
engine by its label, not in tidemark's records.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.backends import must_be_available
from tests.e2e.conftest import shown
from tests.e2e.test_stack_lifecycle import arguments, tidemark
from tidemark import paths
from tidemark.stack import ComponentState, StackSpec, current, down, lease
from tidemark.stack.compose.orphans import HOME_LABEL
from tidemark.stack.registry import Lease, StateFolder
from tidemark.waiting import wait_until

GONE_S = 60.0
"""Calibration: five containers are removed within 3 s."""
RESTART_VARIABLE = "TIDEMARK_ENGINE_RESTART"
"""The command that restarts the engine, set where tests may restart it (in CI)."""
UP = ("up", "--backend", "compose", "--json")


@pytest.fixture(autouse=True)
def containers():
    must_be_available("compose")


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    down(home=tmp_path / "home")


def left(home: Path) -> list[str]:
    """The containers and networks in the engine that belong to a state folder."""
    found = []
    for listing in (["ps", "--all"], ["network", "ls"]):
        argv = ["docker", *listing, "--filter", f"label={HOME_LABEL}={home}", "--format", "{{.ID}}"]
        found += subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return found


def nothing_is_left(home: Path) -> None:
    wait_until(
        lambda: not left(home) and not (home / "stack").exists(),
        GONE_S,
        lambda: f"nothing to be left of {home}: {left(home)}, {list(home.glob('stack/*'))}",
    )


def an_unreachable_engine_is_one_clear_error(home: Path, nowhere: Path) -> None:
    for words in (("status",), UP, ("down",)):
        done = tidemark(home, *words, DOCKER_HOST=f"unix://{nowhere}")
        assert done.returncode == 4
        assert done.stderr.startswith("error: no container engine can be reached at unix://")
        assert "BACKEND=local" in done.stderr


def test_a_stack_is_started_reused_repaired_and_ended_and_its_files_belong_to_the_caller(home, tmp_path):
    first = tidemark(home, *UP)
    assert first.returncode == 0, first.stderr
    stack = json.loads(first.stdout)
    assert stack["backend"] == "compose"
    before = [(component.name, component.pid) for component in current(home=home).status()]
    again = json.loads(tidemark(home, "up", "--json").stdout)
    assert again["remote"] == stack["remote"]
    assert [(component.name, component.pid) for component in current(home=home).status()] == before
    files = [home, *home.rglob("*")]
    assert {path.lstat().st_uid for path in files} == {os.getuid()}
    assert {path.lstat().st_gid for path in files} == {os.getgid()}

    an_unreachable_engine_is_one_clear_error(home, tmp_path / "no.sock")
    assert tidemark(home, "status").returncode == 0  # and the stack survives

    current(home=home).kill("broker")
    assert tidemark(home, "status").returncode == 4
    assert "not running: broker" in tidemark(home, "doctor").stdout
    assert tidemark(home, "up").returncode == 0
    assert tidemark(home, "status").returncode == 0

    assert tidemark(home, "down").stdout.strip() == "down"
    nothing_is_left(home)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_a_start_that_is_interrupted_leaves_nothing(home, number, code):
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    with subprocess.Popen(
        arguments(home, *UP), env=env, cwd=home.parent, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as up:
        wait_until(lambda: len(left(home)) >= 3, GONE_S, lambda: "two containers and a network")
        up.send_signal(number)
        assert up.wait(GONE_S) == code
    nothing_is_left(home)


def test_containers_without_a_reaper_are_removed_by_the_next_start(home):
    """The reaper is killed and the folder moved away: only the labels identify the containers."""
    assert tidemark(home, *UP).returncode == 0
    state = StateFolder(home)
    for _, reaper in state.records("reapers", Lease):
        reaper.owner.signal(signal.SIGKILL)
        wait_until(lambda owner=reaper.owner: not owner.alive, GONE_S, lambda: "the reaper to be gone")
    orphans = left(home)
    assert len(orphans) == 6
    (home / "stack").rename(home.with_name("moved away"))

    with lease(StackSpec("compose"), home=home) as stack:
        assert not set(orphans) & set(left(home))
        assert {component.state for component in stack.status()} == {ComponentState.RUNNING}
    nothing_is_left(home)


def test_a_full_disk_is_one_clear_error(home):
    with small_disk(home):
        done = tidemark(home, *UP)
        assert done.returncode == 4
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        assert "hint: " in done.stderr
        assert "the disk is full" in done.stderr
        nothing_is_left(home)


@contextmanager
def small_disk(folder: Path):
    """A disk of 400 KB: enough for the stack's folder, but not for its data."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tidemark", folder], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_stack_survives_a_restart_of_the_engine(home, judged):
    command = os.environ.get(RESTART_VARIABLE)
    if not command:
        pytest.skip(f"the engine must not be restarted here: {RESTART_VARIABLE} is not set")
    assert tidemark(home, *UP).returncode == 0
    before = current(home=home).driver().remote
    subprocess.run(shlex.split(command), check=True, timeout=120)
    status = tidemark(home, "status")
    assert status.returncode == 4
    assert "stopped" in status.stdout
    done = tidemark(home, *UP)
    assert done.returncode == 0, done.stderr
    stack = current(home=home)
    assert stack.driver().remote == before
    verdict = judged(stack)
    assert verdict.verdict == "VALID", shown(verdict)
