"""Guards a task's input stream: a stream that Spark cut short must not be committed as a complete partition.

Spark sends rows to a Python worker as an Arrow stream, and then one more number. If the task is killed, or its input
fails, Spark closes the connection, and Arrow takes this for the regular end of the stream: the rows so far would be
committed, and the ledger would record them as the complete partition. So the guard accepts the end of the stream only
if that number follows.

When an executor exits, Spark's daemon sends its workers a signal. A worker that exits at once leaves its transaction
open, and readers wait for its timeout; so the signal becomes an exception, and the transaction is aborted first.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tidemark.errors import SinkFailed, SinkRefused

END_OF_STREAM = (-4).to_bytes(4, "big", signed=True)
CLOSED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
SIGNALS = (signal.SIGHUP, signal.SIGTERM)


def guarded(batches: Iterable[Any], source: Any) -> Iterator[Any]:
    """The batches of a task, while Spark keeps the connection ``source``, from which they are read, open.

    Raises:
        SinkFailed: Spark closed the connection before it had sent all rows, or before all were read.
    """
    poll = select.poll()
    poll.register(source, CLOSED)
    for batch in batches:
        if poll.poll(0):
            raise _ended_early()
        yield batch
    following = source.peek(len(END_OF_STREAM))[: len(END_OF_STREAM)]
    if not following or not END_OF_STREAM.startswith(following):
        raise _ended_early()


def task_input() -> Any:
    """The connection from which this Python worker reads, found in the stack frame of PySpark's worker main function.

    Raises:
        SinkRefused: the frame or the connection was not found.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("infile") if frame.f_code.co_name == "main" else None
        if hasattr(found, "peek") and hasattr(found, "fileno"):
            return found
        frame = frame.f_back
    raise SinkRefused(
        "the sink cannot verify that its input is complete",
        detail="it did not find the input connection of PySpark's worker, which differs in this version of PySpark; "
        "without it, the partial rows of a killed task could be committed as a complete partition",
        hint="use PySpark 4.2, and do not set spark.python.worker.module or spark.python.daemon.module",
    )


@contextmanager
def graceful_shutdown() -> Iterator[None]:
    """Turn the first SIGTERM or SIGHUP into ``SystemExit``, so that the transaction is aborted; ignore later ones."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _exit) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: object) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _ended_early() -> SinkFailed:
    return SinkFailed(
        "Spark ended the task before all of its rows had arrived",
        detail="the query was stopped, the task was killed, or its input failed; no row of this attempt is visible",
        hint="nothing needs to be done: the batch is run again",
    )
