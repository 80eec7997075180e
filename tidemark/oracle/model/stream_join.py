"""Spark's stream-stream join, as literally as it can be written down: of a single join and of one in a chain.

Free of I/O. This is the row-by-row model that was fuzzed against the engine itself. A batch N runs with the *eviction
watermark* W[N] and the *late watermark* W[N-1], 0 for the first batch (``WatermarkPropagator.scala``: not W[N]). Rows
at or before the late watermark are dropped before the join; the others come here:

1. left rows are probed against the right state and stored, then right rows against the left state (so a pair of one
   batch is found once, by its right row); a left semi join emits each left row of the state that a right row matches,
   and never stores a left row that matched. Since 4.2 it takes the right rows first, and removes what it emits
   (SPARK-55973); before, that is marked as matched, stays, and is emitted once;
2. a left row is stored even if it is already evictable, a right row is not, unless it is owed a NULL row;
3. after all output of the batch, evictable rows leave the state, and an unmatched row of a preserved side leaves with
   a NULL row;
4. keys are compared byte by byte, so NULL keys match; only where a side is not preserved are they filtered out
   beforehand. In a full outer join nobody does, and NULL keys are joined;
5. state format 4 goes by ranges of time. In 4.2 an eviction begins where the one before it ended, so that a row that
   is stored behind it stays for ever (``Limits.evicted_us``), and partners are looked for in a range that a condition
   may have narrowed (``JoinLogic.scanned``). A row without a time has the time 0 there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from tidemark.formats.contract import COMPARISONS, PRESERVED, JoinKind, Term
from tidemark.oracle.spark.time_ranges import FOREVER_US, LEFT, RIGHT, US_PER_MS, TimeRange

Source = TypeVar("Source")


@dataclass(eq=False, slots=True)
class JoinRow(Generic[Source]):
    """An input row: ``source`` is what it stands for, ``time_us`` its event time or the end of its window.

    ``fields`` are the values that the condition compares. ``stored`` and ``removed`` are the batches in which it enters
    and leaves the state, ``None`` if it does not.
    """

    source: Source
    side: int
    key: Hashable
    time_us: int | None
    fields: Mapping[str, Any]
    matched: bool = False
    stored: int | None = None
    removed: int | None = None


@dataclass(frozen=True)
class JoinLogic:
    """Which join, and how Spark plans it.

    ``conditions`` are the conjuncts over both sides. ``right_first``: a left semi join takes the right rows of a batch
    first, and removes what it emits (``SparkRules.semi_right_first``). ``by_time``: the state is ordered by time;
    ``scanned`` is where this Spark looks for partners in it.
    """

    kind: JoinKind
    window: TimeRange
    conditions: Sequence[Term] = ()
    right_first: bool = True
    by_time: bool = False
    scanned: TimeRange = field(default_factory=lambda: TimeRange(-FOREVER_US, FOREVER_US))


@dataclass(frozen=True)
class Limits:
    """Of each side in a batch: the last time that is evictable, and the last one that was evicted before.

    ``None``: nothing is evictable; there is no row that the eviction before has left behind.
    """

    evictable_us: tuple[int | None, int | None]
    evicted_us: tuple[int | None, int | None] = (None, None)

    @staticmethod
    def until(left_ms: int | None, right_ms: int | None) -> Limits:
        """What is evictable up to these times, in milliseconds."""
        return Limits((_in_us(left_ms), _in_us(right_ms)))


Emit = Callable[[JoinRow[Source] | None, JoinRow[Source] | None], None]
"""Takes an output row: a pair, or a NULL row or semi row with ``None`` in the place of the other side."""


class _State(Generic[Source]):
    """The rows of one side."""

    def __init__(self) -> None:
        self.rows: defaultdict[Hashable, list[JoinRow[Source]]] = defaultdict(list)
        self._due: list[tuple[int, int, JoinRow[Source]]] = []
        self._count = 0

    def add(self, row: JoinRow[Source], due_us: int | None) -> None:
        """Keep a row that is evicted by this time; ``None``: never."""
        self.rows[row.key].append(row)
        if due_us is not None:
            self._count += 1
            heappush(self._due, (due_us, self._count, row))

    def remove(self, row: JoinRow[Source]) -> None:
        """Take a row out."""
        others = self.rows[row.key]
        others.remove(row)
        if not others:
            del self.rows[row.key]

    def evict(self, limit_us: int) -> Iterator[JoinRow[Source]]:
        """Take out the rows at or before a time, earliest first."""
        while self._due and self._due[0][0] <= limit_us:
            row = heappop(self._due)[2]
            if row.removed is None:
                self.remove(row)
                yield row


class StreamJoin(Generic[Source]):
    """A join at work, batch after batch."""

    def __init__(self, rules: JoinLogic) -> None:
        self.rules = rules
        self.preserved = PRESERVED.get(rules.kind, ())
        self.is_semi = rules.kind is JoinKind.LEFT_SEMI
        self.examined = 0
        """So many rows of the state were compared with a new one."""
        self.stored, self.removed = [0, 0], [0, 0]
        """How many rows of each side entered and left the state in the last batch."""
        self._states: tuple[_State[Source], _State[Source]] = (_State(), _State())

    def run(
        self,
        batch: int,
        rows: tuple[Sequence[JoinRow[Source]], Sequence[JoinRow[Source]]],
        limits: Limits,
        emit: Emit[Source],
    ) -> None:
        """Join the accepted rows of a batch, then evict."""
        self.stored, self.removed = [0, 0], [0, 0]
        for side in (RIGHT, LEFT) if self.is_semi and self.rules.right_first else (LEFT, RIGHT):
            for row in rows[side]:
                self._take(row, batch, limits, emit)
        for side in (LEFT, RIGHT):
            self._evict(side, batch, limits.evictable_us[side], emit)

    def kept(self, side: int) -> Iterator[JoinRow[Source]]:
        """The rows of a side that are in the state."""
        for rows in self._states[side].rows.values():
            yield from rows

    def _take(self, row: JoinRow[Source], batch: int, limits: Limits, emit: Emit[Source]) -> None:
        side, other = row.side, self._states[1 - row.side]
        known = other.rows.get(row.key, ())
        self.examined += len(known)
        matches = [one for one in known if self._matches(*((row, one) if side == LEFT else (one, row)))]
        for one in matches:
            if not self.is_semi:
                emit(*((row, one) if side == LEFT else (one, row)))
            elif side == RIGHT:
                self._emit_semi(one, batch, emit)
            one.matched = row.matched = True
        if self.is_semi and side == LEFT and matches:
            emit(row, None)
            return
        is_owed = side in self.preserved and not matches
        if side == RIGHT and not is_owed and _is_by(row.time_us, limits.evictable_us[RIGHT]):
            return
        row.stored = batch
        self.stored[side] += 1
        self._states[side].add(row, self._due_us(row, limits.evicted_us[side]))

    def _emit_semi(self, left: JoinRow[Source], batch: int, emit: Emit[Source]) -> None:
        """Emit a left row of the state that a right row matches, unless it was emitted before."""
        if self.rules.right_first:
            left.removed = batch
            self.removed[LEFT] += 1
            self._states[LEFT].remove(left)
        elif left.matched:
            return
        emit(left, None)

    def _due_us(self, row: JoinRow[Source], evicted_us: int | None) -> int | None:
        """The time by which a row is evicted; ``None``: never."""
        time_us = 0 if row.time_us is None and self.rules.by_time else row.time_us
        return None if _is_by(time_us, evicted_us) else time_us

    def _matches(self, left: JoinRow[Source], right: JoinRow[Source]) -> bool:
        rules, times_us = self.rules, (left.time_us, right.time_us)
        if not rules.window.is_boundless and not (
            times_us[0] is not None
            and times_us[1] is not None
            and rules.window.holds(times_us[0], times_us[1])
        ):
            return False
        if not rules.scanned.is_boundless and not rules.scanned.holds(times_us[0] or 0, times_us[1] or 0):
            return False
        return all(_holds(term, left, right) for term in rules.conditions)

    def _evict(self, side: int, batch: int, limit_us: int | None, emit: Emit[Source]) -> None:
        if limit_us is None:
            return
        for row in self._states[side].evict(limit_us):
            row.removed = batch
            self.removed[side] += 1
            if side in self.preserved and not row.matched:
                emit(*((row, None) if side == LEFT else (None, row)))


def _in_us(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * US_PER_MS


def _is_by(time_us: int | None, limit_us: int | None) -> bool:
    """Whether a time is at or before another; where one is missing it is not."""
    return time_us is not None and limit_us is not None and time_us <= limit_us


def _holds(term: Term, left: JoinRow[Any], right: JoinRow[Any]) -> bool:
    """Whether a conjunct over both sides holds; with a NULL none does."""
    one, other = left.fields[str(term.left)], right.fields[str(term.right)]
    return one is not None and other is not None and COMPARISONS[term.op](one, other)
