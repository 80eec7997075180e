"""Candidate partners: an index of rows by key, for explaining and for the test of a known
defect.

Decides nothing: rows of every disposition but those without an event are in it. Built on first use,
because a run that is right never asks.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

from tidemark.formats.contract import COMPARISONS
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, Disposition, History
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, window


class Partners:
    """The partners that a row has by key and time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._window = window(history.contract.bound)

    def match(self, left_row: int, right_row: int) -> bool:
        """Whether two rows match by key, time and condition; a NULL key matches nothing."""
        rows = self._history.rows
        if rows.key[left_row] != rows.key[right_row] or rows.key[left_row] < 0:
            return False
        return right_row in self.of(left_row)

    def of(self, row: int) -> list[int]:
        """All rows of the other side that match a row, earliest first, filtered ones too."""
        rows = self._history.rows
        side, key, time_us = rows.side[row], rows.key[row], rows.time_us[row]
        entries = self._by_key[1 - side].get(key, [])
        if side == LEFT:
            low_us, high_us = time_us - self._window.upper_us, time_us - self._window.lower_us
        else:
            low_us, high_us = time_us + self._window.lower_us, time_us + self._window.upper_us
        if time_us == NULL_TIME_US and not self._window.is_boundless:
            return []
        first = bisect_left(entries, low_us << ROW_BITS)
        last = bisect_left(entries, (high_us + 1) << ROW_BITS, first)
        found = [entry & ROW_MASK for entry in entries[first:last]]
        return [
            other
            for other in found
            if self._condition_holds(*((row, other) if side == LEFT else (other, row)))
        ]

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
