"""Whether Spark's state has other times than the records: all of one side too late, or too early, by the same.

Free of I/O; decides nothing. A row of the state is that of a record by its place in the input, where the state has it,
and else by its key: then one distance has to be there for every row, and 0 must not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from functools import cached_property

from tidemark.formats.evidence import StateRow
from tidemark.oracle.causes.common_facts import FEWEST, duration, zone_of
from tidemark.oracle.compare.state_comparison import NAMES
from tidemark.oracle.input.history import Disposition, History
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT


def state_cause(history: History, state: Iterable[StateRow]) -> str:
    """A sentence about the times in all the states that were read; empty if no side has one distance in all rows."""
    sides = [_Times(history, side) for side in (LEFT, RIGHT)]
    for row in state:
        sides[NAMES.index(row.side)].add(row)
    return "; ".join(said for one in sides if (said := one.sentence()))


class _Times:
    """The distances, in microseconds, that all rows of one side can have: time in the state less that of the record."""

    def __init__(self, history: History, side: int) -> None:
        self._history = history
        self._side = side
        self._common: set[int] | None = None
        self._many = 0

    def add(self, row: StateRow) -> None:
        """Leave the distances that this row can have, too; a row without a time, or of no readable record, has none."""
        if row.time_us is None or self._common == set():
            return
        times = self._times_of(row)
        if not times:
            return  # other findings are about it
        self._many += 1
        if self._common is None:
            self._common = {row.time_us - time_us for time_us in times}
        else:
            self._common = {apart for apart in self._common if row.time_us - apart in times}

    def sentence(self) -> str:
        """What the one distance is; empty if there is none, or if it is 0."""
        if self._many < FEWEST or self._common is None or len(self._common) != 1 or 0 in self._common:
            return ""
        [apart] = self._common
        return (
            f"in all {self._many:,} rows of {self._history.side(self._side).topic}, Spark's state has the time of the"
            f" record {'+' if apart > 0 else '-'} {duration(abs(apart))}{zone_of(apart)}"
        )

    def _times_of(self, row: StateRow) -> Set[int]:
        """The times of the records that a row of the state can be."""
        if row.ref is None:
            return self._by_key.get(row.key, frozenset()) if row.key is not None else frozenset()
        partition = self._history.partitions[self._side].get(row.ref[0])
        try:
            found = None if partition is None else partition.row_at(row.ref[1])
        except IndexError:
            found = None
        return (
            frozenset() if found is None or not self._has_time(found) else {self._history.rows.time_us[found]}
        )

    @cached_property
    def _by_key(self) -> dict[tuple[str | None, ...], set[int]]:
        rows = self._history.rows
        found: dict[tuple[str | None, ...], set[int]] = defaultdict(set)
        for row in range(len(rows)):
            if rows.side[row] == self._side and self._has_time(row):
                found[self._history.key_of(row)].add(rows.time_us[row])
        return dict(found)

    def _has_time(self, row: int) -> bool:
        rows = self._history.rows
        return rows.disposition[row] != Disposition.UNREADABLE and rows.time_us[row] != NULL_TIME_US
