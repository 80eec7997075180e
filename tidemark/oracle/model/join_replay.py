"""The model of a single join: Spark's rules, replayed over the batches that the checkpoint names.

Free of Spark and of I/O. ``stream_join`` has the join itself; here are its rows and watermarks:

* a row at or before the late watermark is dropped, counted as late, if its side has a watermark; a row of a preserved
  side that fails a condition on that side alone is answered with its NULL row, and goes no further;
* the next watermark is ``max(W[N], policy over both inputs of (latest event time seen, in ms, - delay))``; late rows
  count, rows filtered upstream of the watermark do not; an input that has shown no row counts as 0, one without a
  watermark not at all;
* a query that was started again has forgotten the latest event times of both inputs, not W itself (the map in
  ``WatermarkTracker`` is kept in no file); so W stands still until both have shown a row again. A batch that was run
  again was run by such a query.

W is *predicted* from rows (``watermarks``), never copied from the checkpoint: rows are judged by the watermarks that
the contract promises. Where the checkpoint differs, ``wrong_watermarks`` is the one finding for the cause, and what the
wrong watermark did to rows shows as findings about those rows.

The watermarks take all rows, the join those of some keys (``Sample``): keys do not meet each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidemark.oracle.input.history import NO_BATCH, Disposition, History, alone, pair
from tidemark.oracle.model.sample import Sample
from tidemark.oracle.model.stream_join import JoinLogic, JoinRow, Limits, StreamJoin
from tidemark.oracle.model.watermarks import Watermarks
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import (
    LEFT,
    NULL_TIME_US,
    RIGHT,
    US_PER_MS,
    evicted_us,
    scanned,
    state_ms,
    window,
)


@dataclass
class Replay:
    """What Spark's rules give: the watermark of each batch and of the next, and the output rows that are made of rows
    of the sample, by identity, with their batches.

    In columns, of which the places of the sample say something: ``disposition``, and the batches in which a row is
    ``stored`` in the state and ``removed`` from it, ``NO_BATCH`` if it is not.
    """

    sample: Sample
    disposition: np.ndarray
    stored: np.ndarray
    removed: np.ndarray
    watermarks_ms: list[int] = field(default_factory=list)
    batch_of: dict[int, int] = field(default_factory=dict)


def replay(history: History, sample: Sample, watermarks_ms: Sequence[int] | None = None) -> Replay:
    """Replay the batches of a history for the keys of a sample.

    ``watermarks_ms`` are those of each batch and of the next, where they are not to be predicted, as of an audit.
    """
    never = np.full(len(history.rows), NO_BATCH, dtype=np.int32)
    disposition = np.frombuffer(bytes(history.rows.disposition), dtype=np.uint8).copy()
    found, watermarks, join = (
        Replay(sample, disposition, never, never.copy()),
        Watermarks(history),
        _Join(history),
    )
    may_read = disposition == Disposition.UNREAD
    for batch in history.batches:
        watermarks.begin(batch.plan)
        at = len(found.watermarks_ms)
        found.watermarks_ms.append(watermarks.current_ms if watermarks_ms is None else watermarks_ms[at])
        sides = [np.array(rows, dtype=np.int64) for rows in batch.rows]
        readable = sides[LEFT][may_read[sides[LEFT]]], sides[RIGHT][may_read[sides[RIGHT]]]
        if watermarks_ms is None:
            watermarks.observe(readable, [_optional(history, rows) for rows in batch.rows])
        left, right = (rows[sample.rows[rows]].tolist() for rows in readable)
        join.run(found, left, right)
    found.watermarks_ms.append(watermarks.current_ms if watermarks_ms is None else watermarks_ms[-1])
    join.finish(found)
    return found


def _optional(history: History, rows: list[int]) -> np.ndarray:
    return np.array(
        [row for row in rows if row in history.optional] if history.optional else [], dtype=np.int64
    )


class _Join:
    """A single join at work, on the rows of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        contract, limits_ms = history.contract, history.pushdown.limits_ms
        bound = window(contract.bound)
        looked_at = scanned(contract, limits_ms) if history.misses_rows else bound
        self._join: StreamJoin[int] = StreamJoin(
            JoinLogic(
                contract.kind,
                bound,
                history.pushdown.pairs,
                right_first=history.spark.semi_right_first,
                by_time=history.by_time,
                scanned=looked_at,
            )
        )
        self._rows: list[JoinRow[int]] = []
        self._watermarked = [one.watermark_delay_ms is not None for one in (contract.left, contract.right)]

    def run(self, found: Replay, left: list[int], right: list[int]) -> None:
        """Run the next batch, whose watermark is the last that was found."""
        batch = len(found.watermarks_ms) - 1
        late_ms = found.watermarks_ms[batch - 1] if batch else 0

        def emit(one: JoinRow[int] | None, other: JoinRow[int] | None) -> None:
            if one is not None and other is not None:
                found.batch_of[pair(one.source, other.source)] = batch
            elif (single := one or other) is not None:
                found.batch_of[alone(single.source)] = batch

        rows = self._accepted(found, LEFT, left, late_ms), self._accepted(found, RIGHT, right, late_ms)
        self._join.run(batch, rows, self._limits(batch, late_ms, found.watermarks_ms[batch]), emit)

    def finish(self, found: Replay) -> None:
        """Say when each row was in the state."""
        for row in self._rows:
            if row.stored is not None:
                found.stored[row.source] = row.stored
            if row.removed is not None:
                found.removed[row.source] = row.removed

    def _accepted(self, found: Replay, side: int, rows: list[int], late_ms: int) -> list[JoinRow[int]]:
        """The rows that are not late and meet the conditions on their own side."""
        history, accepted = self._history, []
        early, batch = history.pushdown.early[side], len(found.watermarks_ms) - 1
        for row in rows:
            time_us: int | None = history.rows.time_us[row]
            if time_us == NULL_TIME_US:
                time_us = None
            if self._watermarked[side] and time_us is not None and time_us <= late_ms * US_PER_MS:
                found.disposition[row] = Disposition.LATE
                continue
            found.disposition[row] = Disposition.ACCEPTED
            fields = self._fields(side, row)
            one = JoinRow(row, side, history.rows.key[row], time_us, fields)
            self._rows.append(one)
            if all(passes(fields[what.field], what) for what in early):
                accepted.append(one)
            else:
                found.batch_of[alone(row)] = batch
        return accepted

    def _fields(self, side: int, row: int) -> Mapping[str, Any]:
        numbers = self._history.rows.numbers[side]
        return {name: numbers[name][row] for name in self._history.pushdown.fields[side]} if numbers else {}

    def _limits(self, batch: int, late_ms: int, eviction_ms: int) -> Limits:
        contract, limits_ms = self._history.contract, self._history.pushdown.limits_ms
        limits = Limits.until(
            *(state_ms(contract, side, eviction_ms, limits_ms[side]) for side in (LEFT, RIGHT))
        )
        if not self._history.misses_rows:
            return limits
        before_ms = late_ms if batch else None
        left_us, right_us = (evicted_us(contract, side, before_ms, limits_ms[side]) for side in (LEFT, RIGHT))
        return replace(limits, evicted_us=(left_us, right_us))
