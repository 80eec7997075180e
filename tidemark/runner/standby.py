"""A standby: a second driver, with executors of its own, on which a query goes on whose driver dies.

It is started in a thread while the query runs, and runs no query until then. The next one is started once the query has
committed a batch on it, so that its start does not slow the recovery. Where there is none, because it could not be
started or has died, the driver that died is started again, as without a standby.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress

from tidemark.errors import TidemarkError
from tidemark.runner.own_driver import own_driver
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.stack import Driver, Stack

POLL_S = 0.1
"""How often is asked whether a batch was committed, and whether a driver that is not needed any more has begun."""


class Standby:
    """The standby of one query; :func:`standby_of` makes it. Only the thread of the query takes it."""

    def __init__(self, stack: Stack, name: str, code: PipelineCode) -> None:
        self._stack = stack
        self._name = name
        self._code = code
        self._failures: list[str] = []
        self._started = 0
        self._starting = ""
        self._drivers = ExitStack()
        self._threads = ThreadPoolExecutor(1, "standby-driver")
        self._next: Future[Driver] | None = None
        self._over = threading.Event()

    def prepare(self, may_begin: Callable[[], bool]) -> None:
        """Start one in the background as soon as ``may_begin`` says so, unless there is one that was not taken."""
        if self._next is None:
            self._next = self._threads.submit(self._prepared, may_begin)

    def is_settled(self) -> bool:
        """Whether a driver can be taken now, or it is known that there is none."""
        prepared = self._next
        return prepared is not None and prepared.done()

    def take(self) -> Driver | None:
        """The driver, which is the caller's from then on; ``None`` if there is none that lives."""
        prepared = self._next
        if prepared is None or not prepared.done():
            return None
        self._next = None
        try:
            driver = prepared.result()
            if self._stack.driver(driver.name).app_id == driver.app_id:
                return driver
            self._failures.append(f"{driver.name} was started again by somebody else")
        except Exception as error:  # noqa: BLE001 (whatever it is, the driver that died can be started again)
            self._failures.append(_said(error))
        return None

    def failures(self) -> list[str]:
        """Why there was none, each time that one could not be started or had died."""
        prepared = self._next
        error = prepared.exception() if prepared is not None and prepared.done() else None
        if not isinstance(error, Exception) or isinstance(error, CancelledError):
            return [*self._failures]
        return [*self._failures, _said(error)]

    def end(self) -> None:
        """End all that were started; one that is being started is killed."""
        self._over.set()
        prepared = self._next
        try:
            while prepared is not None and not wait([prepared], POLL_S).done:
                with suppress(TidemarkError):  # it has not begun, or is dead
                    self._stack.kill(self._starting)
            self._threads.shutdown()
        finally:
            self._drivers.close()

    def _prepared(self, may_begin: Callable[[], bool]) -> Driver:
        while not may_begin():  # for as long as the query runs: it says itself that it hung
            if self._over.wait(POLL_S):
                raise CancelledError
        self._started += 1
        self._starting = f"{self._name}-standby-{self._started}"
        return self._drivers.enter_context(own_driver(self._stack, self._starting, self._code))


def _said(error: Exception) -> str:
    return error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"


@contextmanager
def standby_of(stack: Stack, name: str, code: PipelineCode) -> Iterator[Standby]:
    """The standby of a query with this name and code, ended at exit."""
    standby = Standby(stack, name, code)
    try:
        yield standby
    finally:
        standby.end()
