"""The model of a join: Spark's rules, replayed over the batches that the checkpoint names.

Free of Spark and of I/O. It is the row-by-row model of Spark 4.2's stream-stream join that was fuzzed against the
engine itself. Per batch N, with ``eviction_watermark`` W[N] and ``late_watermark`` W[N-1] (0 for the first batch; not
W[N]: ``WatermarkPropagator.scala``):

1. a row at or before the late watermark is dropped, counted as late, if its side has a watermark; a row of a
   preserved side that fails a condition on that side alone is answered with its NULL row, and goes no further;
2. left rows are probed against the right state and stored, then right rows against the left state (so a pair
   of the same batch is found once, by its right row); a left semi join takes the right rows first
   (SPARK-55973), emits each left state row that one matches and removes it, and never stores a left row that
   matched;
3. a left row is stored even if it is already evictable, a right row is not, unless it is owed a NULL row;
4. after all output of the batch, evictable rows leave the state, and an unmatched row of a preserved side
   leaves with a NULL row;
5. the next watermark is ``max(W[N], policy over both inputs of (latest event time seen, in ms, - delay))``;
   late rows count, rows filtered below the watermark do not; an input that has shown no row counts as 0, one without
   a watermark not at all;
6. the operator itself compares keys byte by byte, so NULL keys match; only where a side is not preserved are they
   filtered out beforehand. In a full outer join nobody does, and NULL keys are joined;
7. state format 4 goes by ranges of time. In 4.2 an eviction begins where the one before it ended, so that a row that is
   stored behind it stays for ever (``evicted_us``), and partners are looked for in a range that a condition may have
   narrowed (``scanned``).

A query that was started again has forgotten the latest event times of both inputs, not W itself (the map in
``WatermarkTracker`` is kept in no file); so W stands still until both have shown a row again. A batch that was run
again was run by such a query.

W is *predicted* from rows (``watermarks``), never copied from the checkpoint: rows are judged by the watermarks that
the contract promises. Where the checkpoint differs, ``wrong_watermarks`` is the one finding for the cause, and
what the wrong watermark did to rows shows as findings about those rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from tidemark.formats.contract import COMPARISONS, PRESERVED, JoinKind
from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, ROW_MASK, Disposition, History, alone, pair
from tidemark.oracle.model.watermarks import Watermarks
from tidemark.oracle.spark.known_defects import FORMAT_4_MISSES_ROWS, has_defect
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import (
    FOREVER_US,
    LEFT,
    NULL_TIME_US,
    RIGHT,
    US_PER_MS,
    evicted_us,
    scanned,
    state_ms,
    window,
)

State = dict[int, list[int]]
"""Key number -> its rows, each as ``time_us << ROW_BITS | row``, sorted."""
_AT_ONCE = 64
"""So many rows of the state are asked for a condition before the next: often one of the first is a partner."""


@dataclass
class Prediction:
    """What this Spark must do."""

    batch_of: dict[int, int] = field(default_factory=dict)
    """Identity of each output row -> the batch that emits it."""
    watermarks_ms: list[int] = field(default_factory=list)
    """Eviction watermark of each batch, and of the one that would come next."""
    disposition: bytearray = field(default_factory=bytearray)
    """Per row, a ``Fate``."""
    matched: bytearray = field(default_factory=bytearray)
    """Per row, whether it was joined."""
    stored: array[int] = field(default_factory=lambda: array("i"))
    """Per row, the batch that put it into the state, or ``NO_BATCH``."""
    removed: array[int] = field(default_factory=lambda: array("i"))
    """Per row, the batch that took it out of the state again, or ``NO_BATCH``."""

    def late_ms(self, batch: int) -> int:
        """The late watermark of a batch: the eviction watermark of the batch before."""
        return self.watermarks_ms[batch - 1] if batch > 0 else 0


def misses_rows(history: History) -> bool:
    """Whether the state goes by ranges of time that are too small: those of format 4 in Spark 4.2."""
    return history.by_time and has_defect(history.manifest.versions, FORMAT_4_MISSES_ROWS)


def predict(history: History) -> Prediction:
    """Replay the batches of a history."""
    never = array("i", [NO_BATCH]) * len(history.rows)
    prediction = Prediction(
        disposition=bytearray(history.rows.disposition),
        matched=bytearray(len(history.rows)),
        stored=never,
        removed=never[:],
    )
    join = _SemiJoin if history.contract.kind is JoinKind.LEFT_SEMI else _Join
    model, watermarks = join(history, prediction), Watermarks(history)
    for batch in history.batches:
        number = batch.plan.batch
        watermarks.begin(batch.plan)
        prediction.watermarks_ms.append(watermarks.current_ms)
        left = _readable(batch.rows[LEFT], prediction.disposition)
        right = _readable(batch.rows[RIGHT], prediction.disposition)
        watermarks.observe((left, right), [_optional(history, rows) for rows in batch.rows])
        model.start(number, prediction.late_ms(number), prediction.watermarks_ms[number])
        model.take(model.accept(LEFT, left), model.accept(RIGHT, right))
        model.evict()
    prediction.watermarks_ms.append(watermarks.current_ms)
    return prediction


def _optional(history: History, rows: list[int]) -> list[int]:
    return [row for row in rows if row in history.optional] if history.optional else []


def _readable(rows: list[int], disposition: bytearray) -> list[int]:
    return [row for row in rows if not disposition[row]]  # Fate.UNREAD is 0: neither unreadable nor filtered


class _Join:
    """Inner, and the outer joins."""

    def __init__(self, history: History, prediction: Prediction) -> None:
        rows, contract = history.rows, history.contract
        self.preserved = PRESERVED.get(contract.kind, ())
        self.nulls_match = contract.kind is JoinKind.FULL_OUTER
        self.contract, self.pushdown, self.window = contract, history.pushdown, window(contract.bound)
        self.watermarked = [one.watermark_delay_ms is not None for one in (contract.left, contract.right)]
        self.time_us, self.key, self.numbers = rows.time_us, rows.key, rows.numbers
        self.disposition, self.matched, self.batch_of = (
            prediction.disposition,
            prediction.matched,
            prediction.batch_of,
        )
        self.stored, self.removed = prediction.stored, prediction.removed
        keeps = contract.left.keeps_null_event_time or contract.right.keeps_null_event_time
        self.null_time = keeps and not self.window.is_boundless  # rows that are there and match nothing
        self.null_time_us = 0 if history.by_time else NULL_TIME_US
        self.misses = misses_rows(history)
        self.scanned = scanned(contract, history.pushdown.limits_ms) if self.misses else self.window
        self.states: tuple[State, State] = ({}, {})
        self.ageing = _Ageing(), _Ageing()
        self.batch, self.late_us = 0, 0
        self.evictable_us = [-FOREVER_US, -FOREVER_US]
        self.evicted_us = [-FOREVER_US, -FOREVER_US]

    def start(self, batch: int, late_ms: int, eviction_ms: int) -> None:
        """Begin a batch."""
        self.batch, self.late_us = batch, late_ms * US_PER_MS
        for side in (LEFT, RIGHT):
            limit_ms = state_ms(self.contract, side, eviction_ms, self.pushdown.limits_ms[side])
            self.evictable_us[side] = -FOREVER_US if limit_ms is None else limit_ms * US_PER_MS
            if self.misses:
                before_ms, limits_ms = late_ms if batch else None, self.pushdown.limits_ms[side]
                self.evicted_us[side] = evicted_us(self.contract, side, before_ms, limits_ms)

    def accept(self, side: int, rows: list[int]) -> list[int]:
        """The rows that take part in the join, with the disposition of each set."""
        time_us, disposition, late_us = self.time_us, self.disposition, self.late_us
        if not self.watermarked[side]:
            late_us = -FOREVER_US
        accepted = []
        for row in rows:
            if time_us[row] <= late_us:
                disposition[row] = Disposition.LATE
            else:
                disposition[row] = Disposition.ACCEPTED
                accepted.append(row)
        for what in self.pushdown.early[side]:
            values, passed = self.numbers[side][what.field], []
            for row in accepted:
                if passes(values[row], what):
                    passed.append(row)
                else:
                    self.batch_of[alone(row)] = self.batch
            accepted = passed
        return accepted

    def take(self, left: list[int], right: list[int]) -> None:
        """Join the accepted rows of a batch: left rows first, then right rows."""
        batch, batch_of, matched, key = self.batch, self.batch_of, self.matched, self.key
        known = self.states[RIGHT]
        for row in left:
            if key[row] in known:
                for other in self.partners(LEFT, row):
                    batch_of[pair(row, other)] = batch
                    matched[row] = matched[other] = True
        self.store(LEFT, left)
        known = self.states[LEFT]
        for row in right:
            if key[row] in known:
                for other in self.partners(RIGHT, row):
                    batch_of[pair(other, row)] = batch
                    matched[row] = matched[other] = True
        self.store(RIGHT, self.lasting(right))

    def lasting(self, right: list[int]) -> list[int]:
        """The right rows that are stored: those that are not evictable already, or are owed a NULL row."""
        time_us, evictable_us, matched = self.time_us, self.evictable_us[RIGHT], self.matched
        if RIGHT in self.preserved:
            return [row for row in right if time_us[row] > evictable_us or not matched[row]]
        return [row for row in right if time_us[row] > evictable_us]

    def partners(self, side: int, row: int) -> list[int]:
        """The rows in the other side's state that a row matches."""
        entries = self.states[1 - side].get(self.key[row])
        if not entries:
            return []
        first, last = self.span(side, row, entries)
        found = [entry & ROW_MASK for entry in entries[first:last]]
        return self.chosen(side, row, found) if self.pushdown.pairs else found

    def span(self, side: int, row: int, entries: list[int]) -> tuple[int, int]:
        """Where the entries whose times a row matches begin and end among those of its key on the other side."""
        time_us = self.time_us[row]
        if self.null_time and time_us == NULL_TIME_US:
            return 0, 0
        low_us, high_us = self.reach(side, time_us)
        first = bisect_left(entries, low_us << ROW_BITS)
        return first, bisect_left(entries, (high_us + 1) << ROW_BITS, first)

    def chosen(self, side: int, row: int, others: list[int]) -> list[int]:
        """The partners with which the conjuncts over both sides hold."""
        for term in self.pushdown.pairs:
            holds, own, theirs = COMPARISONS[term.op], term.left or "", term.right or ""
            if side == RIGHT:
                own, theirs = theirs, own
            value, values = self.numbers[side][own][row], self.numbers[1 - side][theirs]
            if value is None:
                return []
            known = [(other, number) for other in others if (number := values[other]) is not None]
            others = [
                other for other, number in known
                if (holds(value, number) if side == LEFT else holds(number, value))
            ]  # fmt: skip
        return others

    def reach(self, side: int, time_us: int) -> tuple[int, int]:
        """The times on the other side that a time matches, both inclusive."""
        if side == LEFT:
            return time_us - self.scanned.upper_us, time_us - self.scanned.lower_us
        return time_us + self.scanned.lower_us, time_us + self.scanned.upper_us

    def store(self, side: int, rows: list[int]) -> None:
        """Keep rows; one with a NULL key or without a time, which matches nothing, only for its NULL row."""
        time_us, key, state, stored = self.time_us, self.key, self.states[side], self.stored
        entries = [time_us[row] << ROW_BITS | row for row in rows]
        for at, (row, entry) in enumerate(zip(rows, entries, strict=True)):
            of = key[row]
            stored[row] = self.batch
            if self.null_time and time_us[row] == NULL_TIME_US:
                entries[at] = self.null_time_us << ROW_BITS | row
                continue
            if of < 0 and not self.nulls_match:
                continue
            others = state.get(of)
            if others is None:
                state[of] = [entry]
            elif entry > others[-1]:
                others.append(entry)
            else:
                insort(others, entry)
        if self.misses:  # an eviction looks at the times since the one before it, and never at these again
            evicted = (self.evicted_us[side] + 1) << ROW_BITS
            entries = [entry for entry in entries if entry >= evicted]
        self.ageing[side].add(entries)

    def evict(self) -> None:
        """End a batch: rows that can match no more leave, a preserved one without a match with its NULL row."""
        for side in (LEFT, RIGHT):
            matched, removed, batch, batch_of = self.matched, self.removed, self.batch, self.batch_of
            owes_null = side in self.preserved
            end = (self.evictable_us[side] + 1) << ROW_BITS
            evicted = self.expired(side, end)
            for entry in evicted:
                row = entry & ROW_MASK
                removed[row] = batch
                if owes_null and not matched[row]:
                    batch_of[row << ROW_BITS] = batch  # its identity: alone(row)
            self.forget(side, evicted, end)

    def expired(self, side: int, end: int) -> list[int]:
        """The entries of a side below ``end``, which are there for the last time."""
        return self.ageing[side].evict(end)

    def forget(self, side: int, evicted: list[int], end: int) -> None:
        """Take what is below ``end`` out of the state, of the keys of what was evicted.

        A row that state format 4 never evicts can go with it: it matches nothing any more either.
        """
        key, state = self.key, self.states[side]
        for of in {key[entry & ROW_MASK] for entry in evicted}:
            entries = state.get(of)
            if entries is None:  # it was never there: its key is NULL, or its time
                continue
            if entries[-1] < end:
                del state[of]
            else:
                del entries[: bisect_left(entries, end)]


