"""Which rows a row could have been joined with, and why it was not: key, time bound or condition, or one was late.

Decides nothing: what matches the rules of the comparison say (``Partners``), what is late or stored the model.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from tidemark.formats.contract import JoinKind
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.input.history import NO_BATCH, NO_KEY, Disposition, alone, pair
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, state_ms
from tidemark.reports.replayed_rows import ReplayedRows

BESIDE = 2
"""So many rows are looked at before the times that match, and so many behind them."""
INSIDE = 4


class RowCandidates:
    """The candidates of the rows of one run."""

    def __init__(self, replayed: ReplayedRows) -> None:
        self._replayed = replayed
        self._history = replayed.history
        self._words = replayed.words

    def of(self, row: int) -> tuple[list[int], int]:
        """The rows of the other side with its key, nearest to the times that match, and how many more there are."""
        rows = self._history.rows
        side, time_us = rows.side[row], rows.time_us[row]
        if rows.key[row] == NO_KEY:
            return [], 0
        times_us, others = self._replayed.by_key.get((1 - side, rows.key[row]), ([], []))
        if time_us == NULL_TIME_US or self._replayed.window.is_boundless:
            low, high = 0, len(others)
        else:
            low_us, high_us = self._replayed.window.partners_us(side, time_us)
            low, high = bisect_left(times_us, low_us), bisect_right(times_us, high_us)
        found = [
            *others[max(low - BESIDE, 0) : low],
            *others[low:high][:INSIDE],
            *others[high : high + BESIDE],
        ]
        return found, len(others) - len(found)

    def outside_us(self, row: int, other: int) -> int:
        """How far the other's time is outside of the bound; above 0 it is too late."""
        rows = self._history.rows
        if NULL_TIME_US in (rows.time_us[row], rows.time_us[other]):
            return 0
        left, right = (row, other) if rows.side[row] == LEFT else (other, row)
        outside_us = self._replayed.window.outside_us(rows.time_us[left], rows.time_us[right])
        return -outside_us if rows.side[row] == LEFT else outside_us

    def why(self, row: int, other: int) -> tuple[bool, str]:
        """Whether two rows are joined by Spark's rules, and why not."""
        reasons = [*self._apart(row, other), *self._not_there(other)]
        mine = list(self._not_there(row))
        if reasons:
            return False, "; ".join(reasons)
        if mine:
            return False, "matches by key and time, but the row itself takes no part in the join"
        return self._met(row, other)

    def _apart(self, row: int, other: int) -> Iterable[str]:
        """Why key, time or condition do not match."""
        rows = self._history.rows
        left, right = (row, other) if rows.side[row] == LEFT else (other, row)
        if rows.key[row] != rows.key[other]:
            yield f"another key: {key_text(self._history.key_of(other))}"
            return
        if rows.key[row] < 0:
            yield "a NULL key matches nothing"
            return
        if (
            NULL_TIME_US in (rows.time_us[row], rows.time_us[other])
            and not self._replayed.window.is_boundless
        ):
            yield "without an event time it matches nothing"
        elif outside_us := self.outside_us(row, other):
            apart_s = (rows.time_us[left] - rows.time_us[right]) / 1_000_000
            how = "too late" if outside_us > 0 else "too early"
            yield f"{span(abs(outside_us))} {how}: the distance is {apart_s:.6g} s, the bound {self._words.bound()}"
        elif Disposition.UNREADABLE in (rows.disposition[row], rows.disposition[other]):
            return
        elif not self._replayed.partners.match(left, right):
            yield "the condition on both sides' fields does not hold"

    def _not_there(self, row: int) -> Iterable[str]:
        """Why a row takes no part in the join."""
        disposition = self._replayed.prediction.disposition[row]
        batch = self._history.rows.batch[row]
        if batch == NO_BATCH:
            yield "no batch read it"
        elif disposition == Disposition.LATE:
            late = f"{moment(self._replayed.late_ms(row))}, {self.before_late(row)}"
            yield f"it was late: batch {batch} drops rows at or before its late watermark {late}"
        elif disposition == Disposition.UNREADABLE:
            yield "it is not an event and had to be filtered out"
        elif disposition == Disposition.FILTERED:
            yield "it has a NULL join key or fails a filter"

    def before_late(self, row: int) -> str:
        """How far a row is from the late watermark of its batch."""
        apart_us = self._history.rows.time_us[row] - self._replayed.late_ms(row) * US_PER_MS
        if not apart_us:
            return "which is its time"
        return f"{span(abs(apart_us))} {'after' if apart_us < 0 else 'before'} it"

    def _met(self, row: int, other: int) -> tuple[bool, str]:
        """Of two rows that match and take part: whether they met in the state."""
        rows, due = self._history.rows, self._replayed.prediction.batch_of
        left, right = (row, other) if rows.side[row] == LEFT else (other, row)
        if self._history.contract.kind is JoinKind.LEFT_SEMI:
            if (batch := due.get(alone(left))) is not None:
                return True, f"matches: the semi row is due in batch {batch}"
        elif (batch := due.get(pair(left, right))) is not None:
            return True, f"matches: the row of both is due in batch {batch}"
        first = min((left, right), key=lambda one: (rows.batch[one], one == left))
        whose = "the row itself" if first == row else "it"
        return False, f"matches, but {whose} was not in the state: {self._not_kept(first)}"

    def _not_kept(self, row: int) -> str:
        """Why a row was not in the state when a partner came, by Spark's rules."""
        history, prediction, place = self._history, self._replayed.prediction, self._words.place(row)
        side, batch = history.rows.side[row], history.rows.batch[row]
        stored, removed = prediction.stored[row], prediction.removed[row]
        if stored != NO_BATCH:
            return (
                f"{place} left it in batch {removed}" if removed != NO_BATCH else f"{place} was not looked at"
            )
        limits_ms = history.pushdown.limits_ms[side]
        limit_ms = state_ms(history.contract, side, prediction.watermarks_ms[batch], limits_ms)
        name = f"the {'right' if side == RIGHT else 'left'} state watermark"
        where = "" if limit_ms is None else f" {moment(limit_ms)}"
        return f"{place} is at or before {name}{where} of its batch, and was not stored"


def key_text(key: Sequence[str | None]) -> str:
    """A join key as one text."""
    return ", ".join("NULL" if part is None else part for part in key)


def span(time_us: int) -> str:
    """A length of time in words."""
    if time_us < 1_000_000:
        return f"{time_us / 1000:g} ms"
    return f"{time_us / 1_000_000:.6g} s"
