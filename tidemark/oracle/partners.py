"""Who could have matched whom: an index of the right rows by key, for explaining and for the test of a known
defect.

Free of any opinion: rows of every fate but those without an event are in it. Built when it is first asked,
because a run that is right never asks.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

from tidemark.oracle.bounds import window
from tidemark.oracle.history import NO_KEY, RIGHT, ROW_BITS, ROW_MASK, Fate, History


class Partners:
    """The partners that a left row has by key and time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._window = window(history.contract.bound)

    def match(self, left_row: int, right_row: int) -> bool:
        """Whether two rows match by key and time; a NULL key matches nothing."""
        rows = self._history.rows
        return rows.key[left_row] == rows.key[right_row] != NO_KEY and self._window.holds(
            rows.time_us[left_row], rows.time_us[right_row]
        )

    def of_left(self, left_row: int) -> list[int]:
        """All right rows that match a left row, earliest first."""
        rows = self._history.rows
        entries = self._by_key.get(rows.key[left_row], [])
        time_us = rows.time_us[left_row]
        first = bisect_left(entries, (time_us - self._window.upper_us) << ROW_BITS)
        last = bisect_left(entries, (time_us - self._window.lower_us + 1) << ROW_BITS, first)
        return [entry & ROW_MASK for entry in entries[first:last]]

    @cached_property
    def _by_key(self) -> dict[int, list[int]]:
        rows = self._history.rows
        index: dict[int, list[int]] = {}
        for row, key in enumerate(rows.key):
            if key != NO_KEY and rows.side[row] == RIGHT and rows.fate[row] != Fate.UNREADABLE:
                index.setdefault(key, []).append(rows.time_us[row] << ROW_BITS | row)
        for entries in index.values():
            entries.sort()
        return index
