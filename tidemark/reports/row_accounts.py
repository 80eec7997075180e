"""What a run has beside the rules for the life of its rows: whose watermarks count, what a trimmed log leaves open.

Decides nothing. Of a run of tidemark the model predicts the watermarks; an audit is judged by those of the query's log,
and so are the rows of an audit followed here. A batch of an audit has its own id as its index: those before the log are
there without rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from tidemark.formats.evidence import Batch, OutputRecord
from tidemark.oracle.audit.audited_history import AuditedHistory, read_audited
from tidemark.oracle.audit.audited_output import level_of
from tidemark.oracle.input.history import BatchRows, Evidence, History, first_of, right_of
from tidemark.reports.publishing_times import Published

MOST_BATCHES_BEFORE = 300_000
"""A log that was trimmed later than this is not followed: each batch before it costs some hundred bytes."""


@dataclass
class RowAccount:
    """A run whose rows are followed. ``watermarks_ms`` are those of its log, if rows are judged by them: one for each
    batch, and the next one; ``None``: the model says them. ``of_rows`` is how many records there are, if the history
    has only some. ``has_state``: whether the state is as a batch left it, so that a row which is not in it was not
    stored. ``published`` is what the trace says of the records of rows that are followed, by their places."""

    run: Evidence
    history: History
    watermarks_ms: Sequence[int] | None = None
    notes: list[str] = field(default_factory=list)
    of_rows: int | None = None
    has_state: bool = True
    published: dict[str, Published] = field(default_factory=dict)

    @property
    def before(self) -> int | None:
        """The batch that stands for all before the first whose rows are known; ``None``: all are known."""
        return None

    @property
    def late(self) -> frozenset[int]:
        """Rows that something else than a watermark shows to have been late."""
        return frozenset()

    def output(self) -> Iterator[tuple[OutputRecord, bool]]:
        """The records of the output as the reader of output takes them, and whether each names its batch."""
        return ((record, True) for record in self.run.output())

    def by_batch(self, batch: int) -> str:
        """``by batch 7``."""
        return f"by batch {batch}" if batch != self.before else f"by batch {batch} or before"

    def compared(self, _row: int) -> str:
        """What is known of a row whose batch is not, in place of its comparison with a late watermark."""
        return ""

    def open_because(self, _identity: int, _due: int | None) -> str:
        """Why nothing certain is expected of an output row; empty if it is."""
        return ""


@dataclass
class AuditedRows(RowAccount):
    """An audited query; ``level`` says what its output names."""

    audited: AuditedHistory | None = None
    level: str = "batches"

    @property
    def _known(self) -> AuditedHistory:
        assert self.audited is not None
        return self.audited

    @property
    def before(self) -> int | None:
        """The batch before the first one of the log."""
        return self._known.before

    @property
    def late(self) -> frozenset[int]:
        """Those of which the state shows it."""
        return self._known.by_state.late

    def output(self) -> Iterator[tuple[OutputRecord, bool]]:
        """The records of this query; the reader asks for headers also where the output has none."""
        query = self.history.manifest.query_id or ""
        for record in self.run.output():
            if self.level != "batches":
                yield msgspec.structs.replace(record, headers=[("query", query), ("batch", "0")]), False
            elif record.header("query") == query and record.header("batch") is not None:
                yield record, True

    def compared(self, row: int) -> str:
        """What the state, or the watermark of the first batch, says of a row that was read before it."""
        audited, before = self._known, self.before
        if row in audited.by_state.late:
            return f"late, and dropped, as the state after batch {before} shows"
        if row in audited.by_state.accepted:
            return f"accepted, as the state after batch {before} shows"
        if row in audited.unsure:
            return "not known, and shown as accepted: the log was trimmed, and the row may have been late"
        return "accepted: no watermark before has reached its time"

    def open_because(self, identity: int, due: int | None) -> str:
        """What was trimmed, or is not owed yet, or was not asked for."""
        audited, about = self._known, self._known.about
        made_of = {first_of(identity), right_of(identity)} - {None}
        if not audited.unsure.isdisjoint(made_of):
            return "undetermined: a record that was read before the log begins may have been late"
        if audited.is_earlier(identity):
            return f"not judged: if it is due, then before batch {about.first_batch}, which the log does not have"
        if due is not None and due > about.owed_to:
            return f"not due yet: batch {due} may not have written its rows"
        return ""


def account_of_audit(run: Evidence) -> AuditedRows | str:
    """The account of an audit; or why its rows are not followed. Raises ``BrokenEvidence``."""
    audited = read_audited(run)
    about, found = audited.about, audited.history
    before = audited.before or 0
    if before > MOST_BATCHES_BEFORE:
        return f"the log begins with batch {about.first_batch:,}: the life of a row is not shown"
    absent = [BatchRows(Batch(batch=at, watermark_ms=0, end_offsets={}), ([], [])) for at in range(before)]
    batches = [*absent, *found.batches] if found.batches else []
    history = replace(found, batches=batches)
    watermarks_ms = [max(one.plan.watermark_ms, 0) for one in batches]
    last_ms = watermarks_ms[-1] if watermarks_ms else 0
    next_ms = last_ms if about.next_watermark_ms is None else about.next_watermark_ms
    level = level_of(run.output(), history.manifest.query_id, has_refs=history.contract.output.has_refs).level
    notes = ["the rows of an audit are followed by the watermarks of the query's log"]
    if audited.may_lack_any:
        gone = sum((*audited.deleted, *audited.removed))
        notes.append(
            f"{gone:,} records were deleted from the topics, or may have been: rows that were joined with them look as"
            " if they had no partner"
        )
    found_ms = [*watermarks_ms, max(next_ms, last_ms)]
    # The state of an audit is a part of one, after one batch.
    return AuditedRows(run, history, found_ms, notes, has_state=False, audited=audited, level=level)
