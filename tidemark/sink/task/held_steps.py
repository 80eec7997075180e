"""Holds a task at a step of the protocol, if somebody asks for it: so that a fault can be injected there.

The environment variable :data:`FOLDER_VARIABLE` of an executor names a folder that executors and the fault injector see
under the same path; without it nothing here is done. A file ``QUERY.BATCH.STEP`` in it (:class:`StepRequest`) asks that
one task of that batch waits at that step. The first that comes there renames the file to ``QUERY.BATCH.STEP.held``,
writes into it who it is (a line of JSON), and waits until the file is gone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.sink.ledger_checks import Task
from tidemark.waiting import pause

FOLDER_VARIABLE = "TIDEMARK_SINK_STEPS"
HELD_S = 180.0
"""The longest hold: after it a task goes on, for the fault injector has ended.

Calibration: a fault is injected within a second.
"""
POLL_S = 0.005


@dataclass(frozen=True)
class StepRequest:
    """Asks for a task of a batch to be held at a step, which is a name of ``write_task``'s hook."""

    folder: Path
    query: str
    batch: int
    step: str

    @property
    def asked(self) -> Path:
        """The file that asks."""
        return self.folder / f"{self.query}.{self.batch}.{self.step}"

    @property
    def held(self) -> Path:
        """The file that says which task is held."""
        return self.folder / f"{self.asked.name}.held"

    def make(self) -> None:
        """Ask for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o777)  # executors may run as another user
        self.asked.touch()

    def held_task(self) -> dict[str, Any] | None:
        """The task that is held: ``partition``, ``attempt``, ``executor_id``; ``None`` while there is none."""
        try:
            text = self.held.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        found: dict[str, Any] | None = json.loads(text) if text.endswith("\n") else None
        return found

    def withdraw(self) -> None:
        """Ask no more; a task that is held goes on."""
        self.asked.unlink(missing_ok=True)
        self.held.unlink(missing_ok=True)


def holding(task: Task) -> Callable[[str], None]:
    """A hook for ``write_task`` that holds the task where it is asked for."""
    folder = os.environ.get(FOLDER_VARIABLE)

    def at(step: str) -> None:
        if folder:
            _hold(StepRequest(Path(folder), task.query, task.batch, step), task)

    return at


def _hold(request: StepRequest, task: Task) -> None:
    if not request.asked.exists():
        return
    try:
        told = {"partition": task.partition, "attempt": task.attempt, "executor_id": _executor_id()}
        request.asked.rename(request.held)  # one task alone succeeds
        with request.held.open(
            "r+", encoding="utf-8"
        ) as file:  # it may be withdrawn by now: it is not made anew
            file.write(json.dumps(told) + "\n")
    except OSError:
        return
    deadline = time.monotonic() + HELD_S
    while request.held.exists() and time.monotonic() < deadline:
        pause(POLL_S)


def _executor_id() -> str:
    """The id of the executor whose Python worker this is: in the command line of one of its ancestors; or nothing."""
    pid = os.getpid()
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"--executor-id" in words:
            return words[words.index(b"--executor-id") + 1].decode()
        line = Path(f"/proc/{pid}/stat").read_bytes()
        pid = int(line[line.rindex(b")") + 2 :].split()[1])  # the fourth field, see proc(5)
    return ""
