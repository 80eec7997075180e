"""A user's job as processes: a program that is its own driver, or a Spark Connect program and its driver.

A classic program is a component of the stack, so that faults find it by its name. A Connect program is a client, a
process of this machine; its driver is a component that the run starts for it, and faults kill that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tidemark.errors import TestbedError, TidemarkError
from tidemark.processes import ProcessId, end, spawn
from tidemark.stack import Driver, Stack


class AppJob(Protocol):
    """What starts and ends a job; ``driver_name`` is the component that is its driver."""

    driver_name: str

    def start(self) -> None:
        """Start it for the first time."""

    def start_again(self) -> None:
        """Start it again, with its driver if that is gone."""

    def driver(self) -> Driver:
        """Its driver; raises ``TidemarkError`` unless the job and the driver that it was started on live."""

    def log_start(self) -> int:
        """The size of the driver's event log when the job was started, in bytes."""

    def said(self) -> str:
        """All that it printed so far."""

    def kill(self) -> None:
        """SIGKILL it."""

    def close(self) -> None:
        """End it for good, and keep what it printed."""


class ClassicJob:
    """A program with a driver of its own, as a component of this name; ``log`` gets what it printed."""

    def __init__(
        self, stack: Stack, name: str, words: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.driver_name = name
        self._stack = stack
        self._words = words
        self._environment = environment
        self._log = log

    def start(self) -> None:
        """See ``AppJob``."""
        self._stack.start_app(self.driver_name, self._words, self._environment, Path.cwd())

    def start_again(self) -> None:
        """See ``AppJob``."""
        self._stack.start(self.driver_name)

    def driver(self) -> Driver:
        """See ``AppJob``."""
        return self._stack.driver(self.driver_name)

    def log_start(self) -> int:
        """Each start of the job has an event log of its own."""
        return 0

    def said(self) -> str:
        """See ``AppJob``."""
        return self._stack.logs(self.driver_name, None)

    def kill(self) -> None:
        """See ``AppJob``."""
        self._stack.kill(self.driver_name)

    def close(self) -> None:
        """See ``AppJob``."""
        try:
            self._log.write_text(self.said(), encoding="utf-8")
        finally:
            self._stack.stop(self.driver_name)


class ConnectJob:
    """A Spark Connect program on a driver that the run has for itself; it prints into ``log``."""

    def __init__(
        self, stack: Stack, driver: Driver, words: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.driver_name = driver.name
        self._stack = stack
        self._driver = driver
        self._words = words
        self._environment = environment
        self._log = log
        self._log_start = 0
        self._process: ProcessId | None = None

    def start(self) -> None:
        """See ``AppJob``."""
        events = self._driver.event_log
        self._log_start = events.stat().st_size if events is not None and events.exists() else 0
        self._process = spawn(self._words, log=self._log, cwd=Path.cwd(), env=self._environment)

    def start_again(self) -> None:
        """See ``AppJob``. A query that the program left on its driver ends when the program starts it again.

        That is ``spark.sql.streaming.stopActiveRunOnRestart``.
        """
        self.kill()
        with suppress(TidemarkError):
            self._stack.start(self.driver_name, warm=False)
        self._driver = self._stack.driver(self.driver_name)
        self.start()

    def driver(self) -> Driver:
        """See ``AppJob``."""
        if self._process is None or not self._process.alive:
            raise TestbedError("the job has ended", hint=f"its log is {str(self._log)!r}")
        driver = self._stack.driver(self.driver_name)
        if driver.app_id != self._driver.app_id:
            raise TestbedError(
                f"the driver {self.driver_name!r} was started again", hint="start the job again"
            )
        return driver

    def log_start(self) -> int:
        """See ``AppJob``."""
        return self._log_start

    def said(self) -> str:
        """See ``AppJob``."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """See ``AppJob``. The driver lives on."""
        if self._process is not None:
            end([self._process], ask_s=0)

    close = kill
