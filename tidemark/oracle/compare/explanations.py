"""What is wrong with a row that should not have come, or not there, or did not come: its property and the
reason.

Free of I/O. Asked only about rows that are wrong, so it may take its time.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.compare.wording import Wording, moment
from tidemark.oracle.input.history import NO_BATCH, Disposition, History, first_of, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.known_defects import (
    CONDITION_BOUNDS_THE_STATE,
    FORMAT_4_MISSES_ROWS,
    FULL_OUTER_JOINS_NULL_KEYS,
    NULL_EVENT_TIME_NEVER_EVICTED,
    ONE_SIDED_WATERMARK,
)
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import evicted_at_ms, window

_PARTNERS_NAMED = 3

Why = str | Callable[[], str]
"""The end of a sentence whose subject is the output row, or what makes it, where that takes long."""
Reason = tuple[str, Why]
"""A property, and why."""


def if_it_never_came(identity: int, kind: JoinKind) -> str:
    """The property of a row that is owed and did not come."""
    return "missing_nulls" if right_of(identity) is None and kind in PRESERVED else "lost_rows"


class Explain:
    """Reasons for one run."""

    def __init__(self, history: History, prediction: Prediction, words: Wording) -> None:
        self._history = history
        self._prediction = prediction
        self._words = words
        self._kind = history.contract.kind
        self._partners = Partners(history)

    def owed(self, identity: int, batch: int) -> str:
        """Why a row that never came was owed by a batch."""
        left, right = first_of(identity), right_of(identity)
        where = f"never came, although {self._words.watermarks(batch)} is committed and owes it"
        if right is not None:
            return f"{where}: neither is late, their keys are equal and {self._distance(left, right)}"
        if self._kind in PRESERVED:
            return f"{where}: it has no accepted partner and {self._eviction(left)}"
        return f"{where}: it is not late, and so is not its partner {self._name_partners(left, Disposition.ACCEPTED)}"

    def lost_by_spark(self, identity: int, batch: int, defect: str) -> Reason:
        """Why a known defect took a row."""
        if defect == FULL_OUTER_JOINS_NULL_KEYS:
            why = f"never came: its key is NULL, which matches nothing, but it was joined ({defect})"
            return "missing_nulls", why
        if defect == NULL_EVENT_TIME_NEVER_EVICTED:
            why = f"never came: without an event time it matches nothing, and stays in the state for ever ({defect})"
            return "missing_nulls", why
        name = if_it_never_came(identity, self._kind)
        if defect == FORMAT_4_MISSES_ROWS and name == "missing_nulls":
            why = "never came: it is not late, but at or before the state watermark that state format 4 had already"
            return name, f"{why} evicted by, and it stays in the state for ever ({defect})"
        if defect == FORMAT_4_MISSES_ROWS:
            why = "a condition on another column closes the range in which state format 4 looks for partners"
            return name, f"never came, although it is right: {why} ({defect})"
        if defect == CONDITION_BOUNDS_THE_STATE:
            why = "a condition on another column of its side is taken for a bound on its event time"
            return name, f"never came, although it is right: {why} ({defect})"
        if defect == ONE_SIDED_WATERMARK:
            return (
                name,
                f"never came, although it is right: only one side of the join has a watermark ({defect})",
            )
        return "lost_rows", lambda: self._lost_in_its_batch(identity, batch, defect)

    def _lost_in_its_batch(self, identity: int, batch: int, defect: str) -> str:
        names = self._name_partners(first_of(identity), Disposition.ACCEPTED)
        return (
            f"never came: neither it nor its partner {names} is late, but all its partners came in its own"
            f" {self._words.watermarks(batch)} and are at or before the right state watermark there ({defect})"
        )

    def added_by_spark(self, identity: int, batch: int, defect: str) -> Reason:
        """Why a row is wrong that a known defect gives."""
        if defect == FULL_OUTER_JOINS_NULL_KEYS:
            return "phantom_rows", f"came in batch {batch}, but a NULL key matches nothing ({defect})"
        name = "nulls_for_matched_rows"
        if defect == CONDITION_BOUNDS_THE_STATE and not self._has(first_of(identity), Disposition.ACCEPTED):
            name = "premature_nulls"
        return name, lambda: self._null_of_a_defect(identity, batch, defect)

    def _null_of_a_defect(self, identity: int, batch: int, defect: str) -> str:
        names = self._name_partners(first_of(identity), Disposition.ACCEPTED)
        if defect == FORMAT_4_MISSES_ROWS:
            why = "which state format 4 did not find: a condition on another column closes the range in which it looks"
            return f"came in batch {batch}, but {names} matches it, {why} ({defect})"
        if defect == CONDITION_BOUNDS_THE_STATE:
            why = (
                f"came in batch {batch}, when a partner could still come, or had come: {names or 'none did'}"
            )
            return f"{why} ({defect})"
        return f"came in batch {batch}, but {names} matches it, which was not late: it has no watermark ({defect})"

    def wrong_batch(self, identity: int, batch: int, due: int) -> Reason:
        """A right row in a wrong batch."""
        if batch >= len(self._history.batches) or batch < 0:
            return (
                "misplaced_rows",
                f"came in batch {batch}, which was never planned; it is due in batch {due}",
            )
        if right_of(identity) is None and self._kind in PRESERVED and batch < due:
            return (
                "premature_nulls",
                lambda: (
                    f"came in {self._words.watermarks(batch)}, too early: {self._eviction(first_of(identity))},"
                    f" that is in {self._words.watermarks(due)}"
                ),
            )
        return "misplaced_rows", lambda: f"came in batch {batch}; it is due in {self._words.watermarks(due)}"

    def unexpected(self, identity: int, batch: int) -> Reason:
        """A row that is never due."""
        left, right = first_of(identity), right_of(identity)
        for row in (left,) if right is None else (left, right):
            reason = self._cannot_take_part(row)
            if reason:
                return reason
        if right is not None:
            return self._wrong_pair(left, right)
        if self._history.rows.side[left] in PRESERVED.get(self._kind, ()):
            return self._wrong_null(left, batch)
        if self._kind is JoinKind.LEFT_SEMI:
            return self._wrong_semi(left)
        return "phantom_rows", f"came, but in a join of kind {self._kind} such a row is owed no NULL row"

    def _cannot_take_part(self, row: int) -> Reason | None:
        disposition = self._prediction.disposition[row]
        if disposition == Disposition.LATE:
            return "late_rows_joined", lambda: f"came, but {self._late(row)}"
        if disposition == Disposition.UNREADABLE:
            return (
                "phantom_rows",
                lambda: f"came, but {self._words.place(row)} is not an event and had to be filtered out",
            )
        if disposition == Disposition.FILTERED:
            why = "has a NULL join key or fails a filter: it matches nothing"
            return "phantom_rows", lambda: f"came, but {self._words.place(row)} {why}"
        if self._history.rows.batch[row] == NO_BATCH:
            return "phantom_rows", lambda: f"came, but no planned batch read {self._words.place(row)}"
        return None

    def _late(self, row: int) -> str:
        batch = self._history.rows.batch[row]
        late = moment(self._prediction.late_ms(batch))
        place = self._words.place(row)
        return f"{place} was late: batch {batch} drops rows at or before its late watermark {late}"

    def _wrong_pair(self, left: int, right: int) -> Reason:
        if self._kind is JoinKind.LEFT_SEMI:
            return "phantom_rows", "came, but a left semi join has no joined rows"
        rows = self._history.rows
        if not self._partners.match(left, right):
            if rows.key[left] != rows.key[right]:
                return "phantom_rows", "came, but their keys are not equal"
            if rows.key[left] < 0:
                return "phantom_rows", "came, but a NULL key matches nothing"
            if window(self._history.contract.bound).holds(rows.time_us[left], rows.time_us[right]):
                return "phantom_rows", "came, but the condition on both sides' fields does not hold"
            return "phantom_rows", lambda: f"came, but not {self._distance(left, right)}"
        return (
            "oracles_disagree",
            "came, and keys and times match, but Spark's rules do not give it",
        )

    def _wrong_null(self, left: int, batch: int) -> Reason:
        if self._prediction.matched[left]:
            return "nulls_for_matched_rows", lambda: self._null_of_matched(left, batch)
        return (
            "premature_nulls",
            lambda: f"came in {self._words.watermarks(batch)}, too early: {self._eviction(left)}",
        )

    def _null_of_matched(self, left: int, batch: int) -> str:
        names = self._name_partners(left, Disposition.ACCEPTED)
        return f"came in batch {batch}, but it was joined with {names}"

    def _wrong_semi(self, left: int) -> Reason:
        if self._has(left, Disposition.LATE):
            return "late_rows_joined", lambda: self._only_late_partners(left)
        return "phantom_rows", "came, but it has no partner by key and time"

    def _only_late_partners(self, left: int) -> str:
        late = self._name_partners(left, Disposition.LATE)
        return f"came, but its only partner {late} was late and had to be dropped"

    def _has(self, row: int, disposition: Disposition) -> bool:
        return self._partners.has(row, disposition, self._prediction.disposition)

    def _name_partners(self, row: int, disposition: Disposition) -> str:
        """The first few partners of one disposition."""
        found = list(self._partners.with_disposition(row, disposition, self._prediction.disposition))
        names = " and ".join(self._words.row(other) for other in found[:_PARTNERS_NAMED])
        more = len(found) - _PARTNERS_NAMED
        return f"{names} and {more} more" if more > 0 else names

    def _eviction(self, row: int) -> str:
        rows = self._history.rows
        if self._fails_early(row):
            return "it fails the condition on its own side"
        limits_ms = self._history.pushdown.limits_ms[rows.side[row]]
        last_ms = evicted_at_ms(self._history.contract, rows.side[row], rows.time_us[row], limits_ms)
        if last_ms is None:
            return "nothing ever lets it expire"
        return f"it expires when the eviction watermark reaches {moment(last_ms)}"

    def _fails_early(self, row: int) -> bool:
        side, rows = self._history.rows.side[row], self._history.rows
        return any(
            not passes(rows.numbers[side][what.field][row], what)
            for what in self._history.pushdown.early[side]
        )

    def _distance(self, left: int, right: int) -> str:
        time_us = self._history.rows.time_us
        apart_s = (time_us[left] - time_us[right]) / 1_000_000
        return f"{self._words.bound()} holds for the distance {apart_s:.6g} s"
