"""A stack whose broker, master and workers may be harmed; and nothing is left of what a test did to one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.conftest import leased, own_stack
from tidemark.processes import ProcessId
from tidemark.runner import RunOptions, RunResult, describe, new_run_directory, run
from tidemark.stack import DRIVER, Stack
from tidemark.stack.registry import StateFolder, Stopped
from tidemark.waiting import wait_until

__all__ = ["leased", "own_stack"]

GONE_S = 60.0
"""Calibration: a Python worker of a killed executor ends within 1 s after it is resumed."""


@pytest.fixture
def run_on_own(own_stack: Stack, tmp_path: Path) -> Callable[..., RunResult]:
    """As ``run_pipeline``, on a stack that may be harmed, its driver included: what was left dead is started first."""
    own_stack.repair()
    driver = DRIVER if own_stack.spec.backend == "local" else ""  # in containers one of the run's own

    def run_one(join: str, **more: Any) -> RunResult:
        options, contract = RunOptions(join, run_dir=tmp_path / "run", driver=driver, **more), describe(join)
        return run(options, contract, new_run_directory(options, contract), stack=own_stack)

    return run_one


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test none of its drivers and programs runs, and nobody stands still."""
    wanted = {"stack" if name == "run_pipeline" else name for name in request.fixturenames}
    stacks = [request.getfixturevalue(name) for name in ("stack", "own_stack") if name in wanted]
    folders = [StateFolder(stack.state_dir.parent) for stack in stacks]
    # With containers the agents inside of them stay connected for as long as the stack is leased.
    local = all(stack.spec.backend == "local" for stack in stacks)
    before = set(dict(_traces(folders, children=local)))
    yield
    left: list[str] = []

    def nothing() -> bool:
        left[:] = [said for trace, said in _traces(folders, children=local) if trace not in before]
        return not left

    wait_until(nothing, GONE_S, lambda: f"an end of what the test left: {sorted(left)}")


def _traces(folders: list[StateFolder], *, children: bool) -> Iterator[tuple[object, str]]:
    """What there is, by what it is known by, and how it looks just now."""
    own, parts = ProcessId.own(), [part for folder in folders for part in folder.components()]
    yield from ((part.name, f"part {part.name}") for part in parts if part.owner == own)
    for folder in folders:
        yield from (
            (path, f"stopped {path.stem}")
            for path, stop in folder.records("stopped", Stopped)
            if stop.owner == own
        )
    known = {part.process.pid for part in parts if part.process is not None}
    for process in psutil.process_iter():
        try:
            parent, status = process.ppid(), process.status()
            orphan = parent == 1 and status == psutil.STATUS_STOPPED
            child = parent == os.getpid() and process.pid not in known and status != psutil.STATUS_ZOMBIE
            if orphan or (children and child):
                is_frozen = status == psutil.STATUS_STOPPED
                yield (
                    (process, is_frozen),
                    f"process {process.pid}, {status}: {' '.join(process.cmdline())[:120]}",
                )
        except psutil.NoSuchProcess:
            continue
