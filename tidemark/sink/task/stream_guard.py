"""Whether a task's input is whole, and whether anybody still wants its rows: what Spark tells a worker without words.

Spark hands rows to a Python worker as an Arrow stream, and after its end writes one number more. A task that is killed,
or whose input fails on the way, ends by a closed connection, which Arrow takes for an end like any other: the rows that
came until then would be committed as if they were all, and an entry in the ledger would say so for good. So the end of
the rows is believed only if that number follows.

When an executor ends, Spark's daemon ends its workers with a signal; whoever dies of it at once leaves a transaction
open, and readers wait for its timeout.
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
GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
SIGNALS = (signal.SIGHUP, signal.SIGTERM)


def whole(batches: Iterable[Any], source: Any) -> Iterator[Any]:
    """The batches, as long as Spark holds the connection; ``source`` is what they are read from.

    Raises:
        SinkFailed: Spark has closed the connection before it had sent all rows, or before all were taken.
    """
    poll = select.poll()
    poll.register(source, GONE)
    for batch in batches:
        if poll.poll(0):
            raise _unwanted()
        yield batch
    following = source.peek(len(END_OF_STREAM))[: len(END_OF_STREAM)]
    if not following or not END_OF_STREAM.startswith(following):
        raise _unwanted()


def input_of_task() -> Any:
    """The connection from which the worker that this runs in reads, found in the frame of Spark's main function.

    Raises:
        SinkRefused: there is none, or not one that can be looked at.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("infile") if frame.f_code.co_name == "main" else None
        if hasattr(found, "peek") and hasattr(found, "fileno"):
            return found
        frame = frame.f_back
    raise SinkRefused(
        "the sink cannot see whether its input is whole",
        detail="it looks for the connection of Spark's worker, which is elsewhere in this version of PySpark; "
        "without it the rows of a task that was killed could pass for all there are",
        hint="use PySpark 4.2, and leave spark.python.worker.module and spark.python.daemon.module as they are",
    )


@contextmanager
def ended_in_order() -> Iterator[None]:
    """A signal to end becomes ``SystemExit``, so that what is open is closed first. Further ones change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _unwanted() -> SinkFailed:
    return SinkFailed(
        "Spark has ended the task before all its rows were there",
        detail="the query was stopped, the task was killed, or its input failed; nothing of this attempt is visible",
        hint="nothing needs to be done: the batch is run again, as a whole",
    )
