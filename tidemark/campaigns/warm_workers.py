"""Several warm drivers' worth of work at once: each worker has a session and programs of its own on one driver."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.stack import Driver, Stack

T = TypeVar("T")

PER_DRIVER = 100
"""Items until the workers move to another driver. Spark forgets no query that it has run: each start leaves a session
whose StreamingQueryListenerBus hears of every task from then on. Calibration: after 60 seeds of a fuzz 223 of them took
4 % of a driver's time, more with each seed; a new driver costs as much as four or five seeds."""


@dataclass(frozen=True)
class WarmWorkers:
    """``number`` workers on one driver after the other; logs and evidence go below ``folder``."""

    stack: Stack
    folder: Path
    number: int = 2
    per_driver: int = PER_DRIVER

    def run(self, items: Iterable[T], work: Callable[[T, WarmDriver], bool]) -> None:
        """Have each item worked on by the next worker that is free, until ``work`` (called by threads) says False.

        Ctrl-C lets what runs end first, so that nothing is left behind. Raises what a worker raised.
        """
        waiting = iter(items)
        for turn in itertools.count():
            if not (some := list(itertools.islice(waiting, self.per_driver))):
                return
            with self._driver(turn) as driver:
                if not self._work_off(driver, some, work):
                    return

    @contextmanager
    def _driver(self, turn: int) -> Iterator[Driver]:
        """The stack's own, and after it, where drivers can be started, one that ends with its turn."""
        if turn == 0 or self.stack.spec.backend == "external":
            yield self.stack.driver()
            return
        driver = self.stack.start_driver(f"workers-{os.getpid()}-{turn}")
        try:
            yield driver
        finally:
            self.stack.stop(driver.name)

    def _work_off(self, driver: Driver, items: list[T], work: Callable[[T, WarmDriver], bool]) -> bool:
        """Whether to go on."""
        waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
        for item in items:
            waiting.put(item)
        stopped, errors = threading.Event(), list[BaseException]()

        def worker(number: int) -> None:
            logs = self.folder / f"worker-{number}"
            logs.mkdir(parents=True, exist_ok=True)
            try:
                with WarmDriver(self.stack, driver, logs) as warm:
                    while not stopped.is_set():
                        try:
                            item = waiting.get_nowait()
                        except queue.Empty:
                            return
                        if not work(item, warm):
                            stopped.set()
            except BaseException as error:  # noqa: BLE001 (raised again by the caller's thread)
                errors.append(error)
                stopped.set()

        threads = [threading.Thread(target=worker, args=(number,)) for number in range(self.number)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            stopped.set()
            for thread in threads:
                thread.join()
            raise
        if errors:
            raise errors[0]
        return not stopped.is_set()
