"""Arranges drafts in slices: cuts them by arrival time, adds the edge rows, sorts, predicts which rows are late.

The drafts are in a ``producers.spool``; otherwise without I/O. Slices are intervals of arrival time of equal length;
the last one also has all later records. An empty slice is left out, because no batch would follow it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from random import Random

from producers.draft import Draft, Flaw, arrival_order
from producers.edges import EdgeMaker
from producers.settings import BASE_MS, TOPICS, Settings
from producers.silence import parse_silence, silence_in
from producers.spool import SortedSpool
from tidemark.formats.watermark import WatermarkTracker

UNCERTAIN_BATCHES = 3
"""Two for Spark's rule for the late watermark, and one because batches are not cut where slices are."""

NEVER_MS = -(1 << 62)
"""Before every event time."""


_ARRIVAL = attrgetter("arrival_ms")


def _per_topic() -> tuple[array[int], array[int]]:
    return array("q"), array("q")


@dataclass
class _Slice:
    """What a slice has shown so far: per topic the latest time of a row, and the rows without a key that are later.

    Some join kinds filter rows without a key below the watermark, others do not. If such a row were the latest of its
    input, the watermark would depend on the join kind: it is given its key back.
    """

    latest_ms: list[int] = field(default_factory=lambda: [NEVER_MS, NEVER_MS])
    keyless_ms: tuple[array[int], array[int]] = field(default_factory=_per_topic)
    keyless: tuple[array[int], array[int]] = field(default_factory=_per_topic)
    """Their numbers, in the same order."""

    def see_flawed(self, row: Draft) -> None:
        """Note a row without a key that is later than the latest row; earlier ones that no longer are go."""
        latest_ms = self.latest_ms[row.topic]
        if row.flaw is not Flaw.NULL_KEY or row.event_ms <= latest_ms:
            return
        times_ms, numbers = self.keyless_ms[row.topic], self.keyless[row.topic]
        if times_ms and times_ms[0] <= latest_ms:
            kept = [at for at, time_ms in enumerate(times_ms) if time_ms > latest_ms]
            times_ms[:] = array("q", [times_ms[at] for at in kept])
            numbers[:] = array("q", [numbers[at] for at in kept])
        times_ms.append(row.event_ms)
        numbers.append(row.number)

    def observed(self, predicted: WatermarkTracker) -> tuple[array[int], array[int]]:
        """Advance the predicted watermark by the rows; the numbers, per topic, of those that get their key back."""
        restored = _per_topic()
        for topic, latest_ms in enumerate(self.latest_ms):
            if latest_ms != NEVER_MS:
                predicted.observe(topic, latest_ms)
            for time_ms, number in zip(self.keyless_ms[topic], self.keyless[topic], strict=True):
                before_ms = predicted.latest_ms[topic]
                if before_ms is None or time_ms > before_ms:
                    restored[topic].append(number)
                    predicted.observe(topic, time_ms)
        return restored


