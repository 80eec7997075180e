"""Copies the logs of driver and executors into the evidence of a run that had faults or did not finish.

Reads files of the stack's directory only, because that directory is deleted with the stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tidemark.errors import TidemarkError
from tidemark.processes import tail
from tidemark.stack import Driver, Stack

LINES = 400
"""The last lines of each executor's log that are kept."""


def keep_logs(stack: Stack, drivers: Iterable[Driver], folder: Path) -> None:
    """Copy the logs: ``driver.log``, and the ends of the executors' logs as ``executor-APPLICATION-NUMBER.log``."""
    for driver in dict.fromkeys(drivers):
        with suppress(TidemarkError):  # the driver is gone, and its log with it
            (folder / "driver.log").write_text(stack.logs(driver.name, None), encoding="utf-8")
        for log in sorted(stack.state_dir.glob(f"worker-*/{driver.app_id}/*/stderr")):
            name = f"executor-{driver.app_id}-{log.parent.name}.log"
            (folder / name).write_text(tail(log, LINES), encoding="utf-8")
