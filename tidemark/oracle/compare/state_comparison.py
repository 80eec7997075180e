"""The state: what Spark kept after a batch, compared with what its own rules keep.

Free of I/O. Rows are compared as multisets of side, key, time and place in the input; what the state of a side does
not have (the optimizer leaves out columns that nobody needs) is not compared. ``matched`` is compared on the preserved
sides of outer joins, whose NULL rows depend on it; Spark keeps it up nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidemark.formats.contract import PRESERVED
from tidemark.formats.events import write_time
from tidemark.formats.evidence import StateRow
from tidemark.oracle.compare.unread_records import UnreadRecords
from tidemark.oracle.compare.wording import Wording
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, ROW_MASK, Disposition, History
from tidemark.oracle.input.state_fields import StateFields, fields_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT

NAMES = ("left", "right")


class Kept(NamedTuple):
    """One row of the state, as far as it is known: key, event time (or end of its window), place in the input."""

    key: tuple[str | None, ...] | None
    time_us: int | None
    ref: tuple[int, int] | None


class PredictedState:
    """The state that Spark's rules keep after each batch."""

    def __init__(self, history: History, prediction: Prediction) -> None:
        self._history = history
        self._stored = np.frombuffer(prediction.stored, dtype=np.int32)
        self._removed = np.frombuffer(prediction.removed, dtype=np.int32)
        self._side = np.frombuffer(history.rows.side, dtype=np.uint8)

    def after(self, batch: int, side: int) -> list[int]:
        """The rows of a side, by number."""
        kept = (self._stored >= 0) & (self._stored <= batch) & (self._side == side)
        kept &= (self._removed == NO_BATCH) | (self._removed > batch)
        found: list[int] = np.flatnonzero(kept).tolist()
        return found

    def kept(self, row: int, known: StateFields) -> Kept:
        """A row as the state has it."""
        return kept_of(self._history, row, known)