class Arrivals:
    """Drafts in the order of their arrival. All are added, then ``end`` adds the edge rows, then it can be read.

    ``watermarks_ms`` is the late watermark of each slice at the pace ``stepped``, ``topics`` the number of records of
    each topic, ``flaws`` that of each flaw, ``edges`` that of the edge rows, ``duplicates`` that of second records.
    """

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        self.watermarks_ms: list[int] = []
        self.topics = [0, 0]
        self.flaws = [0] * len(Flaw)
        self.edges = self.duplicates = 0
        self._settings = settings
        self._sorted = SortedSpool(Draft, attrgetter("order"), folder)
        self._slices: dict[int, _Slice] = {}
        self._restored: dict[int, tuple[array[int], array[int]]] = {}
        self._first_edges = (0, 0)
        asked = parse_silence(settings.silent, TOPICS)
        self._silence = silence_in(Random(f"{settings.seed}/silence"), asked, BASE_MS, settings.duration_ms)

    def close(self) -> None:
        """Delete what is on disk."""
        self._sorted.close()

    def add(self, rows: Sequence[Draft]) -> None:
        """Add rows; those of equal arrival, topic and partition stay in the order in which they are added."""
        if self._silence is not None:
            self._silence.postpone(rows)
        slices, topics, none = self._slices, self.topics, Flaw.NONE
        span_ms, last = self._settings.span_ms, self._settings.wanted_slices - 1
        for row in rows:
            row.order = arrival_order(row)
            index = min(max((row.arrival_ms - BASE_MS) // span_ms, 0), last)
            of = slices.get(index)
            if of is None:
                of = slices[index] = _Slice()
            topics[row.topic] += 1
            if row.flaw is not none:
                self.flaws[row.flaw] += 1
                of.see_flawed(row)
            elif row.event_ms > of.latest_ms[row.topic]:
                of.latest_ms[row.topic] = row.event_ms
        self._sorted.add(rows)

    def end(self, edges: EdgeMaker, first_edges: tuple[int, int]) -> None:
        """Add edge rows, also around the watermark that each slice will have.

        ``first_edges`` are the numbers of the first edge row of each topic.
        """
        self._first_edges = first_edges
        for rows in edges.bound_edges():
            self._add_edges(rows)
        predicted = WatermarkTracker(self._settings.delays_ms)
        for index, of in sorted(self._slices.items()):
            before_ms = predicted.watermark_ms
            if before_ms:
                self._add_edges(edges.late_edges(before_ms, index))
            self._restored[index] = of.observed(predicted)
            self.flaws[Flaw.NULL_KEY] -= sum(map(len, self._restored[index]))
            after_ms = predicted.advance()
            self._add_edges(edges.eviction_edges(before_ms, after_ms, index))
            self.watermarks_ms.append(before_ms)

    def slices(self) -> Iterator[tuple[int, list[Draft]]]:
        """All rows in the order of their arrival, some at a time, each time with the number of their slice."""
        indexes, following = sorted(self._slices), list(self._first_edges)
        number, restored = -1, (frozenset[int](), frozenset[int]())
        ends_ms = [BASE_MS + index * self._settings.span_ms for index in indexes[1:]]
        for rows in self._sorted:
            first = 0
            while first < len(rows):
                if number < 0 or (number < len(ends_ms) and rows[first].arrival_ms >= ends_ms[number]):
                    number += 1
                    restored = _sets(self._restored[indexes[number]])
                    continue
                end = len(rows)
                if number < len(ends_ms):
                    end = bisect_left(rows, ends_ms[number], first, key=_ARRIVAL)
                piece = rows[first:end]
                _finish(piece, restored, following)
                yield number, piece
                first = end

    def last_slices(self) -> dict[tuple[int, int], int]:
        """The last slice in which each partition of a topic has rows."""
        return {(row.topic, row.partition): number for number, rows in self.slices() for row in rows}

    def late(self) -> int:
        """The number of late rows at the pace ``stepped``: with a key, and with a time at or before the watermark."""
        return sum(_late(rows, self.watermarks_ms[number]) for number, rows in self.slices())

    def late_in_any_backlog(self) -> int:
        """The rows that a catch-up drops as late, wherever its batches begin. A batch has about as many records as a
        slice.

        The late watermark of a batch stems from the batch two before it. A row is therefore late in any case if the
        watermark had passed it ``UNCERTAIN_BATCHES`` batches of records earlier.
        """
        predicted = WatermarkTracker(self._settings.delays_ms)
        step = max(sum(self.topics) // len(self._slices) // 4, 1)
        reached: deque[int] = deque(maxlen=4 * UNCERTAIN_BATCHES + 1)
        found = index = 0
        for _, rows in self.slices():
            for row in rows:
                if index % step == 0:
                    reached.append(predicted.advance())
                index += 1
                if row.flaw is not Flaw.NONE:
                    continue
                predicted.observe(row.topic, row.event_ms)
                found += len(reached) > 4 * UNCERTAIN_BATCHES and row.event_ms <= reached[0]
        return found

    def _add_edges(self, rows: Sequence[Draft]) -> None:
        if self._silence is not None:
            rows = self._silence.heard(rows)
        self.edges += len(rows)
        self.add(rows)


def _sets(numbers: tuple[array[int], array[int]]) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(numbers[0]), frozenset(numbers[1])


def _finish(rows: list[Draft], restored: tuple[frozenset[int], frozenset[int]], following: list[int]) -> None:
    """Give edge rows their numbers, and their keys back to rows that must not be the latest of an input without one."""
    for row in rows:
        if row.is_edge:
            row.number = following[row.topic]
            following[row.topic] += 1
        elif row.flaw is Flaw.NULL_KEY and row.number in restored[row.topic]:
            row.flaw = Flaw.NONE


def _late(rows: Iterable[Draft], watermark_ms: int) -> int:
    """One microsecond after the watermark is not late."""
    return sum(
        1
        for row in rows
        if row.event_ms <= watermark_ms
        and row.flaw is Flaw.NONE
        and (row.event_ms < watermark_ms or not row.sub_us)
    )
