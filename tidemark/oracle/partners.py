"""Who could have matched whom: an index of rows by key, for explaining and for the test of a known
defect.

Free of any opinion: rows of every fate but those without an event are in it. Built when it is first asked,
because a run that is right never asks.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

from tidemark.oracle.bounds import window
from tidemark.oracle.history import LEFT, RIGHT, ROW_BITS, ROW_MASK, Fate, History


class Partners:
    """The partners that a row has by key and time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._window = window(history.contract.bound)

    def match(self, left_row: int, right_row: int) -> bool:
        """Whether two rows match by key and time; a NULL key matches nothing."""
        rows = self._history.rows
        return rows.key[left_row] == rows.key[right_row] >= 0 and self._window.holds(
            rows.time_us[left_row], rows.time_us[right_row]
        )

    def of(self, row: int) -> list[int]:
        """All rows of the other side that match a row, earliest first."""
        rows = self._history.rows
        side, key, time_us = rows.side[row], rows.key[row], rows.time_us[row]
        entries = self._by_key[1 - side].get(key, [])
        if side == LEFT:
            low_us, high_us = time_us - self._window.upper_us, time_us - self._window.lower_us
        else:
            low_us, high_us = time_us + self._window.lower_us, time_us + self._window.upper_us
        first = bisect_left(entries, low_us << ROW_BITS)
        last = bisect_left(entries, (high_us + 1) << ROW_BITS, first)
        return [entry & ROW_MASK for entry in entries[first:last]]

    @cached_property
    def _by_key(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        rows = self._history.rows
        indices: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        for row, key in enumerate(rows.key):
            if key >= 0 and rows.fate[row] != Fate.UNREADABLE:
                indices[RIGHT if rows.side[row] else LEFT].setdefault(key, []).append(
                    rows.time_us[row] << ROW_BITS | row
                )
        for index in indices:
            for entries in index.values():
                entries.sort()
        return indices