class _SemiJoin(_Join):
    """Left semi: right rows first; a left row leaves the state at its first match."""

    def take(self, left: list[int], right: list[int]) -> None:
        for row in right:
            self.release(row)
        self.store(RIGHT, self.lasting(right))
        unmatched = []
        for row in left:
            if self.has_partner(row):
                self.batch_of[alone(row)] = self.batch
                self.matched[row] = True
            else:
                unmatched.append(row)
        self.store(LEFT, unmatched)

    def release(self, row: int) -> None:
        """Emit the left rows of the state that a right row matches, and take them out of it."""
        of, state = self.key[row], self.states[LEFT]
        entries = state.get(of)
        if not entries:
            return
        first, last = self.span(RIGHT, row, entries)
        for other in self.chosen(RIGHT, row, [entry & ROW_MASK for entry in entries[first:last]]):
            self.batch_of[alone(other)] = self.batch
            self.matched[other] = True
            self.removed[other] = self.batch
        entries[first:last] = [entry for entry in entries[first:last] if not self.matched[entry & ROW_MASK]]
        if not entries:
            del state[of]

    def has_partner(self, row: int) -> bool:
        """Whether a left row matches one of the right rows in the state."""
        entries = self.states[RIGHT].get(self.key[row])
        if not entries:
            return False
        first, last = self.span(LEFT, row, entries)
        if not self.pushdown.pairs:
            return first < last
        return any(
            self.chosen(LEFT, row, [entry & ROW_MASK for entry in entries[at : min(at + _AT_ONCE, last)]])
            for at in range(first, last, _AT_ONCE)
        )

    def expired(self, side: int, end: int) -> list[int]:
        evicted = super().expired(side, end)
        if side == RIGHT:
            return evicted
        return [entry for entry in evicted if not self.matched[entry & ROW_MASK]]  # which have left already


class _Ageing:
    """The stored rows of a side by time: one sorted list per batch, so that eviction looks only at their beginnings."""

    def __init__(self) -> None:
        self._batches: list[list[int]] = []

    def add(self, entries: list[int]) -> None:
        """Take the rows that a batch stored."""
        if entries:
            self._batches.append(sorted(entries, reverse=True))

    def evict(self, end: int) -> list[int]:
        """Remove and return the entries below ``end``."""
        evicted: list[int] = []
        for entries in self._batches:
            while entries and entries[-1] < end:
                evicted.append(entries.pop())
        self._batches = [entries for entries in self._batches if entries]
        return evicted
