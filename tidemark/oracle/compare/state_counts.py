"""The keys of the state: what Spark counts of the rows of each, compared with the rows that its own rules keep.

Free of I/O. Spark finds the rows of a key by their count (``keyToNumValues``): a count that is too low hides rows from
the join, one that is too high makes it look for rows that are not there. A key without rows has no count. State format
4 has an order of times in its place, by which it evicts, with an entry for each row of a key and time; a side without a
watermark has no times there but random numbers, and is not compared.

A count that is wrong because rows of the key are, which ``lost_state`` and ``leaked_state`` say, is no finding of its
own: it is the number of the rows that Spark's state has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from tidemark.formats.events import write_time
from tidemark.formats.evidence import StateKey, StateRow
from tidemark.oracle.compare.state_comparison import NAMES, PredictedState
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import History
from tidemark.oracle.input.state_fields import StateFields, fields_of
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT

Read = Mapping[int, tuple[Sequence[StateRow], Sequence[StateRow]]]
"""Batch -> the rows of the state of both sides after it."""


class Group(NamedTuple):
    """The rows that are counted together: those of a key, or those of a key and time."""

    key: tuple[str | None, ...] | None
    time_us: int | None


_Place = tuple[int, Literal["left", "right"], Group]


class Grouping:
    """Which rows are counted together. The time is a part of the key if the join compares times as keys."""

    def __init__(self, history: History, fields: StateFields) -> None:
        bound = history.contract.bound
        self._timed = fields.time and (history.by_time or bound.equal or bound.window_ms is not None)
        self._by_time = history.by_time

    def of(self, key: tuple[str | None, ...] | None, time_us: int | None) -> Group:
        """The group of a row; no time is the epoch in a state that is ordered by time."""
        if self._by_time and time_us is None:
            time_us = 0
        return Group(key, time_us if self._timed else None)


class CountComparison:
    """Compares the counts of each side after each batch."""

    def __init__(self, history: History, predicted: PredictedState, finding_log: FindingLog) -> None:
        self._history = history
        self._predicted = predicted
        self._finding_log = finding_log
        self.notes: list[str] = []
        """Of which sides and batches the counts could not be compared, and why."""

    def run(self, keys: Iterable[StateKey], read: Read, batches: Sequence[int]) -> list[int]:
        """Compare; ``read`` has the rows that Spark's state has after these batches. Returns the batches compared."""
        counted: dict[tuple[int, int], list[StateKey]] = {}
        for key in keys:
            counted.setdefault((key.batch, NAMES.index(key.side)), []).append(key)
        compared = set(batches) if any(map(self._is_counted, (LEFT, RIGHT))) else set[int]()
        for side in (LEFT, RIGHT):
            if not self._is_counted(side):
                self.notes.append(
                    f"the counts of the keys of the {NAMES[side]} side were not compared: without a watermark state"
                    " format 4 has random numbers for times"
                )
                continue
            nameless = [
                batch
                for batch in batches
                if not self._compare(batch, side, counted.get((batch, side), []), read[batch][side])
            ]
            compared -= set(nameless)
            if nameless:
                after = (
                    f"after {'batch' if len(nameless) == 1 else 'batches'} {', '.join(map(str, nameless))}"
                )
                self.notes.append(
                    f"the counts of the keys of the {NAMES[side]} side {after} were not compared: its rows have no"
                    f" {'key or no time' if self._history.by_time else 'key'} by the names of the contract"
                )
        return sorted(compared)

    def _is_counted(self, side: int) -> bool:
        return not self._history.by_time or self._history.side(side).watermark_delay_ms is not None

    def _compare(self, batch: int, side: int, counted: Sequence[StateKey], found: Sequence[StateRow]) -> bool:
        """Whether the rows have what they are counted by."""
        history, rest = self._history, self._history.rest
        fields = fields_of(found) if rest is None else rest.state_fields.get((batch, side), fields_of(found))
        if not fields.key or (history.by_time and not fields.time):
            return False
        grouping = Grouping(history, fields)
        counts = Counter[Group]()
        for key in counted:
            counts[grouping.of(key.key, key.time_us)] += key.count
        theirs = Counter(grouping.of(row.key, row.time_us) for row in found)
        ours = Counter(self._group(row, grouping) for row in self._predicted.after(batch, side))
        for group in counts if rest is not None else dict.fromkeys([*counts, *ours]):
            is_known = rest is None or group.key in history.rows.keys
            if not is_known or counts[group] not in (ours[group], theirs[group]):
                self._add(batch, side, group, counts[group], ours[group] if is_known else None)
        return True

    def _group(self, row: int, grouping: Grouping) -> Group:
        time_us = self._history.rows.time_us[row]
        return grouping.of(self._history.key_of(row), None if time_us == NULL_TIME_US else time_us)

    def _add(self, batch: int, side: int, group: Group, count: int, owed: int | None) -> None:
        if not self._finding_log.wants("wrong_counts"):
            self._finding_log.count("wrong_counts")
            return
        parts = ["?"] if group.key is None else ["NULL" if part is None else part for part in group.key]
        at = "" if group.time_us is None else f" at {write_time(group.time_us)}"
        of_key = f"the {NAMES[side]} key {', '.join(parts)}{at}"
        rather = "another number" if owed is None else f"{owed:,}"
        message = (
            f"Spark's state after batch {batch} counts {count:,} rows of {of_key}; by Spark's rules there are"
            f" {rather}"
        )
        self._finding_log.add(Finding(property="wrong_counts", message=message, batch=batch))


def miscounted(
    history: History,
    fields: Mapping[tuple[int, int], StateFields],
    rows: Iterable[StateRow],
    keys: Iterable[StateKey],
) -> list[StateKey]:
    """The keys of a large run whose count is not the number of their rows; one without a count has 0."""
    there, counted = Counter[_Place](), Counter[_Place]()
    groupings = {
        (batch, NAMES[side]): Grouping(history, of_side) for (batch, side), of_side in fields.items()
    }
    no_rows = Grouping(history, fields_of(()))
    for row in rows:
        grouping = groupings.get((row.batch, row.side), no_rows)
        there[row.batch, row.side, grouping.of(row.key, row.time_us)] += 1
    for key in keys:
        grouping = groupings.get((key.batch, key.side), no_rows)
        counted[key.batch, key.side, grouping.of(key.key, key.time_us)] += key.count
    return [
        StateKey(
            batch=place[0], side=place[1], key=place[2].key, time_us=place[2].time_us, count=counted[place]
        )
        for place in dict.fromkeys([*there, *counted])
        if there[place] != counted[place]
    ]
