"""DuckDB at work, and Ctrl-C: a statement that runs in the main thread cannot be interrupted until it is done.

DuckDB 2.0 does not look for signals while it executes. While it fetches, it makes a ``RuntimeError`` of Ctrl-C, which a
judgement would take for a check that failed. So it works in a thread of its own, and the thread that asks waits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import duckdb

T = TypeVar("T")


class Interruptible(Protocol):
    """A connection of DuckDB."""

    def interrupt(self) -> None:
        """End the statement that runs: the call that executes it raises an error."""


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


def execute(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Carry out a statement that may take long; Ctrl-C ends it."""
    interruptible(connection, partial(connection.execute, statement))
