"""Copies logs of the stack, and the checkpoint, into the evidence: they are deleted with the stack or the run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tidemark.errors import TidemarkError
from tidemark.formats.run_notes import CHECKPOINT
from tidemark.processes import tail
from tidemark.stack import ComponentKind, Driver, Stack

LINES = 400
"""The last lines of each executor's log that are kept."""
SERVER_LINES = 2_000
"""The last lines of the log of each server that are kept. Calibration: of a broker that is killed and started again ten
times in a run it is all; a stack that is up for days has more.
"""
SERVERS = (ComponentKind.BROKER, ComponentKind.REGISTRY, ComponentKind.MASTER, ComponentKind.WORKER)


def keep_logs(stack: Stack, drivers: Iterable[Driver], folder: Path) -> None:
    """Copy the logs of a run that had faults, did not finish, or whose query hung.

    They are ``driver.log``, of a standby on which the query went on ``driver-2.log`` and so on, the ends of the
    executors' logs as ``executor-APPLICATION-NUMBER.log``, and those of brokers, schema registry, master and workers,
    by the names of the components.
    """
    lives = list(dict.fromkeys(drivers))
    for number, component in enumerate(dict.fromkeys(driver.name for driver in lives), 1):
        name = "driver.log" if number == 1 else f"driver-{number}.log"
        with suppress(TidemarkError):  # the driver is gone, and its log with it
            (folder / name).write_text(stack.logs(component, None), encoding="utf-8")
    for driver in lives:
        for log in sorted(stack.state_dir.glob(f"worker-*/{driver.app_id}/*/stderr")):
            name = f"executor-{driver.app_id}-{log.parent.name}.log"
            (folder / name).write_text(tail(log, LINES), encoding="utf-8")
    for server in (name for kind in SERVERS for name in stack.components(kind)):
        with suppress(TidemarkError):
            if text := stack.logs(server, SERVER_LINES):  # the logs of an external stack are on its machines
                (folder / f"{server}.log").write_text(text, encoding="utf-8")


def keep_checkpoint(checkpoint: Path, folder: Path) -> list[str]:
    """Copy a checkpoint, which is not judged; returns notes on what of it was not copied, and why.

    A query that has not stopped goes on renaming and deleting files meanwhile.
    """
    try:
        shutil.copytree(checkpoint, folder)
    except shutil.Error as error:
        failed = [(source, str(why)) for source, _target, why in error.args[0]]
    except OSError as error:
        return [f"{CHECKPOINT}it could not be copied: {error}"]
    else:
        return []
    gone = [os.path.relpath(source, checkpoint) for source, _ in failed if not os.path.lexists(source)]
    kept = [why for source, why in failed if os.path.lexists(source)]
    vanished = f"{CHECKPOINT}files vanished while it was copied: {_first_of(gone)}"
    return [
        *([f"{CHECKPOINT}it could not be copied whole: {_first_of(kept)}"] if kept else []),
        *([vanished] if gone else []),
    ]


def _first_of(said: list[str]) -> str:
    return f"{said[0]}, and {len(said) - 1} more" if len(said) > 1 else "".join(said)
