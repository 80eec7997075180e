"""DuckDB at work, and Ctrl-C: a statement that runs in the main thread cannot be interrupted until it is done.

DuckDB 2.0 does not look for signals while it executes. While it fetches, it makes a ``RuntimeError`` of Ctrl-C, which a
judgement would take for a check that failed. So it works in a thread of its own, and the thread that asks waits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Interruptible(Protocol):
    """A connection of DuckDB."""

    def interrupt(self) -> None:
        """End what it does now; whoever waits for that gets an error."""


def interruptible(connection: Interruptible, work: Callable[[], T]) -> T:
    """What ``work`` gives, which uses the connection; Ctrl-C ends it at once, and is raised as such."""
    with ThreadPoolExecutor(1, thread_name_prefix="duckdb") as pool:
        done = pool.submit(work)
        try:
            return done.result()
        except BaseException:
            if not done.done():
                connection.interrupt()
            raise
