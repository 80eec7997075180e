"""Candidate partners: an index of rows by key, for explaining and for the test of a known
defect.

Decides nothing: rows of every disposition but those without an event are in it. Built on first use,
because a run that is right never asks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from tidemark.formats.contract import COMPARISONS
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, Disposition, History
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, window

Accepted = tuple[defaultdict[int, list[int]], defaultdict[tuple[int, int], list[int]]]


class Partners:
    """The partners that a row has by key and time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._window = window(history.contract.bound)
        self._accepted: Accepted | None = None

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
        """The same, one by one: one key can have very many."""
        rows = self._history.rows
        side, time_us = rows.side[row], rows.time_us[row]
        entries = self._by_key[1 - side].get(rows.key[row], [])
        if time_us == NULL_TIME_US and not self._window.is_boundless:
            return
        low_us, high_us = self._reach(side, time_us)
        for at in range(bisect_left(entries, low_us << ROW_BITS), len(entries)):
            if entries[at] >> ROW_BITS > high_us:
                return
            other = entries[at] & ROW_MASK
            if self._condition_holds(*((row, other) if side == LEFT else (other, row))):
                yield other

    def all_accepted_are_of(self, left_row: int, until_us: int, disposition: bytearray) -> bool:
        """Whether a left row has accepted partners, and all are of its own batch, with times up to this one."""
        rows = self._history.rows
        batch, key, time_us = rows.batch[left_row], rows.key[left_row], rows.time_us[left_row]
        if self._has_conditions:
            accepted = (row for row in self.each(left_row) if disposition[row] == Disposition.ACCEPTED)
            are_of = [rows.batch[row] == batch and rows.time_us[row] <= until_us for row in accepted]
            return bool(are_of) and all(are_of)
        if time_us == NULL_TIME_US and not self._window.is_boundless:
            return False
        low_us, high_us = self._reach(LEFT, time_us)
        of_key, of_batch = self._accepted_rights(disposition)
        count = _between(of_key[key], low_us, high_us)
        return count > 0 and count == _between(of_batch[key, batch], low_us, min(high_us, until_us))

    def _reach(self, side: int, time_us: int) -> tuple[int, int]:
        """The times on the other side that a time matches, both inclusive."""
        if side == LEFT:
            return time_us - self._window.upper_us, time_us - self._window.lower_us
        return time_us + self._window.lower_us, time_us + self._window.upper_us

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

    def _accepted_rights(self, disposition: bytearray) -> Accepted:
        """The times of accepted right rows in order, by key, and by key and batch."""
        if self._accepted is None:
            rows = self._history.rows
            of_key, of_batch = self._accepted = defaultdict(list), defaultdict(list)
            for key, entries in self._by_key[RIGHT].items():
                for entry in entries:
                    time_us, row = entry >> ROW_BITS, entry & ROW_MASK
                    if disposition[row] == Disposition.ACCEPTED:
                        of_key[key].append(time_us)
                        of_batch[key, rows.batch[row]].append(time_us)
        return self._accepted


def _between(times_us: list[int], low_us: int, high_us: int) -> int:
    """How many of these times are in a range, both ends in it."""
    return max(0, bisect_right(times_us, high_us) - bisect_left(times_us, low_us))
