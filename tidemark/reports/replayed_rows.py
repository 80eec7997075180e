"""A run of one join as the life of its rows needs it: what Spark's rules give of some keys, and what was observed.

Decides nothing: the history, the model, the reader of output and that of the state are the oracle's own. Keys do not
meet each other, so that the model replays only those of rows that are followed.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property

import numpy as np

from tidemark.formats.evidence import StateRow
from tidemark.oracle import Finding
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.compare.state_comparison import NAMES, Kept, as_kept, kept_of
from tidemark.oracle.compare.wording import Wording
from tidemark.oracle.expectation import matched_rows
from tidemark.oracle.input.history import Disposition, History, first_of, right_of
from tidemark.oracle.input.output_rows import OutputReader, likeliest
from tidemark.oracle.input.state_fields import StateFields, fields_of
from tidemark.oracle.model.join_replay import Replay, replay
from tidemark.oracle.model.sample import Sample
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, window
from tidemark.reports.batch_counts import places_in
from tidemark.reports.row_accounts import RowAccount
from tidemark.reports.row_life import OutputArrival

TimedRows = tuple[list[int], list[int]]
"""Times and rows of one key on one side, in the order of the times."""


class ReplayedRows:
    """A run, of which some keys were replayed. ``named`` are output rows, by identity, that findings are about."""

    def __init__(self, account: RowAccount, keys: Collection[int], named: Collection[int]) -> None:
        self.account = account
        self.history = history = account.history
        self.window = window(history.contract.bound)
        self.partners = Partners(history)
        self._run, self._named = account.run, named
        chosen = np.isin(
            np.frombuffer(history.rows.key, dtype=np.int64), np.array(sorted(keys), dtype=np.int64)
        )
        self.rows: list[int] = np.flatnonzero(chosen).tolist()
        self.prediction = _prediction(history, replay(history, Sample(chosen), account.watermarks_ms))
        for row in account.late:
            self.prediction.disposition[row] = Disposition.LATE
        self.words = Wording(history, self.prediction)
        if account.before is not None:
            self.words = _TrimmedWording(history, self.prediction, account.before)

    @cached_property
    def by_key(self) -> dict[tuple[int, int], TimedRows]:
        """The replayed rows by side and key."""
        rows, found = self.history.rows, defaultdict[tuple[int, int], list[tuple[int, int]]](list)
        for row in self.rows:
            found[rows.side[row], rows.key[row]].append((rows.time_us[row], row))
        return {
            place: ([time_us for time_us, _ in sorted(some)], [row for _, row in sorted(some)])
            for place, some in found.items()
        }

    @cached_property
    def made_of(self) -> dict[int, list[int]]:
        """The output rows, by identity, that each replayed row is a part of: due, come, or missing."""
        found = defaultdict[int, list[int]](list)
        for identity in dict.fromkeys([*self._named, *self.prediction.batch_of, *self.arrivals]):
            for row in {first_of(identity), right_of(identity)} - {None}:
                found[row or 0].append(identity)
        return found

    @cached_property
    def arrivals(self) -> dict[int, list[OutputArrival]]:
        """The output records of each output row that has a replayed row in it."""
        due, chosen = self.prediction.batch_of, set(self.rows)
        found = defaultdict[int, list[OutputArrival]](list)
        reader = OutputReader(
            self.history, lambda some, batch: likeliest(some, batch, due, lambda one: one in found)
        )
        for record, names_batch in self.account.output():
            identity, batch, _ = reader.read(record)
            if identity is None or not (first_of(identity) in chosen or right_of(identity) in chosen):
                continue
            found[identity].append(
                OutputArrival(
                    place=f"{record.partition}/{record.offset}",
                    batch=batch if names_batch else None,
                    partition=record.header("partition") or "",
                    attempt=record.header("attempt") or "",
                )
            )
        return found

    @cached_property
    def _state(self) -> dict[tuple[int, int], tuple[StateFields, set[Kept]]]:
        """What was read of Spark's state, by batch and side."""
        asked = self.history.manifest.state
        found: dict[tuple[int, int], list[StateRow]] = {
            (batch, side): [] for batch in (asked.batches if asked else ()) for side in (LEFT, RIGHT)
        }
        for row in self._run.state() or ():
            found.setdefault((row.batch, NAMES.index(row.side)), []).append(row)
        read = {place: (fields_of(some), some) for place, some in sorted(found.items())}
        return {
            place: (known, {as_kept(row, known) for row in some}) for place, (known, some) in read.items()
        }

    def state_seen(self, row: int) -> Iterator[tuple[int, bool]]:
        """The batches after which Spark's state was read, and whether the row was in it."""
        if not self.account.has_state:
            return
        side = self.history.rows.side[row]
        for (batch, of_side), (known, kept) in self._state.items():
            if of_side == side and (known.ref or (known.key and known.time)):
                yield batch, kept_of(self.history, row, known) in kept

    def late_ms(self, row: int) -> int:
        """The late watermark that a row is compared with."""
        return self.prediction.late_ms(self.history.rows.batch[row])

    def observed_late_ms(self, row: int) -> int:
        """The same, as the checkpoint has it."""
        batch = self.history.rows.batch[row]
        return max(self.history.batches[batch - 1].plan.watermark_ms, 0) if batch > 0 else 0

    def time_us(self, row: int) -> int | None:
        """The event time of a row, or the end of its window."""
        time_us = self.history.rows.time_us[row]
        return None if time_us == NULL_TIME_US else time_us


class _TrimmedWording(Wording):
    """Words for the rows of an audit whose log was trimmed: which batch read those before it is not known."""

    def __init__(self, history: History, prediction: Prediction, before: int) -> None:
        super().__init__(history, prediction)
        self._read = f"read by batch {before})", f"read before batch {before + 1})"

    def row(self, row: int) -> str:
        """One input row."""
        return super().row(row).replace(*self._read)


def rows_of(history: History, finding: Finding) -> list[int]:
    """The input rows that a finding names by where they were written."""
    found = []
    for topic, part, offset in places_in(finding.written):
        sides = [side for side in (LEFT, RIGHT) if history.side(side).topic == topic]
        partition = history.partitions[sides[0]].get(part) if sides else None
        if partition is not None and len(partition.offsets):
            try:
                found.append(partition.row_at(offset))
            except IndexError:
                continue
    return found


def _prediction(history: History, found: Replay) -> Prediction:
    """What the model gives, as the words of the comparison take it."""
    identities = np.fromiter(found.batch_of, dtype=np.int64, count=len(found.batch_of))
    return Prediction(
        batch_of=found.batch_of,
        watermarks_ms=found.watermarks_ms,
        disposition=bytearray(found.disposition.tobytes()),
        matched=matched_rows(history, identities),
        stored=array("i", found.stored.tobytes()),
        removed=array("i", found.removed.tobytes()),
    )
