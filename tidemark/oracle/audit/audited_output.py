"""The output of an audited query, compared with what is certain and what is possible.

Free of I/O. The output is judged at one of three levels: ``batches`` if its records have the headers ``query`` and
``batch``; else ``rows`` if they name partition and offset of their input records; else ``ids``, as a multiset. Rules
that are a choice:

* With headers, records of another query, or without the headers, are not of this query: they are counted, not judged.
  Without headers every record of the topic is taken for one of this query.
* A row that comes again is a finding if the query promises exactly-once, or if it came in another batch. Else it may be
  of a batch that ran again, which no checkpoint says: it is counted, and the verdict is inconclusive, unless progress
  reports show that the query was started again with its batch.
* A row that is possible and not certain is undetermined: it is counted, whether it came or not. If only a batch before
  the first that can be judged can have given it, it is an earlier row, and counted as that.
* A record that names ids of no record is invented, unless records of the input were deleted; so is one that names an
  offset without a record, unless a record there may have been deleted. Where the output has ids
  only, and an id is in the input twice, a row that comes again may then be of another record with the same id.
* A certain row that did not come is missing, unless the part of the output that may have had it was deleted: a
  partition has the rows of one batch after those of the batches before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import msgspec

from tidemark.formats.contract import Delivery, JoinKind
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.audit.audited_history import AuditedHistory
from tidemark.oracle.audit.audited_words import AuditedWords
from tidemark.oracle.audit.certainty import Expected
from tidemark.oracle.audit_account import Level, RowOfTable
from tidemark.oracle.compare.explanations import if_it_never_came
from tidemark.oracle.compare.unread_records import UnreadRecord, UnreadRecords
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import NO_BATCH
from tidemark.oracle.input.output_rows import OutputReader
from tidemark.oracle.spark.spark_spans import any_has_defect
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

TABLE_ROWS = 10_000
"""Rows that a table keeps, at most; all are counted."""
_ANOTHER = "it came before; a record with the same id may have been deleted"


@dataclass(frozen=True)
class OutputLevel:
    """At which level the output is judged, and how many of its records are of this query."""

    level: Level
    records: int
    foreign: int


def level_of(output: Iterable[OutputRecord], query_id: str | None, *, has_refs: bool) -> OutputLevel:
    """The level that the output permits."""
    records = named = ours = 0
    for record in output:
        records += 1
        query = record.header("query")
        if query is not None and record.header("batch") is not None:
            named += 1
            ours += query == query_id
    if named:
        return OutputLevel("batches", records, records - ours)
    return OutputLevel("rows" if has_refs else "ids", records, 0)


@dataclass
class Came:
    """What came out. ``first`` has the place of the first record of each row, ``kept`` rows for the tables."""

    first: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[RowOfTable]] = field(default_factory=dict)

    def keep(self, table: str, row: RowOfTable) -> None:
        """Count a row, and keep it while there is room."""
        self.counts[table] += 1
        rows = self.kept.setdefault(table, [])
        if len(rows) < TABLE_ROWS:
            rows.append(row)


class AuditedOutput:
    """One pass over the output, then a look at what never came."""

    def __init__(
        self,
        audited: AuditedHistory,
        expected: Expected,
        level: Level,
        finding_log: FindingLog,
        unread: UnreadRecords,
    ) -> None:
        self._audited = audited
        self._expected = expected
        self._is_named = level == "batches"
        self._finding_log = finding_log
        self._unread = unread
        self._words = AuditedWords(audited, expected)
        self._manifest = audited.history.manifest
        self._reader = OutputReader(audited.history, self._choose)
        self.came = Came()
        self._unknown: dict[str, str] = {}
        self._whole_from: dict[int, float] = {int(part): math.inf for part in audited.about.output_deleted}
        self._has_ids_only = level == "ids"
        semi = audited.history.contract.kind is JoinKind.LEFT_SEMI
        self._repeat = "repeated_semi_rows" if semi else "duplicate_rows"

    def run(self, output: Iterable[OutputRecord]) -> Came:
        """Compare all of it."""
        begun: set[int] = set()
        for record, batch in self._of_this_query(output):
            identity, _, problem = self._reader.read(record)
            place = f"{record.partition}/{record.offset}"
            if self._whole_from and record.partition not in begun:
                begun.add(record.partition)
                self._begin(record.partition, identity, batch)
            if identity is None:
                self._no_row(record, place, problem, batch)
            elif not self._is_judged(identity):
                self.came.counts["not_compared"] += 1
                self.came.first.setdefault(identity, (place, batch))
            elif identity in self.came.first:
                self._again(identity, place, batch, record)
            else:
                self.came.first[identity] = place, batch
                self._first(identity, place, batch, record)
        for identity in sorted(self._expected.owed.certain):
            if identity not in self.came.first and self._is_judged(identity):
                self._missing(identity)
        self._count_open()
        return self.came

    def _of_this_query(self, output: Iterable[OutputRecord]) -> Iterator[tuple[OutputRecord, int | None]]:
        """The records of this query, each with its batch if it names one; the reader asks for headers."""
        query = self._manifest.query_id or ""
        headers = [("query", query), ("batch", "0")]
        for record in output:
            if not self._is_named:
                yield msgspec.structs.replace(record, headers=headers), None
                continue
            batch = record.header("batch")
            if record.header("query") == query and batch is not None:
                yield record, int(batch) if batch.isdecimal() and len(batch) < 19 else None

    def _is_judged(self, identity: int) -> bool:
        """Whether a row is of a batch that the audit is asked to judge, and none is missing before it."""
        if self._audited.history.gaps and identity not in self._expected.rows.possible:
            return False
        batch, about = self._batch_of(identity), self._audited.about
        return about.from_batch <= batch <= about.to_batch or (
            batch < about.from_batch == about.first_batch and self._audited.before is not None
        )

    def _batch_of(self, identity: int) -> int:
        """The batch in which Spark gives a row; of one that it does not give that in which the last of it was read."""
        due = self._expected.due.get(identity)
        if due is not None:
            return due
        rows = self._audited.history.rows
        return max(rows.batch[row] for row in self._words.made_of(identity))

    def _choose(self, identities: list[int], _batch: int) -> int:
        """Which of several rows with the same ids a record is: one that is certain and did not come, if there is."""
        rows, first = self._expected.rows, self.came.first
        return min(
            identities,
            key=lambda one: (one not in rows.possible, one in first, one not in rows.certain, one),
        )

    def owed(self) -> Counter[str]:
        """How many judged rows had to come, by the property of those that never came."""
        history = self._audited.history
        return Counter(
            if_it_never_came(identity, history.contract.kind)
            for identity in self._expected.owed.certain
            if self._is_judged(identity) and not history.is_of_sentinel(identity)
        )

    def _first(self, identity: int, place: str, batch: int | None, record: OutputRecord) -> None:
        """A row that comes for the first time."""
        expected = self._expected
        if identity in expected.rows.certain:
            self.came.counts["right_rows"] += 1
            due = expected.due.get(identity, NO_BATCH)
            before = NO_BATCH if self._audited.before is None else self._audited.before
            is_of_log = due > before and not self._audited.is_earlier(identity)
            if batch is not None and is_of_log and batch != due:
                self._add(self._words.wrong_batch(identity, batch, due), identity, place, batch)
        elif identity in expected.rows.possible and self._audited.is_earlier(identity):
            self.came.counts["earlier_rows"] += 1
        elif identity in expected.rows.possible:
            self.came.keep("undetermined", self._row(identity, place, self._words.why_open(identity)))
            self._count_cause(identity)
        else:
            self._unexpected(identity, place, batch, record)

    def _unexpected(self, identity: int, place: str, batch: int | None, record: OutputRecord) -> None:
        """A row that is wrong whatever was trimmed or deleted."""
        if removed := self._names_a_removed_record(identity):
            self._of_deleted(record, place, removed, batch)
            return
        claimed = partial(self._reader.claimed, record)
        if (found := self._unread.read_by_query(identity, claimed)) is not None:
            self._finding_log.add(self._unread.in_output(found, claimed(), place, batch))
            return
        defect = self._expected.defects.added.get(identity)
        if defect is not None and any_has_defect(self._manifest, defect, batch):
            self._add(self._words.added(identity, defect), identity, place, batch, defect=defect)
        else:
            self._add(self._words.unexpected(identity), identity, place, batch)

    def _names_a_removed_record(self, identity: int) -> str:
        """Which offset without a record a row names, where compaction may have removed one; ``""``: none."""
        named = [row for row in self._words.made_of(identity) if self._audited.was_removed(row)]
        return f"it names {self._words.place(named[0])}, where there is no record any more" if named else ""

    def _again(self, identity: int, place: str, batch: int | None, record: OutputRecord) -> None:
        """A row that came before."""
        first, in_batch = self.came.first[identity]
        if identity not in self._expected.rows.possible:
            self._unexpected(identity, place, batch, record)
            return
        if self._may_be_another:
            self._leave_open(self._row(identity, place, _ANOTHER))
            return
        where = "" if batch is None else f" in batch {batch}"
        text = f"came again{where}, after output {first}"
        if self._manifest.delivery is Delivery.EXACTLY_ONCE:
            why = f"{text}; exactly-once permits no repeat"
        elif batch != in_batch:
            why = f"{text} of batch {in_batch}; no delivery permits a row again in another batch"
        elif (ran := self._ran_again(identity, batch)) is not None:
            self.came.counts["permitted_duplicates"] += 1
            restarted = ran in self._audited.restarted
            cause = "the query was started again with" if restarted else "a task failed in"
            why = f"{text}; {cause} its batch {ran}"
            self.came.keep("duplicates", self._row(identity, place, why))
            return
        else:
            self.came.keep("duplicates", self._row(identity, place, text))
            return
        self.came.keep("duplicates", self._row(identity, place, text))
        self._add((self._repeat, why), identity, place, batch)

    def _ran_again(self, identity: int, batch: int | None) -> int | None:
        """The batch of a row, if it may have come again: the query was started again with it, or a task failed."""
        of = self._expected.due.get(identity) if batch is None else batch
        return of if of in self._audited.ran_again else None

    def _begin(self, partition: int, identity: int | None, batch: int | None) -> None:
        """Find from which batch on a partition of the output is whole, by the first row that it still has."""
        if partition not in self._whole_from:
            return
        if batch is None and identity in self._expected.rows.possible and identity is not None:
            rows = self._audited.history.rows
            made_of = self._words.made_of(identity)
            is_known = identity in self._expected.due or len(made_of) > 1
            is_known |= max(rows.batch[row] for row in made_of) == self._audited.before
            batch = self._batch_of(identity) if is_known else None
        if batch is not None:
            self._whole_from[partition] = batch + 1

    def _missing(self, identity: int) -> None:
        """A certain row that a committed batch owed, and that never came."""
        batch = self._batch_of(identity)
        if self._audited.about.output_removals:
            self.came.counts["absent_of_deleted_output"] += 1
            return
        is_before = self._audited.before is not None and batch <= self._audited.before
        if is_before and self._audited.history.by_time:
            # State format 4 never evicts a row that had expired when it was stored; when that was is not in the log.
            self.came.counts["absent_before"] += 1
            return
        if batch < max(self._whole_from.values(), default=0):
            self.came.counts["absent_before" if is_before else "absent_of_deleted_output"] += 1
            return
        defect = self._expected.lost_by_defect(identity)
        if defect is not None and any_has_defect(self._manifest, defect, batch):
            self._add(self._words.lost(identity, batch, defect), identity, None, batch, defect=defect)
            return
        name = if_it_never_came(identity, self._audited.history.contract.kind)
        self._add((name, self._words.owed(identity, batch)), identity, None, batch)

    def _of_deleted(self, record: OutputRecord, place: str, problem: str, batch: int | None) -> None:
        """A row of records that were deleted, as far as one can know; that it came before is known all the same."""
        first = self._unknown.setdefault(record.value or "", place)
        if first == place or self._may_be_another:
            why = f"{problem}; records were deleted"
            self._leave_open(RowOfTable(row={}, read=place, batch=batch, why=why))
            return
        text = f"came again, after output {first}"
        self.came.keep("duplicates", RowOfTable(row={}, read=place, batch=batch, why=text))
        if self._manifest.delivery is Delivery.EXACTLY_ONCE:
            message = f"output {place}, of records that were deleted, {text}; exactly-once permits no repeat"
            self._finding_log.add(Finding(property=self._repeat, message=message, read=place, batch=batch))

    @cached_property
    def _may_be_another(self) -> bool:
        """Whether a row that comes again may be of another record, which was deleted and had the same id."""
        if not self._has_ids_only:
            return False
        rows = self._audited.history.rows
        for side in (LEFT, RIGHT):
            ids = [name for row, name in enumerate(rows.id) if rows.side[row] == side and name is not None]
            if self._audited.may_lack(side) and len(ids) > len(set(ids)):
                return True
        return False

    def _leave_open(self, row: RowOfTable) -> None:
        """A row that came, and is undetermined because of what was deleted."""
        self.came.keep("undetermined", row)
        self.came.counts["open_by_deletion"] += 1

    def _count_open(self) -> None:
        """Rows that may have been owed and did not come, and NULL rows that are not owed yet."""
        for identity in self._expected.owed.possible - self._expected.owed.certain:
            if identity in self.came.first or not self._is_judged(identity):
                continue
            if self._audited.is_earlier(identity):
                self.came.counts["earlier_rows_absent"] += 1
                continue
            self.came.counts["undetermined_absent"] += 1
            self._count_cause(identity)
        for row in self._expected.not_due:
            if self._audited.history.rows.batch[row] <= self._audited.about.to_batch:
                self.came.keep("not_due", self._row(row << 32, None, self._words.not_due(row)))

    def _count_cause(self, identity: int) -> None:
        """Whether a row is undetermined because of what was deleted, or because the log was trimmed."""
        is_trimmed = self._words.is_open_by_trimming(identity)
        self.came.counts["open_by_trimming" if is_trimmed else "open_by_deletion"] += 1

    def _row(self, identity: int, place: str | None, why: str) -> RowOfTable:
        finding = self._words.finding("", identity, "")
        first = self.came.first.get(identity, (None, None))
        return RowOfTable(row=finding.row, written=finding.written, read=place, batch=first[1], why=why)

    def _add(
        self,
        reason: tuple[str, str],
        identity: int,
        place: str | None,
        batch: int | None,
        *,
        defect: str | None = None,
    ) -> None:
        name, why = reason
        if defect is None:
            self._finding_log.remember(name, identity, NO_BATCH if batch is None else batch)
        if not self._finding_log.wants(name, defect):
            self._finding_log.count(name, defect)
            return
        where = f" (output {place})" if place else ""
        message = f"{self._words.output_row(identity)}{where} {why}"
        finding = self._words.finding(name, identity, message)
        self._finding_log.add(msgspec.structs.replace(finding, read=place, batch=batch, defect=defect))

    def _no_row(self, record: OutputRecord, place: str, problem: str, batch: int | None) -> None:
        """A record that cannot be read, or names input that does not exist."""
        _, known, _ = self._reader.read(record)
        if known == NO_BATCH:
            name, what = "corrupt_rows", "cannot be judged"
        elif self._audited.may_lack_any:
            self._of_deleted(record, place, problem, batch)
            return
        elif (found := self._meant(record)) is not None:
            self._finding_log.add(self._unread.in_output(found, self._reader.claimed(record), place, batch))
            return
        else:
            name, what = "phantom_rows", "is invented"
        self._finding_log.remember_problem(name, problem)
        where = "" if batch is None else f" of batch {batch}"
        message = f"output {place}{where} {what}: {problem}"
        self._finding_log.add(Finding(property=name, message=message, read=place, batch=batch))

    def _meant(self, record: OutputRecord) -> UnreadRecord | None:
        """The record that the judge cannot read, and that an output record of ids names."""
        if self._audited.history.contract.output.has_refs:
            return None
        return self._unread.meant_by(self._reader.claimed(record), self._reader.is_event)
