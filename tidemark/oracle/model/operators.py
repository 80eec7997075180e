"""The steps of a chain as small machines: rows of a batch in, rows out, state in between.

Free of I/O, and written to be read, not to be fast. Times are microseconds, a window is its end, watermarks are
milliseconds. What each step does with its two watermarks is Spark's ``statefulOperators.scala``: a row at or before
the *late* watermark is dropped; what is at or before the *eviction* watermark leaves the state at the end of the batch.

===============  =====================================================================================================
aggregate        Append mode: a group is written when it is evicted, and only then. Late is what its group is: a row
                 whose window is still open is not late, however old it is (``StateStoreSaveExec``).
deduplicate      A row passes if its key is not in the state. Within the watermark an entry is due at the time of the
                 row that made it, plus the delay of that row's source; else by its event time, if that is one of the
                 keys, and otherwise never (``StreamingDeduplicate[WithinWatermark]Exec``).
join             As in ``tidemark.oracle.model.stream_join``; what it makes of its watermark is
                 :meth:`JoinOperator.output_ms`.
limit            So many rows, no watermark (``StreamingGlobalLimitExec``).
===============  =====================================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidemark.formats import chain
from tidemark.oracle.input.rows import Row, passes
from tidemark.oracle.model.stream_join import JoinLogic, JoinRow, Limits, StreamJoin
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS, bound_ms, window


@dataclass(frozen=True)
class Rules:
    """How Spark behaves; ``keep_late`` is one that drops nothing, to tell what late rows would have made.

    ``right_first``: a left semi join takes the right rows of a batch first (SPARK-55973, since 4.2).
    ``drops_sides``: what ``tidemark.oracle.spark.outer_join_elimination`` takes out is not run; ``waits_for_unread``:
    its watermarks are waited for all the same (since 4.0). ``counts_all_removed``: of an outer join, what leaves the
    state of a preserved side is counted as removed, too (since 4.3). ``by_time``: joins have state format 4, which
    keeps an entry for each key and time; ``misses_rows``: its evictions leave rows behind (in 4.2).
    """

    right_first: bool = True
    drops_sides: bool = True
    counts_all_removed: bool = False
    waits_for_unread: bool = True
    by_time: bool = False
    misses_rows: bool = False
    keep_late: bool = False


Choose = Callable[["Machine", list[Row], int], list[Row]]
"""Which of some rows a step takes, where Spark's answer depends on the order in which they come: so many of them."""


def first_come(_machine: Machine, rows: list[Row], many: int) -> list[Row]:
    """The choice of a Spark that reads everything in order."""
    return rows[:many]


class Counts(NamedTuple):
    """What Spark reports of a stateful operator in a batch: rows stored, removed, dropped as late, and kept.

    In state format 4 a join reports entries as kept, each of which has all rows of a key and a time.
    ``None``: what is removed or kept depends on a choice that nothing shows.
    """

    updated: int
    removed: int | None
    dropped: int
    total: int | None


class StoredRow(NamedTuple):
    """A row of the state of an operator, as far as Spark's state has it whatever the query calls its columns.

    ``key`` and ``values`` are texts in their order: times are microseconds, a window is its end. ``time_us`` and
    ``matched`` are those of a row of a join; ``matched`` is ``None`` on a side that is not preserved.
    """

    side: int
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    time_us: int | None = None
    matched: bool | None = None


def in_order(values: Iterable[Any]) -> tuple[str, ...]:
    """Values as texts, in their order; ``NULL`` for none."""
    return tuple(sorted("NULL" if value is None else str(value) for value in values))


class Machine(ABC):
    """A step at work. ``late[n]`` collects the rows of input ``n`` that were dropped as late.

    ``late_rows`` are those of the last batch. ``chosen`` are the rows that one that ``chooses`` took, batch by batch.
    """

    chooses = False

    stateful = True

    def __init__(self, step: chain.Step, rules: Rules, choose: Choose) -> None:
        self.step = step
        self.choose = choose
        self.rules = rules
        self.times = [chain.time_of(one) for one in chain.inputs_of(step)]
        self.late: list[list[Row]] = [[] for _ in self.times]
        self.late_rows: list[Row] = []
        self.chosen: list[list[Row]] = []

    def counts(self) -> Counts:
        """What is reported of the last batch, of one that is stateful."""
        raise NotImplementedError(type(self).__name__)

    def stored(self) -> Iterable[StoredRow] | None:
        """The rows of its state, of one that is stateful; ``None``: they depend on a choice that nothing shows."""
        raise NotImplementedError(type(self).__name__)

    @abstractmethod
    def process(self, inputs: Sequence[list[Row]], late_ms: int, eviction_ms: int) -> list[Row]:
        """The rows that a batch gives."""

    def output_ms(self, input_ms: int) -> int | None:
        """The watermark that flows on."""
        return input_ms

    def wants_another(self, eviction_ms: int, next_ms: int) -> bool:
        """Whether it asks for a batch without data (``shouldRunAnotherBatch``)."""
        return next_ms > eviction_ms

    def in_time(self, rows: list[Row], side: int, late_ms: int) -> list[Row]:
        """Rows without those that are late."""
        time = self.times[side]
        if time is None or self.rules.keep_late:
            return rows
        late = [row for row in rows if _is_by(row.values[time], late_ms)]
        self.late[side] += late
        self.late_rows += late
        return [row for row in rows if not _is_by(row.values[time], late_ms)]


