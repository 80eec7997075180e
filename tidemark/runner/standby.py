"""A standby: a second driver, with executors of its own, on which a query goes on whose driver dies.

It is started in a thread while the query runs, and runs no query until then. The next one is started once the query has
committed a batch on it, so that its start does not slow the recovery.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from tidemark.stack import Driver
from tidemark.waiting import wait_until

BATCH_S = 900.0
"""Calibration: a job may take ten minutes to plan its first batch on an overloaded machine."""


class Standby:
    """The standby of one query. A context manager, whose end ends the drivers that it has started.

    ``start`` starts a driver of a name, and ends it.
    """

    def __init__(self, name: str, start: Callable[[str], AbstractContextManager[Driver]]) -> None:
        self._name = name
        self._start = start
        self._started = 0
        self._drivers = ExitStack()
        self._threads = ThreadPoolExecutor(1, "standby-driver")
        self._next: Future[Driver] | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self._over.set()
        self._threads.shutdown(cancel_futures=True)
        self._drivers.close()

    def prepare(self, may_begin: Callable[[], bool]) -> None:
        """Start one in the background as soon as ``may_begin`` says so, unless there is one that was not taken."""
        if self._next is None:
            self._next = self._threads.submit(self._prepared, may_begin)

    def is_ready(self) -> bool:
        """Whether a driver could be taken now; raises the ``TidemarkError`` of one that could not be started."""
        if self._next is None or not self._next.done():
            return False
        self._next.result()
        return True

    def take(self) -> Driver | None:
        """The driver, which is the caller's from then on; ``None`` if it is not ready."""
        if not self.is_ready() or self._next is None:
            return None
        driver, self._next = self._next.result(), None
        return driver

    def _prepared(self, may_begin: Callable[[], bool]) -> Driver:
        wait_until(
            lambda: self._over.is_set() or may_begin(),
            BATCH_S,
            lambda: "a batch to be committed before a standby is started",
            poll_s=0.1,
        )
        if self._over.is_set():
            raise CancelledError
        self._started += 1
        return self._drivers.enter_context(self._start(f"{self._name}-standby-{self._started}"))
