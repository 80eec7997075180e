"""Several warm drivers' worth of work at once: each lane has a session and programs of its own on one driver."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidemark.cases.warm import WarmDriver
from tidemark.stack import Stack

T = TypeVar("T")


@dataclass(frozen=True)
class Lanes:
    """``number`` lanes on a stack's driver; logs and evidence go below ``folder``."""

    stack: Stack
    folder: Path
    number: int = 2

    def run(self, items: Iterable[T], work: Callable[[T, WarmDriver], bool]) -> None:
        """Have each item worked on by the next lane that is free, until ``work`` (called by threads) says False.

        Ctrl-C lets what runs end first, so that nothing is left behind. Raises what a lane raised.
        """
        waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
        for item in items:
            waiting.put(item)
        stopped, errors = threading.Event(), list[BaseException]()

        def lane(number: int) -> None:
            logs = self.folder / f"lane-{number}"
            logs.mkdir(parents=True, exist_ok=True)
            try:
                with WarmDriver(self.stack, self.stack.driver(), logs) as warm:
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

        threads = [threading.Thread(target=lane, args=(number,)) for number in range(self.number)]
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
