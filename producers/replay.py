"""Publishes a trace with its partitions, order, keys, headers and timestamps, at one of three paces.

``backlog``  everything at once.
``timed``    by ``arrival_ms``, in real time or ``speed`` times as fast.
``stepped``  slice by slice, on request: another program knows when a slice is processed, and requests the next.

Requests are lines on standard input::

    publish 3            ->  {"published": 3, "records": 812}

An answer means that the broker has acknowledged the slice. Slices are requested in ascending order.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TextIO

from producers.kafka_out import KafkaOut
from tidemark.errors import UsageError
from tidemark.formats.trace import Header, Record
from tidemark.waiting import pause

AHEAD_RECORDS = 100_000
"""Calibration: a stepped slice has some thousand records; this many are read in a third of a second, and take 90 MB."""

FLUSH_AHEAD_S = 0.002
"""A timed record that is due within this time is sent at once: the client waits longer to fill a batch."""

Progress = Callable[[int], None]


def publish_all(records: Iterable[Record], out: KafkaOut, progress: Progress) -> int:
    """Publish without pauses. ``progress`` is called now and then with the number sent; returns the total."""
    count = number = 0
    for record in records:
        if record.slice != number:
            number = record.slice
            out.end_segments()
        out.send(record)
        count += 1
        if count % 10_000 == 0:
            progress(count)
    out.wait_for_acks()
    out.wait_until_compacted()
    progress(count)
    return count


def publish_timed(records: Iterable[Record], out: KafkaOut, progress: Progress, *, speed: float = 1.0) -> int:
    """Publish each record at its arrival time, ``speed`` times as fast as real time; returns the number of records."""
    if speed <= 0:
        raise UsageError(
            f"the speed is {speed:g}",
            hint="give more than 0: 1 is real time, 60 publishes a minute of the trace per second",
        )
    count, start_s, first_ms = 0, time.monotonic(), None
    for record in records:
        first_ms = record.arrival_ms if first_ms is None else first_ms
        due_s = start_s + (record.arrival_ms - first_ms) / 1000 / speed
        while (left_s := due_s - time.monotonic()) > FLUSH_AHEAD_S:
            pause(min(left_s, 0.2))
            out.check()
            progress(count)
        out.send(record)
        count += 1
    out.wait_for_acks()
    progress(count)
    return count


def publish_on_request(
    header: Header, records: Iterable[Record], out: KafkaOut, *, commands: TextIO, answers: TextIO
) -> None:
    """Publish a slice for each line ``publish N`` of ``commands``, and answer it, until ``commands`` ends."""
    slices = Slices(records)
    for line in commands:
        if not line.strip():
            continue
        wanted = _wanted(line, header.slices)
        count = 0
        for record in slices.take(wanted):
            out.send(record)
            count += 1
        out.wait_for_acks()
        if wanted == header.slices - 1:
            out.wait_until_compacted()
        say({"published": wanted, "records": count}, answers)
        slices.prefetch()


def say(answer: dict[str, Any], answers: TextIO) -> None:
    """Write one JSON line, at once."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class Slices:
    """The slices of a trace, one at a time. The next is read ahead, so that a suspended driver need not wait for it;
    of a large one only the first ``AHEAD_RECORDS``.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records: Iterator[Record] = iter(records)
        self._ahead: deque[Record] = deque()
        self._first_of_next: Record | None = next(self._records, None)
        self._taken = -1
        self.prefetch()

    def take(self, wanted: int) -> Iterator[Record]:
        """The records of slice ``wanted``, possibly none, as they are read: all have to be, before the next call.

        Raises ``UsageError`` if the slice is out of order.
        """
        self.prefetch()
        following = self._ahead[0].slice if self._ahead else None
        if wanted <= self._taken or (following is not None and wanted > following):
            raise UsageError(
                f"slice {wanted} was requested after slice {self._taken}",
                detail=f"the next slice with records is {following}" if following is not None else "",
                hint="request the slices in ascending order, each once and without gaps",
            )
        self._taken = wanted
        return iter(()) if following != wanted else self._rest_of(wanted)

    def prefetch(self) -> None:
        """Read the beginning of the next slice into memory."""
        first = self._first_of_next
        if self._ahead or first is None:
            return
        self._ahead.append(first)
        self._first_of_next = None
        for record in islice(self._records, AHEAD_RECORDS - 1):
            if record.slice != first.slice:
                self._first_of_next = record
                return
            self._ahead.append(record)

    def _rest_of(self, number: int) -> Iterator[Record]:
        while self._ahead:
            yield self._ahead.popleft()
        if self._first_of_next is not None:
            return  # all of it had been read ahead
        for record in self._records:
            if record.slice != number:
                self._first_of_next = record
                return
            yield record


def _wanted(line: str, slices: int) -> int:
    word, _, number = line.strip().partition(" ")
    if word != "publish" or not number.isdecimal() or int(number) >= slices:
        raise UsageError(
            f"{line.strip()!r} is not a request",
            hint=f"write `publish N` with N from 0 to {slices - 1}, one per line",
        )
    return int(number)
