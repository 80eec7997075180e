"""Words for the rows of an audited query: as of a run, and without a batch where the output names none.

Free of any decision but one: whether a row is undetermined because the log was trimmed, or because input was deleted.
"""

from __future__ import annotations

from array import array

from tidemark.formats.contract import PRESERVED
from tidemark.formats.events import write_time
from tidemark.oracle.audit.audited_history import AuditedHistory
from tidemark.oracle.audit.certainty import Expected
from tidemark.oracle.compare.explanations import Explain, Reason
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.compare.wording import Wording, moment
from tidemark.oracle.input.history import NO_BATCH, Disposition, first_of, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import US_PER_MS, evicted_at_ms

_PARTNERS_NAMED = 3


class AuditedWords(Wording):
    """Words for the rows of one audited query, and reasons for what is wrong with its output."""

    def __init__(self, audited: AuditedHistory, expected: Expected) -> None:
        history = audited.history
        self._audited = audited
        self._expected = expected
        self._disposition = bytearray(expected.disposition.tobytes())
        super().__init__(history, _prediction(audited, expected, self._disposition))
        self._partners = Partners(history)
        self._explain = Explain(history, self._prediction, self)

    def row(self, row: int) -> str:
        """One input row; of one that was read before the first batch that can be judged the batch is not known."""
        text = super().row(row)
        if not self._audited.is_before(row):
            return text
        before = self._audited.history.rows.batch[row]
        return text.replace(f"read by batch {before})", f"read before batch {before + 1})")

    def made_of(self, identity: int) -> list[int]:
        """The input rows that an output row is made of."""
        right = right_of(identity)
        return [first_of(identity)] if right is None else [first_of(identity), right]

    def owed(self, identity: int, batch: int) -> str:
        """Why a row that never came was owed."""
        return self._explain.owed(identity, batch)

    def lost(self, identity: int, batch: int, defect: str) -> tuple[str, str]:
        """Why a known defect took a row."""
        return _said(self._explain.lost_by_spark(identity, batch, defect))

    def added(self, identity: int, defect: str) -> tuple[str, str]:
        """Why a row is wrong that a known defect gives."""
        return _said(self._explain.added_by_spark(identity, self._expected.due[identity], defect))

    def wrong_batch(self, identity: int, batch: int, due: int) -> tuple[str, str]:
        """A right row that came in another batch than its own."""
        is_null = right_of(identity) is None and self._history.contract.kind in PRESERVED
        if is_null and batch < due:
            why = f"came in {self.watermarks(batch)}, too early: {self._eviction(first_of(identity))}"
            return "premature_nulls", f"{why}, that is in {self.watermarks(due)}"
        return "misplaced_rows", f"came in batch {batch}; it is due in {self.watermarks(due)}"

    def unexpected(self, identity: int) -> tuple[str, str]:
        """A row that is wrong in any case."""
        if reason := self._against_the_state(identity):
            return reason
        row = first_of(identity)
        is_null = right_of(identity) is None and self._history.rows.side[row] in PRESERVED.get(
            self._history.contract.kind, ()
        )
        if not is_null or self._disposition[row] != Disposition.ACCEPTED:
            return _said(self._explain.unexpected(identity, NO_BATCH))
        found = self._sure_partners(row)
        if found:
            names = " and ".join(map(self.row, found[:_PARTNERS_NAMED]))
            more = f" and {len(found) - _PARTNERS_NAMED} more" if len(found) > _PARTNERS_NAMED else ""
            return "nulls_for_matched_rows", f"came, but it was joined with {names}{more}"
        return "premature_nulls", f"came, and no batch that was planned evicts it: {self._eviction(row)}"

    def _against_the_state(self, identity: int) -> tuple[str, str] | None:
        """What the state before the first batch that can be judged says against an output row."""
        by_state, where = self._audited.by_state, f"the state after batch {self._audited.before}"
        late = [row for row in self.made_of(identity) if row in by_state.late]
        if late:
            return "late_rows_joined", f"came, but {self.place(late[0])} was late, as {where} shows"
        if right_of(identity) is None and first_of(identity) in by_state.matched:
            return "nulls_for_matched_rows", f"came, but it was joined before: {where} has it as matched"
        return None

    def not_due(self, row: int) -> str:
        """When the NULL row of a row comes that no batch owes yet."""
        return self._eviction(row)

    def is_open_by_trimming(self, identity: int) -> bool:
        """Whether a row read before the first batch that can be judged leaves an output row undetermined."""
        rows = self.made_of(identity)
        if self._audited.unsure.intersection(rows):
            return True
        return any(other in self._audited.unsure for row in rows for other in self._partners.each(row))

    def why_open(self, identity: int) -> str:
        """Why a row is undetermined."""
        first = self._audited.about.first_batch
        unsure = [row for row in self.made_of(identity) if row in self._audited.unsure]
        if unsure:
            return f"{self.place(unsure[0])} was read before batch {first}, and may have been late there"
        if self.is_open_by_trimming(identity):
            return f"its only partner was read before batch {first}, and may have been late there"
        return "a record that was deleted may be its partner"

    def _sure_partners(self, row: int) -> list[int]:
        found = self._partners.with_disposition(row, Disposition.ACCEPTED, self._disposition)
        return [other for other in found if other not in self._audited.unsure]

    def _eviction(self, row: int) -> str:
        rows = self._history.rows
        limits_ms = self._history.pushdown.limits_ms[rows.side[row]]
        last_ms = evicted_at_ms(self._history.contract, rows.side[row], rows.time_us[row], limits_ms)
        if last_ms is None:
            return "nothing ever lets it expire"
        return f"it expires when the eviction watermark reaches {moment(last_ms)}"


def lateness(
    audited: AuditedHistory, row: int, watermarks_ms: dict[int, int]
) -> tuple[int | None, str | None]:
    """How far a late row is behind the late watermark of its batch, in milliseconds, and that watermark.

    Of a row that only the state shows to have been late neither is known.
    """
    if row in audited.by_state.late:
        return None, None
    late_ms = watermarks_ms.get(audited.history.rows.batch[row] - 1, 0)
    behind_us = late_ms * US_PER_MS - audited.history.rows.time_us[row]
    return behind_us // US_PER_MS, write_time(late_ms * US_PER_MS)


def _prediction(audited: AuditedHistory, expected: Expected, disposition: bytearray) -> Prediction:
    """What the explanations ask: watermarks by batch, what became of each row, and which were matched."""
    batches = audited.history.batches
    first = batches[0].plan.batch if batches else 0
    matched = bytearray(len(audited.history.rows))
    for row in expected.matched:
        matched[row] = True
    never = array("i", [NO_BATCH]) * len(audited.history.rows)
    return Prediction(
        watermarks_ms=[0] * first + [batch.plan.watermark_ms for batch in batches],
        disposition=disposition,
        matched=matched,
        stored=never,
        removed=never[:],
    )


def _said(reason: Reason) -> tuple[str, str]:
    name, why = reason
    return name, why if isinstance(why, str) else why()
