"""Copies logs of the stack, and the checkpoint, into the evidence: they are deleted with the stack or the run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tidemark.errors import TestbedError, TidemarkError
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
    """Copy the logs of a run that had faults or did not finish.

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


def keep_checkpoint(checkpoint: Path, folder: Path) -> None:
    """Copy a checkpoint; raises ``TestbedError`` for one that cannot be read whole, of which the rest is copied."""
    try:
        shutil.copytree(checkpoint, folder)
    except OSError as error:  # of several files shutil.Error has a list of from where, to where, and why
        failed = error.args[0] if isinstance(error, shutil.Error) else [error]
        why = [str(one[-1] if isinstance(one, tuple) else one) for one in failed]
        raise TestbedError(
            f"the checkpoint {str(checkpoint)!r} could not be copied whole",
            detail=why[0] + (f", and {len(why) - 1} more files" if len(why) > 1 else ""),
            hint="what could be read of it is in the run directory; free some disk space if it is full",
        ) from error
