"""What the joins of a chain had to do in a run: the coverage goals that each join of it implies.

Free of I/O. They are those of a join (``tidemark.oracle.contract_coverage``), asked of every join of the chain that
Spark runs. What a join inside of a chain made is not in the output; it is what the model gives, from which the output
follows. A row that a sentinel is part of does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tidemark.formats import chain
from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.contract_coverage import NO_PAIR_BEYOND, Exercised, Turns, idle_ends, missing
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.rows import Row
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import JoinOperator
from tidemark.oracle.spark.outer_join_elimination import optimized
from tidemark.oracle.spark.time_ranges import bound_ms, window

NAMES = ("left", "right")
Timed = tuple[int, tuple[Any, ...]]
"""The time and the key of a row."""


def implied(described: chain.Chain) -> list[str]:
    """The coverage goals that the joins of a chain imply."""
    joins = [step for step in optimized(described).chain.steps if isinstance(step, chain.Join)]
    names = ["semi_row_emitted" if join.kind is JoinKind.LEFT_SEMI else "rows_joined" for join in joins]
    names += ["null_row_after_eviction" for join in joins if _null_sides(join)]
    names += ["each_key_field_decides"] if joins else []
    names += ["each_bound_end_decides" for join in joins if not join.bound.is_open]
    return list(dict.fromkeys(names))


def exercised(history: ChainHistory, model: Model) -> dict[str, Exercised]:
    """Each of these goals, with what is missing."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    joins = [machine for machine in model.machines if isinstance(machine, JoinOperator)]
    for number, join in enumerate(joins, 1):
        name = f"join {number} ({join.step.kind})"
        for goal, parts in _Join(history, join).missing().items():
            found[goal] += [f"{name}{' ' if part else ''}{part}" for part in parts]
    why = {
        "each_key_field_decides": "no pair differs in it alone",
        "each_bound_end_decides": NO_PAIR_BEYOND,
        "null_row_after_eviction": "no NULL row came",
    }
    return {goal: missing(why.get(goal, "no row came"), parts) for goal, parts in found.items()}


def _null_sides(join: chain.Join) -> list[int]:
    """The preserved sides whose unmatched rows are evicted sooner or later."""
    return [side for side in PRESERVED.get(join.kind, ()) if bound_ms(join.bound, side, 0) is not None]


class _Join:
    """One join of a chain, and the rows that no sentinel is part of."""

    def __init__(self, history: ChainHistory, join: JoinOperator) -> None:
        self._join, self._step = join, join.step
        self._limits = window(join.step.bound)
        self._is_sentinel = history.is_sentinel

    def missing(self) -> dict[str, list[str]]:
        """By coverage goal, the parts of the join that were not exercised; an empty text is the join itself."""
        rows = "semi_row_emitted" if self._join.join.is_semi else "rows_joined"
        goals = {rows: [] if self._any(self._join.joined) else [""]}
        if sides := _null_sides(self._step):
            goals["null_row_after_eviction"] = [
                NAMES[side] for side in sides if not self._any(self._join.unmatched[side])
            ]
        goals["each_key_field_decides"] = [
            name if name == other else f"{name} = {other}"
            for field, (name, other) in enumerate(self._step.keys)
            if not self._decides(field)
        ]
        if not self._step.bound.is_open:
            goals["each_bound_end_decides"] = self._idle_ends()
        return goals

    def _any(self, rows: Iterable[Row]) -> bool:
        return any(not self._is_sentinel(row) for row in rows)

    def _timed(self, side: int) -> Iterator[Timed]:
        time, keys = str(self._join.times[side]), self._join.keys[side]
        for row in self._join.accepted[side]:
            if row.values[time] is not None and not self._is_sentinel(row):
                yield row.values[time], row.get(keys)

    def _decides(self, field: int) -> bool:
        """Whether a pair of rows differs in this key field alone."""
        groups: defaultdict[tuple[Any, ...], list[Timed]] = defaultdict(list)
        for time_us, key in self._timed(1):
            groups[_without(key, field)].append((time_us, key))
        turns = {other: Turns(group) for other, group in groups.items()}
        limits = self._limits
        return any(
            turns[other].has_other(key, time_us - limits.upper_us, time_us - limits.lower_us)
            for time_us, key in self._timed(0)
            if (other := _without(key, field)) in turns
        )

    def _idle_ends(self) -> list[str]:
        """The ends of the bound that kept no pair of the same key apart."""
        lefts, rights = (_spans(self._timed(side)) for side in (0, 1))
        both = [(lefts[key], rights[key]) for key in lefts.keys() & rights.keys()]
        below = any(left[0] - right[1] < self._limits.lower_us for left, right in both)
        above = any(left[1] - right[0] > self._limits.upper_us for left, right in both)
        return idle_ends(self._step.bound, is_below=below, is_above=above)


def _without(key: tuple[Any, ...], field: int) -> tuple[Any, ...]:
    return (*key[:field], *key[field + 1 :])


def _spans(rows: Iterable[Timed]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """The first and the last time of each key."""
    spans: dict[tuple[Any, ...], tuple[int, int]] = {}
    for time_us, key in rows:
        first, last = spans.get(key, (time_us, time_us))
        spans[key] = min(first, time_us), max(last, time_us)
    return spans