def _is_by(time_us: int | None, watermark_ms: int) -> bool:
    """Whether a time is at or before a watermark; NULL is not."""
    return time_us is not None and time_us <= watermark_ms * US_PER_MS


class WindowOperator(Machine):
    """Stateless. A window of a window is that of its last microsecond (``window_time``)."""

    stateful = False
    step: chain.Window

    def process(self, inputs: Sequence[list[Row]], _late_ms: int, _eviction_ms: int) -> list[Row]:
        """The same rows, each in its window."""
        (time,), length_us = self.times, self.step.window_ms * US_PER_MS
        back_us = 1 if chain.is_window(self.step.input) else 0
        rows = []
        for row in inputs[0]:
            values = dict(row.values)
            time_us = values.pop(str(time)) - back_us
            values[self.step.name] = (time_us // length_us + 1) * length_us
            rows.append(Row(values, row.made_of, row.is_null))
        return rows


class WhereOperator(Machine):
    """Stateless; NULL passes no filter."""

    stateful = False
    step: chain.Where

    def process(self, inputs: Sequence[list[Row]], _late_ms: int, _eviction_ms: int) -> list[Row]:
        """The rows that pass."""
        return [row for row in inputs[0] if passes(row.values, self.step.filters)]


class AggregateOperator(Machine):
    """``groups``: the rows of each group that is still open."""

    step: chain.Aggregate

    def __init__(self, step: chain.Step, rules: Rules, choose: Choose) -> None:
        super().__init__(step, rules, choose)
        self.groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        self._updated: set[tuple[Any, ...]] = set()
        self._removed = 0
        self._names = (*self.step.keys, str(self.times[0]))

    def process(self, inputs: Sequence[list[Row]], late_ms: int, eviction_ms: int) -> list[Row]:
        """The groups whose time has come."""
        names, self._updated = self._names, set()
        for row in self.in_time(inputs[0], 0, late_ms):
            self.groups[row.get(names)].append(row)
            self._updated.add(row.get(names))
        closed = [group for group in self.groups if _is_by(group[-1], eviction_ms)]
        self._removed = len(closed)
        return [self._row(dict(zip(names, group, strict=True)), self.groups.pop(group)) for group in closed]

    def counts(self) -> Counts:
        """Groups: also what is late is counted after the rows of a group were put together."""
        late = {row.get(self._names) for row in self.late_rows}
        return Counts(len(self._updated), self._removed, len(late), len(self.groups))

    def stored(self) -> Iterator[StoredRow]:
        """Its open groups, and what its functions have gathered for each."""
        for group, rows in self.groups.items():
            yield StoredRow(LEFT, in_order(group), in_order(_value(one, rows) for one in self.step.values))

    def _row(self, group: dict[str, Any], rows: list[Row]) -> Row:
        values = {one.name: _value(one, rows) for one in self.step.values}
        return Row({**group, **values}, frozenset().union(*(row.made_of for row in rows)))


def _value(value: chain.Value, rows: list[Row]) -> Any:
    if value.field is None:
        return len(rows)
    known = [row.values[value.field] for row in rows if row.values[value.field] is not None]
    functions: dict[str, Callable[[list[int]], int]] = {"sum": sum, "min": min, "max": max}
    return functions[value.function](known) if known else None


class DeduplicateOperator(Machine):
    """``due_us``: key -> when its entry is forgotten, at or before the eviction watermark; ``None``: never."""

    chooses = True
    step: chain.Deduplicate

    def __init__(self, step: chain.Step, rules: Rules, choose: Choose) -> None:
        super().__init__(step, rules, choose)
        self.due_us: dict[tuple[Any, ...], int | None] = {}
        self.dropped = 0
        self.delay_us = delay_ms(self.step) * US_PER_MS
        self._removed = 0
        self._is_settled = True  # until a row is chosen of which others are due at another time

    def process(self, inputs: Sequence[list[Row]], late_ms: int, eviction_ms: int) -> list[Row]:
        """A row of each key that is new."""
        candidates: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        rows_in = self.in_time(inputs[0], 0, late_ms)
        for row in rows_in:
            key = row.get(self.step.keys)
            if key not in self.due_us:
                candidates[key].append(row)
        out = []
        for key, rows in candidates.items():
            (row,) = (
                rows[:1] if all(one.values == rows[0].values for one in rows) else self.choose(self, rows, 1)
            )
            self.due_us[key] = self._due_us(row)
            self._is_settled &= len({self._due_us(one) for one in rows}) == 1
            out.append(row)
        before = len(self.due_us)
        self.due_us = {key: due for key, due in self.due_us.items() if not _is_by(due, eviction_ms)}
        self._removed = before - len(self.due_us)
        self.chosen.append(out)
        self.dropped += len(rows_in) - len(out)
        return out

    def counts(self) -> Counts:
        """Keys; a row that is not the first of its key is no late row."""
        removed, total = (self._removed, len(self.due_us)) if self._is_settled else (None, None)
        return Counts(len(self.chosen[-1]), removed, len(self.late_rows), total)

    def stored(self) -> Iterable[StoredRow] | None:
        """Its keys; within the watermark with when they are forgotten."""
        if not self._is_settled:
            return None
        return [
            StoredRow(LEFT, in_order(key), (str(due),) if self.step.within_watermark else ())
            for key, due in self.due_us.items()
        ]

    def _due_us(self, row: Row) -> int | None:
        time = self.times[0]
        if time is not None and self.step.within_watermark:
            return int(row.values[time]) + self.delay_us
        return int(row.values[time]) if time is not None and time in self.step.keys else None


def delay_ms(step: chain.Deduplicate) -> int:
    """The delay that its event time carries: that of the source it comes from, 0 if that has none."""
    at: chain.Step = step
    while not isinstance(at, chain.Source):
        if isinstance(at, chain.Join):
            at = at.left if at.time == chain.time_of(at.left) else at.right
        else:
            at = at.input
    return at.watermark_delay_ms or 0


class LimitOperator(Machine):
    """``left``: how many rows may still come."""

    chooses = True
    step: chain.Limit

    def __init__(self, step: chain.Step, rules: Rules, choose: Choose) -> None:
        super().__init__(step, rules, choose)
        self.left = self.step.rows
        self.dropped = 0

    def process(self, inputs: Sequence[list[Row]], _late_ms: int, _eviction_ms: int) -> list[Row]:
        """As many as may still come."""
        rows = inputs[0] if len(inputs[0]) <= self.left else self.choose(self, inputs[0], self.left)
        self.left -= len(rows)
        self.dropped += len(inputs[0]) - len(rows)
        self.chosen.append(rows)
        return rows

    def counts(self) -> Counts:
        """Its state is one number, which is written when rows are taken."""
        return Counts(int(bool(self.chosen[-1])), 0, 0, int(self.left < self.step.rows))

    def stored(self) -> list[StoredRow]:
        """How many rows were taken, once there are any."""
        taken = self.step.rows - self.left
        return [StoredRow(LEFT, (), (str(taken),))] if taken else []

    def wants_another(self, _eviction_ms: int, _next_ms: int) -> bool:
        """Never."""
        return False


class JoinOperator(Machine):
    """``tidemark.oracle.model.stream_join`` at its place in a chain.

    ``accepted[n]`` are the rows of side ``n`` that were not late, ``joined`` the rows that matches gave, and
    ``unmatched[n]`` the rows of side ``n`` that were given with NULLs.
    """

    step: chain.Join

    def __init__(self, step: chain.Step, rules: Rules, choose: Choose) -> None:
        super().__init__(step, rules, choose)
        described = JoinLogic(
            self.step.kind,
            window(self.step.bound),
            self.step.conditions,
            right_first=rules.right_first,
            by_time=rules.by_time,
        )
        self.join: StreamJoin[Row] = StreamJoin(described)
        self.batch = 0
        self.accepted: list[list[Row]] = [[], []]
        self.unmatched: list[list[Row]] = [[], []]
        self.joined: list[Row] = []
        self._total = 0
        self._counted = (
            (LEFT, RIGHT)
            if rules.counts_all_removed
            else tuple(side for side in (LEFT, RIGHT) if side not in self.join.preserved)
        )
        self.keys = [tuple(pair[side] for pair in self.step.keys) for side in (LEFT, RIGHT)]
        fields = [chain.types_of(side) for side in (self.step.left, self.step.right)]
        self.nulls = [dict.fromkeys(fields[RIGHT]), dict.fromkeys(fields[LEFT])]  # what a row of a side lacks

    def process(self, inputs: Sequence[list[Row]], late_ms: int, eviction_ms: int) -> list[Row]:
        """Pairs, then NULL rows of what is evicted."""
        joined: list[Row] = []
        unmatched: list[list[Row]] = [[], []]

        def emit(left: JoinRow[Row] | None, right: JoinRow[Row] | None) -> None:
            if left is not None and right is not None:
                joined.append(_joined(left.source, right.source))
            elif left is not None and self.join.is_semi:
                joined.append(left.source)
            elif (alone := left or right) is not None:
                unmatched[alone.side].append(self._null_row(alone))

        rows = self._accepted(inputs, LEFT, late_ms), self._accepted(inputs, RIGHT, late_ms)
        self.batch += 1
        self.join.run(self.batch, rows, self._limits(late_ms, eviction_ms), emit)
        self._total += sum(self.join.stored) - sum(self.join.removed)
        self.joined += joined
        for side in (LEFT, RIGHT):
            self.unmatched[side] += unmatched[side]
        return [*joined, *unmatched[LEFT], *unmatched[RIGHT]]

    def counts(self) -> Counts:
        """Rows; of preserved sides this Spark may not count what leaves. In state format 4 entries are kept."""
        removed = sum(self.join.removed[side] for side in self._counted)
        total = self._entries() if self.rules.by_time else self._total
        return Counts(sum(self.join.stored), removed, len(self.late_rows), total)

    def _entries(self) -> int:
        """The different keys and times in the state; no time is the epoch."""
        return sum(
            len({(row.source.get(names), row.time_us or 0) for row in self.join.kept(side)})
            for side, names in ((LEFT, self._state_keys(LEFT)), (RIGHT, self._state_keys(RIGHT)))
        )

    def _state_keys(self, side: int) -> tuple[str, ...]:
        """The fields of Spark's key. What has to be equal is a part of it."""
        equal = [str(self.times[side])] if self.step.bound.equal else []
        equal += [str((one.left, one.right)[side]) for one in self.step.conditions if one.op == "="]
        return tuple(dict.fromkeys((*self.keys[side], *equal)))

    def stored(self) -> Iterator[StoredRow]:
        """Rows of both sides."""
        for side in (LEFT, RIGHT):
            names = self._state_keys(side)
            for row in self.join.kept(side):
                values, flag = row.source.values, row.matched if side in self.join.preserved else None
                key = in_order(values[name] for name in names)
                yield StoredRow(side, key, time_us=row.time_us, matched=flag)

    def _accepted(self, inputs: Sequence[list[Row]], side: int, late_ms: int) -> list[JoinRow[Row]]:
        rows, keys, time = self.in_time(inputs[side], side, late_ms), self.keys[side], str(self.times[side])
        self.accepted[side] += rows
        return [JoinRow(row, side, row.get(keys), row.values[time], row.values) for row in rows]

    def _limits(self, late_ms: int, eviction_ms: int) -> Limits:
        """What is evictable, and what state format 4 of Spark 4.2 has left behind (``time_ranges.evicted_us``)."""
        left_ms, right_ms = (bound_ms(self.step.bound, side, eviction_ms) for side in (LEFT, RIGHT))
        limits = Limits.until(left_ms, right_ms)
        if not self.rules.misses_rows or self.batch == 1:
            return limits
        before = Limits.until(*(bound_ms(self.step.bound, side, late_ms) for side in (LEFT, RIGHT)))
        return replace(limits, evicted_us=before.evictable_us)

    def _null_row(self, alone: JoinRow[Row]) -> Row:
        row = alone.source
        return Row({**row.values, **self.nulls[alone.side]}, row.made_of, True)

    def output_ms(self, input_ms: int) -> int | None:
        """The least of its watermark and its sides' state watermarks; Spark 4.2.0 takes both sides of a semi join, too.

        Nothing flows on if no event time goes on (``produceOutputWatermark``).
        """
        if self.step.time is None:
            return None
        states = [bound_ms(self.step.bound, side, input_ms) for side in (LEFT, RIGHT)]
        return min(input_ms, *[state for state in states if state is not None])

    def wants_another(self, eviction_ms: int, next_ms: int) -> bool:
        """If anything can be evicted at all."""
        states = [bound_ms(self.step.bound, side, 0) for side in (LEFT, RIGHT)]
        return next_ms > eviction_ms and states != [None, None]


def _joined(left: Row, right: Row) -> Row:
    return Row({**left.values, **right.values}, left.made_of | right.made_of, left.is_null or right.is_null)


MACHINES: dict[type[Any], type[Machine]] = {
    chain.Window: WindowOperator,
    chain.Where: WhereOperator,
    chain.Aggregate: AggregateOperator,
    chain.Deduplicate: DeduplicateOperator,
    chain.Limit: LimitOperator,
    chain.Join: JoinOperator,
}
