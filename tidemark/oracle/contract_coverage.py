"""The coverage goals that a contract implies: which of its promises a run put to the test.

Free of I/O. They are asked of every run of a join, unless the run waives one by name (``waived`` of the manifest),
and described with the others in ``tidemark.oracle.coverage``. *Accepted* rows are those that take part in the join:
readable, not filtered, not late; sentinels are left out.

A key field or an end of the bound *decides* where a pair of accepted rows is kept apart by it alone. A query without
it would give another output, so the run would show it. Conditions and filters are not considered: such a pair may fail
one of them, too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemark.formats.contract import PRESERVED, Bound, JoinKind, WatermarkPolicy
from tidemark.oracle.compare.join_comparison import Seen
from tidemark.oracle.input.history import Disposition, History, first_of, right_of
from tidemark.oracle.input.unreadable import Readable
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, state_ms, window

_FIRST_ROWS = 2_000
"""So many rows of each side nearly always hold a pair for every key field; only if not, all are searched."""

NO_PAIR_BEYOND = "no pair of rows with the same key is there"

Numbers = npt.NDArray[np.int64]
Sides = tuple[Numbers, Numbers]
"""Rows of the left and of the right side."""


@dataclass(frozen=True)
class Exercised:
    """A coverage goal: whether it was met and, if it was not, what of it is missing."""

    met: bool
    missing: str = ""


def implied(history: History) -> list[str]:
    """The coverage goals that the contract of a run implies."""
    contract = history.contract
    names = ["most_records_readable", "each_input_accepted"]
    names.append("semi_row_emitted" if contract.kind is JoinKind.LEFT_SEMI else "rows_joined")
    names += ["null_row_after_eviction"] if _null_sides(history) else []
    names.append("each_key_field_decides")
    names += [] if contract.bound.is_open else ["each_bound_end_decides"]
    return [*names, *(["late_row_dropped"] if _must_drop(history) else [])]


def exercised(history: History, prediction: Prediction, seen: Seen) -> dict[str, Exercised]:
    """Those of this module, each with what is missing; ``rows_joined`` and ``late_row_dropped`` are only counted."""
    accepted = _accepted(history, prediction)
    goals = {
        "most_records_readable": mostly_readable(history.readable),
        "each_input_accepted": missing("no row was accepted", _empty_inputs(history, accepted)),
        "each_key_field_decides": missing("no pair differs in it alone", _idle_keys(history, accepted)),
    }
    if history.contract.kind in PRESERVED:
        goals["null_row_after_eviction"] = missing("no NULL row came", _sides_without_null(history, seen))
    if not history.contract.bound.is_open:
        goals["each_bound_end_decides"] = missing(NO_PAIR_BEYOND, _idle_ends(history, accepted))
    return goals


def mostly_readable(topics: Sequence[Readable]) -> Exercised:
    """Whether at most half of the records of each topic are unreadable."""
    return missing("records are unreadable", [topic.too_many() for topic in topics])


def missing(why: str, what: Iterable[str]) -> Exercised:
    """A goal that is met if nothing is missing."""
    named = [one for one in what if one]
    return Exercised(not named, f"{', '.join(named)}: {why}" if named else "")


def _accepted(history: History, prediction: Prediction) -> Sides:
    end = history.rows.first_sentinel
    side = np.frombuffer(history.rows.side, dtype=np.uint8)[:end]
    accepted = np.frombuffer(prediction.disposition, dtype=np.uint8)[:end] == Disposition.ACCEPTED
    return np.flatnonzero(accepted & (side == LEFT)), np.flatnonzero(accepted & (side == RIGHT))


def _empty_inputs(history: History, accepted: Sides) -> list[str]:
    return [history.side(side).topic for side in (LEFT, RIGHT) if not len(accepted[side])]


def _null_sides(history: History) -> list[int]:
    """The preserved sides whose unmatched rows are evicted sooner or later, and so come with NULLs."""
    contract, limits_ms = history.contract, history.pushdown.limits_ms
    sides = PRESERVED.get(contract.kind, ())
    return [side for side in sides if state_ms(contract, side, 0, limits_ms[side]) is not None]


def _sides_without_null(history: History, seen: Seen) -> list[str]:
    came = {
        history.rows.side[first_of(identity)] for identity in seen.identities() if right_of(identity) is None
    }
    # Where no row is ever evicted a NULL row can still come: of a row that fails a condition on its side alone.
    sides = _null_sides(history) or PRESERVED[history.contract.kind]
    return [history.side(side).topic for side in sides if side not in came]


def _must_drop(history: History) -> bool:
    """Whether rows lie so far behind that they can be late, at the pace at which the trace alone decides about it."""
    if history.rest is not None:
        return history.rest.must_drop
    if history.manifest.pace != "stepped":
        return False
    contract, times_us = history.contract, [_observed(history, side) for side in (LEFT, RIGHT)]
    ends_us = [
        None
        if delay_ms is None
        else max((int(np.max(some)) for some, _ in times_us[side]), default=0) - delay_ms * US_PER_MS
        for side, delay_ms in enumerate((contract.left.watermark_delay_ms, contract.right.watermark_delay_ms))
    ]
    for side, end_us in enumerate(ends_us):
        if end_us is None:
            continue
        other_us = ends_us[1 - side]
        held_us = end_us if contract.policy is WatermarkPolicy.MAX or other_us is None else other_us
        delay_us = (history.side(side).watermark_delay_ms or 0) * US_PER_MS
        for event_us, time_us in times_us[side]:
            passed_us = np.minimum(np.maximum.accumulate(event_us)[:-1] - delay_us, held_us)
            if np.any(time_us[1:] < passed_us):
                return True
    return False


def _observed(history: History, side: int) -> list[tuple[Numbers, Numbers]]:
    """Of each partition the event times and the times of the rows that the watermark sees, in microseconds."""
    rows, end = history.rows, history.rows.first_sentinel
    disposition = np.frombuffer(rows.disposition, dtype=np.uint8)
    event_us, time_us = (np.frombuffer(one, dtype=np.int64) for one in (rows.event_us, rows.time_us))
    found = []
    for partition in history.partitions[side].values():
        mine = np.frombuffer(partition.rows, dtype=np.int64)
        mine = mine[mine < end]
        mine = mine[(disposition[mine] == Disposition.UNREAD) & (event_us[mine] != NULL_TIME_US)]
        found += [(event_us[mine], time_us[mine])] if len(mine) else []
    return found


def _idle_ends(history: History, accepted: Sides) -> list[str]:
    """The ends of the bound that kept no pair of the same key apart."""
    bound, limits = history.contract.bound, window(history.contract.bound)
    (left_first, left_last), (right_first, right_last) = (_spans(history, rows) for rows in accepted)
    both = (left_first < NULL_TIME_US) & (right_first < NULL_TIME_US)
    below = bool(np.any((left_first - right_last)[both] < limits.lower_us))
    above = bool(np.any((left_last - right_first)[both] > limits.upper_us))
    return idle_ends(bound, is_below=below, is_above=above)


def idle_ends(bound: Bound, *, is_below: bool, is_above: bool) -> list[str]:
    """The ends of a bound beyond which no pair of the same key is, each with where such a pair would lie."""
    if bound.equal:
        return [] if is_below or is_above else ["equal (times that are not equal)"]
    idle = (
        [] if is_below or bound.lower_ms is None else [f"lower_ms (left - right below {bound.lower_ms:,} ms)"]
    )
    return idle + (
        [] if is_above or bound.upper_ms is None else [f"upper_ms (left - right above {bound.upper_ms:,} ms)"]
    )


def _spans(history: History, accepted: Numbers) -> tuple[Numbers, Numbers]:
    """The first and the last time of each key number; one without rows begins at ``NULL_TIME_US``."""
    rows = history.rows
    key = np.frombuffer(rows.key, dtype=np.int64)[accepted]
    time_us = np.frombuffer(rows.time_us, dtype=np.int64)[accepted]
    known = (key >= 0) & (time_us != NULL_TIME_US)
    first, last = np.full(len(rows), NULL_TIME_US), np.full(len(rows), -NULL_TIME_US)
    np.minimum.at(first, key[known], time_us[known])
    np.maximum.at(last, key[known], time_us[known])
    return first, last


def _idle_keys(history: History, accepted: Sides) -> list[str]:
    """The key fields that kept no pair apart whose times match and whose other key fields are equal."""
    names = [
        name if name == other else f"{name} = {other}"
        for name, other in zip(history.contract.left.keys, history.contract.right.keys, strict=True)
    ]
    few = (accepted[LEFT][:_FIRST_ROWS], accepted[RIGHT][:_FIRST_ROWS])
    return [
        name
        for field, name in enumerate(names)
        if not (_decides(history, few, field) or _decides(history, accepted, field))
    ]


def _decides(history: History, accepted: Sides, field: int) -> bool:
    """Whether there is a pair that differs in this key field alone."""
    rows, limits = history.rows, window(history.contract.bound)
    others: dict[int, tuple[str | None, ...]] = {}  # key number -> its other fields

    def known(side: int) -> Iterator[tuple[int, int]]:
        for row in accepted[side].tolist():
            key, time_us = rows.key[row], rows.time_us[row]
            if key >= 0 and time_us != NULL_TIME_US:
                if key not in others:
                    parts = history.key_of(row)
                    others[key] = (*parts[:field], *parts[field + 1 :])
                yield time_us, key

    groups: dict[tuple[str | None, ...], list[tuple[int, int]]] = defaultdict(list)
    for time_us, key in known(RIGHT):
        groups[others[key]].append((time_us, key))
    turns = {other: Turns(group) for other, group in groups.items()}
    return any(
        others[key] in turns
        and turns[others[key]].has_other(key, time_us - limits.upper_us, time_us - limits.lower_us)
        for time_us, key in known(LEFT)
    )


class Turns:
    """Rows of several keys by time: finds in a range of time one that has another key."""

    def __init__(self, rows: list[tuple[int, Any]]) -> None:
        rows.sort()
        self.times_us = [time_us for time_us, _ in rows]
        self.keys = [key for _, key in rows]
        self.until = array("q", [len(rows)]) * len(rows)  # where the next other key begins
        for at, (key, following) in reversed(list(enumerate(pairwise(self.keys)))):
            self.until[at] = self.until[at + 1] if key == following else at + 1

    def has_other(self, key: object, from_us: int, to_us: int) -> bool:
        """Whether a row in this range (both ends in it) has another key than this one."""
        first, end = bisect_left(self.times_us, from_us), bisect_right(self.times_us, to_us)
        return first < end and (self.keys[first] != key or self.until[first] < end)