class StateComparison:
    """Compares the state after each batch that the evidence has it of."""

    def __init__(
        self, history: History, prediction: Prediction, finding_log: FindingLog, unread: UnreadRecords
    ) -> None:
        self._history = history
        self._unread = unread
        self._prediction = prediction
        self.predicted = PredictedState(history, prediction)
        self._finding_log = finding_log
        self._words = Wording(history, prediction)
        self.inconclusive: list[str] = []
        """Why a comparison says less than that the state is right."""
        self.read: dict[int, tuple[list[StateRow], list[StateRow]]] = {}
        """Batch -> the rows of the state of both sides."""
        self._counted: tuple[list[int], list[int]] = ([], [])
        """Of each side the batches whose rows have no name of the contract."""

    def run(self, state: Iterable[StateRow], asked: Iterable[int]) -> list[int]:
        """Compare; ``asked`` are batches whose state was read, be it empty. Returns the batches that were compared."""
        self.read = {batch: ([], []) for batch in asked}
        read = self.read
        for row in state:
            read.setdefault(row.batch, ([], []))[NAMES.index(row.side)].append(row)
        batches = self._history.batches
        comparable = [
            batch for batch in sorted(read) if 0 <= batch < len(batches) and batches[batch].plan.committed
        ]
        for batch in comparable:
            for side in (LEFT, RIGHT):
                self._compare(batch, side, read[batch][side])
        self.inconclusive += [self._only_counted(side) for side in (LEFT, RIGHT) if self._counted[side]]
        return comparable

    def _only_counted(self, side: int) -> str:
        """That the rows of a side were counted and not compared, and what the contract can do about it."""
        about, batches = self._history.described(side), self._counted[side]
        after = f"batch {batches[0]}" if len(batches) == 1 else f"batches {', '.join(map(str, batches))}"
        return (
            f"Spark's state of the {NAMES[side]} side after {after} could not be compared, only counted: its columns"
            f" have no name of the contract; name the fields of {about.topic} as the query names their columns:"
            f' Field("COLUMN", column="{about.field(about.keys[0]).column or about.keys[0]}")'
        )

    def _compare(self, batch: int, side: int, found: Sequence[StateRow]) -> None:
        known = self._fields(batch, side, found)
        where = f"Spark's state of the {NAMES[side]} side after batch {batch}"
        if not any(known):
            self._counted[side].append(batch)
        rows = {row: self.predicted.kept(row, known) for row in self.predicted.after(batch, side)}
        ours, theirs = Counter(rows.values()), Counter(as_kept(row, known) for row in found)
        for kept in (theirs - ours - self._optional(batch, side, known)).elements():
            unread = None if kept.ref is None else self._unread.at(side, kept.ref)
            if unread is not None and kept.time_us is not None:
                self._finding_log.add(self._unread.in_state(unread, kept.time_us, batch))
                continue
            found_row = self._name("leaked_state", side, kept)
            message = f"Spark's state after batch {batch} has {found_row}; Spark's rules do not"
            self._add("leaked_state", batch, side, kept, f"{message}: {self._why_not(side, kept)}")
        for kept in (ours - theirs).elements():
            missing_row = self._name("lost_state", side, kept)
            message = f"by Spark's rules the state after batch {batch} has {missing_row};"
            self._add("lost_state", batch, side, kept, f"{message} Spark's state has not")
        if side in PRESERVED.get(self._history.contract.kind, ()):
            unflagged = sum(row.matched is None for row in found)
            if unflagged and (any(known) or unflagged < len(found)):
                self.inconclusive.append(
                    f"{where} has no flag 'matched' for {unflagged:,} of {len(found):,} rows"
                )
            matched_in = self._matched_in
            flags = Counter((kept, bool(matched_in[row] <= batch)) for row, kept in rows.items())
            self._compare_flags(batch, side, flags, Counter(
                (as_kept(row, known), row.matched) for row in found if row.matched is not None
            ))  # fmt: skip

    def _fields(self, batch: int, side: int, found: Sequence[StateRow]) -> StateFields:
        """What the state has of its rows; of a reduced run, what that of the whole run has."""
        rest = self._history.rest
        return fields_of(found) if rest is None else rest.state_fields.get((batch, side), fields_of(found))

    def _optional(self, batch: int, side: int, known: StateFields) -> Counter[Kept]:
        """The rows that Spark may have stored or not."""
        history = self._history
        return Counter(
            self.predicted.kept(row, known)
            for row in history.optional
            if history.rows.side[row] == side and NO_BATCH < history.rows.batch[row] <= batch
        )

    @cached_property
    def _matched_in(self) -> np.ndarray:
        """Of each row the batch of its first match; more than any batch if it has none."""
        batch_of = self._prediction.batch_of
        identity = np.fromiter(batch_of.keys(), dtype=np.int64, count=len(batch_of))
        batch = np.fromiter(batch_of.values(), dtype=np.int64, count=len(batch_of))
        joined = (identity & ROW_MASK) != 0
        found = np.full(len(self._history.rows), np.iinfo(np.int64).max)
        np.minimum.at(found, identity[joined] >> ROW_BITS, batch[joined])
        np.minimum.at(found, (identity[joined] & ROW_MASK) - 1, batch[joined])
        return found

    def _compare_flags(
        self, batch: int, side: int, ours: Counter[tuple[Kept, bool]], theirs: Counter[tuple[Kept, bool]]
    ) -> None:
        """Of rows that are in both; of some that are alike in all that is known, how many were matched."""
        for (kept, matched), surplus in (theirs - ours).items():
            said, rather = ("was", "was not") if matched else ("was not", "was")
            for _ in range(min(surplus, ours[kept, not matched] - theirs[kept, not matched])):
                flagged = self._name("wrong_flags", side, kept)
                message = (
                    f"Spark's state after batch {batch} says that {flagged} {said} matched;"
                    f" by Spark's rules it {rather}"
                )
                self._add("wrong_flags", batch, side, kept, message)

    def _add(self, name: str, batch: int, side: int, kept: Kept, message: str) -> None:
        row = self._row(side, kept) if self._finding_log.wants(name) else None
        written = [] if row is None else [self._words.place(row)]
        self._finding_log.add(Finding(property=name, message=message, batch=batch, written=written))

    def _name(self, name: str, side: int, kept: Kept) -> str:
        """A row of the state in words, for a finding of the property ``name``."""
        if not self._finding_log.wants(name):
            return "a row"  # the finding is only counted: its message is not kept
        row = self._row(side, kept)
        if row is not None:
            return self._words.row(row)
        key = "?" if kept.key is None else ", ".join("NULL" if part is None else part for part in kept.key)
        time = "an unknown time" if kept.time_us is None else write_time(kept.time_us)
        place = "" if kept.ref is None else f", {self._history.side(side).topic}/{kept.ref[0]}/{kept.ref[1]}"
        return f"a {NAMES[side]} row (key {key}, {time}{place})"

    def _row(self, side: int, kept: Kept) -> int | None:
        """An input row that a row of the state can be."""
        history, known = self._history, StateFields(*(part is not None for part in kept))
        if kept.ref is not None:
            partition = history.partitions[side].get(kept.ref[0])
            try:
                row = None if partition is None else partition.row_at(kept.ref[1])
            except IndexError:
                row = None
            return row if row is not None and self.predicted.kept(row, known) == kept else None
        rows = history.rows
        of_side = (row for row in range(len(rows)) if rows.side[row] == side)
        readable = (row for row in of_side if rows.disposition[row] != Disposition.UNREADABLE)
        return next((row for row in readable if self.predicted.kept(row, known) == kept), None)

    def _why_not(self, side: int, kept: Kept) -> str:
        """Why a row is not in the state by Spark's rules."""
        row = self._row(side, kept) if self._finding_log.wants("leaked_state") else None
        if row is None:
            return "no such record was published"
        stored, removed = self._prediction.stored[row], self._prediction.removed[row]
        if self._prediction.disposition[row] == Disposition.LATE:
            return "it was late"
        if stored == NO_BATCH:
            return "it was never stored"
        return f"it was stored in batch {stored} and removed in batch {removed}"


def kept_of(history: History, row: int, known: StateFields) -> Kept:
    """An input row as a state has it that has so much of its rows."""
    time_us = history.rows.time_us[row]
    return Kept(
        history.key_of(row) if known.key else None,
        time_us if known.time and time_us != NULL_TIME_US else None,
        history.position(row) if known.ref else None,
    )


def as_kept(row: StateRow, known: StateFields) -> Kept:
    """A row of the state, as far as all rows of its side are known."""
    return Kept(
        row.key if known.key else None, row.time_us if known.time else None, row.ref if known.ref else None
    )
