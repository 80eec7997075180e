"""Candidate partners: an index of rows by key, for explaining and for the test of a known
defect.

Decides nothing: rows of every disposition but those without an event are in it. Built on first use,
because a run that is right never asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from tidemark.formats.contract import COMPARISONS
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, Disposition, History
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, window

Times = dict[int, list[int]]
"""Rows by key, each row as ``time_us << ROW_BITS | row``, sorted."""


class Partners:
    """The partners that a row has by key and time. One key can have very many, so what only asks does not list them."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._window = window(history.contract.bound)
        self._known: dict[tuple[int, Disposition], Times] = {}

    def match(self, left_row: int, right_row: int) -> bool:
        """Whether two rows match by key, time and condition; a NULL key matches nothing."""
        rows = self._history.rows
        if rows.key[left_row] != rows.key[right_row] or rows.key[left_row] < 0:
            return False
        times_us = rows.time_us[left_row], rows.time_us[right_row]
        is_there = rows.disposition[right_row] != Disposition.UNREADABLE
        if not is_there or (NULL_TIME_US in times_us and not self._window.is_boundless):
            return False
        return self._window.holds(*times_us) and self._condition_holds(left_row, right_row)

    def of(self, row: int) -> list[int]:
        """All rows of the other side that match a row, earliest first, filtered ones too."""
        return list(self.each(row))

    def each(self, row: int) -> Iterator[int]:
        """The same, looked for one by one."""
        rows = self._history.rows
        side, time_us = rows.side[row], rows.time_us[row]
        entries = self._by_key[1 - side].get(rows.key[row], [])
        low_us, high_us = self._reach(side, time_us)
        for at in range(bisect_left(entries, low_us << ROW_BITS), len(entries)):
            if entries[at] >> ROW_BITS > high_us:
                return
            other = entries[at] & ROW_MASK
            if self._condition_holds(*((row, other) if side == LEFT else (other, row))):
                yield other

    def with_disposition(self, row: int, disposition: Disposition, dispositions: bytearray) -> Iterator[int]:
        """Those that have one disposition; ``dispositions`` is that of the prediction, the same at every call."""
        return (other for other in self.each(row) if dispositions[other] == disposition)

    def has(self, row: int, disposition: Disposition, dispositions: bytearray) -> bool:
        """Whether there is one that has it."""
        if self._has_conditions:
            return any(True for _ in self.with_disposition(row, disposition, dispositions))
        rows, side = self._history.rows, self._history.rows.side[row]
        of_key = self._with_disposition(1 - side, disposition, dispositions)
        return _count(of_key.get(rows.key[row], []), *self._reach(side, rows.time_us[row])) > 0

    def _reach(self, side: int, time_us: int) -> tuple[int, int]:
        """The times on the other side that a time matches, both inclusive; none if it is missing."""
        if time_us == NULL_TIME_US and not self._window.is_boundless:
            return 0, -1
        return self._window.partners_us(side, time_us)

    @property
    def _has_conditions(self) -> bool:
        pushdown = self._history.pushdown
        return bool(pushdown.pairs or pushdown.early[LEFT] or pushdown.early[RIGHT])

    def _condition_holds(self, left_row: int, right_row: int) -> bool:
        """Whether the conditions besides keys and times hold for two rows."""
        pushdown, numbers = self._history.pushdown, self._history.rows.numbers
        for side, row in ((LEFT, left_row), (RIGHT, right_row)):
            if not all(passes(numbers[side][what.field][row], what) for what in pushdown.early[side]):
                return False
        for term in pushdown.pairs:
            left, right = (
                numbers[LEFT][term.left or ""][left_row],
                numbers[RIGHT][term.right or ""][right_row],
            )
            if left is None or right is None or not COMPARISONS[term.op](left, right):
                return False
        return True

    @cached_property
    def _by_key(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        rows = self._history.rows
        indices: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        for row, key in enumerate(rows.key):
            null_time = rows.time_us[row] == NULL_TIME_US and not self._window.is_boundless
            if key >= 0 and rows.disposition[row] != Disposition.UNREADABLE and not null_time:
                indices[RIGHT if rows.side[row] else LEFT].setdefault(key, []).append(
                    rows.time_us[row] << ROW_BITS | row
                )
        for index in indices:
            for entries in index.values():
                entries.sort()
        return indices

    def _with_disposition(self, side: int, disposition: Disposition, dispositions: bytearray) -> Times:
        """The rows of a side that have one disposition, by key."""
        if (side, disposition) not in self._known:
            self._known[side, disposition] = {
                key: [entry for entry in entries if dispositions[entry & ROW_MASK] == disposition]
                for key, entries in self._by_key[side].items()
            }
        return self._known[side, disposition]


def _count(entries: list[int], low_us: int, high_us: int) -> int:
    """How many of these rows have a time in a range, both ends in it."""
    return max(0, bisect_left(entries, (high_us + 1) << ROW_BITS) - bisect_left(entries, low_us << ROW_BITS))
