"""The judgement of a query that tidemark did not start: what ``tidemark audit`` collected.

Free of I/O and of any clock. Rows are judged by the watermarks of the query's log, and what is right is said by SQL. A
row is a finding only if it is wrong whatever was trimmed from the log or deleted from the topics. What was trimmed is
beyond what an audit can say, and a note; where what was deleted leaves rows undetermined, the verdict is ``UNKNOWN``.

Coverage goals are not asked: nobody chose the input of such a query. If no row could be judged at all, the verdict is
``UNKNOWN``, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.formats.contract import Delivery, JoinKind
from tidemark.formats.faults import fault_label
from tidemark.oracle.audit.audited_history import AuditedHistory, read_audited
from tidemark.oracle.audit.audited_output import AuditedOutput, Came, OutputLevel, level_of
from tidemark.oracle.audit.audited_words import AuditedWords, lateness
from tidemark.oracle.audit.certainty import Expected, expect
from tidemark.oracle.audit.restart_inference import WatermarkCheck, check_watermarks
from tidemark.oracle.audit_account import AuditAccount, RowOfTable
from tidemark.oracle.causes.cause_lines import Compared
from tidemark.oracle.causes.row_facts import RowFacts
from tidemark.oracle.causes.watermark_causes import watermark_cause
from tidemark.oracle.compare.unread_records import UnreadRecords
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.findings import EXAMPLES_KEPT, Finding
from tidemark.oracle.input.history import ROW_MASK, Disposition, Evidence, alone
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.run_counts import of_faults
from tidemark.oracle.spark.known_defects import known
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.verdict import ALONE, Judgement, Verdict, readable_evidence

TABLES = ("late", "not_due", "duplicates", "undetermined")
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "UCT", "Etc/GMT", "Zulu", "Etc/Zulu")


@dataclass(frozen=True)
class Audit:
    """What came of an audit: the verdict, and rows for the tables beside it, by the name of the table."""

    verdict: Verdict
    tables: dict[str, list[RowOfTable]]


def judge_audit(run: Evidence, accept: Sequence[str] = ()) -> Verdict:
    """Judge the evidence of an audit; ``accept`` names known defects besides those that the contract accepts.

    Raises ``TidemarkError``: for evidence that cannot be read, and for a name that is no known defect.
    """
    return audit_with_tables(run, accept).verdict


def audit_with_tables(run: Evidence, accept: Sequence[str] = ()) -> Audit:
    """The same, and the rows that tables show: late ones, those not due yet, duplicates, undetermined ones."""
    with readable_evidence():
        audited = read_audited(run)
    return _AuditJudgement(audited, known((*audited.history.contract.accept, *accept))).judge(run)


class _AuditJudgement(Judgement):
    """The judgement of one audit."""

    oracles = ALONE

    def __init__(self, audited: AuditedHistory, accept: Sequence[str]) -> None:
        super().__init__(audited.history.manifest, accept, audited.history.inconclusive)
        self.audited = audited
        self.about = audited.about
        contract = audited.history.contract
        self.pipeline, self.kind = contract.name, str(contract.kind)
        self.contract = contract
        self.notes: list[str] = []

    def judge(self, run: Evidence) -> Audit:
        """Judge it."""
        self.check_gaps(self.audited.history.gaps)
        checked = self.stage("watermarks", lambda: check_watermarks(self.audited)) or WatermarkCheck([])
        if checked.finding is not None:
            self.finding_log.add(checked.finding)
        output = self.contract.output
        has_refs = output.has_refs
        query = self.manifest.query_id
        found = level_of(run.output(), query, has_refs=has_refs)
        counts: dict[str, int] = {}
        came, expected = Came(), None
        self._say_the_limits(found, checked)
        faults = list(run.faults())
        times = self.check_liveness(run.batches(), faults, run.progress())
        for fault in faults:
            if not fault.injected:
                self.inconclusive.append(
                    f"a fault was not injected: {fault_label(fault.component, fault.action)}"
                )
        if self._is_ours(found):
            expected = self.stage("the declarative answer", lambda: expect(self.audited))
        if expected is not None:
            unread = UnreadRecords(self.audited.history, run.inputs)
            comparison = AuditedOutput(self.audited, expected, found.level, self.finding_log, unread)
            came = self.stage("the output", lambda: comparison.run(run.output())) or came
            counts = self._counts(expected, came, found)
            counts |= of_faults(faults) if faults else {}
            self._say_what_is_open(came.counts, expected)
            answer, seen, owed = expected, came, comparison.owed()
            self.explain(lambda: self._compared(run, answer, seen, owed))
        verdict = self.conclude({**counts, **times}, (), {})
        verdict.audit = AuditAccount(
            level=found.level,
            first_batch=self.about.first_batch,
            from_batch=self.about.from_batch,
            to_batch=self.about.to_batch,
            owed_to=self.about.owed_to,
            restarts=checked.restarts,
            notes=self.notes,
            undetermined=came.kept.get("undetermined", [])[:EXAMPLES_KEPT],
            repeated=came.kept.get("duplicates", [])[:EXAMPLES_KEPT],
        )
        tables = dict(came.kept)
        if expected is not None:
            tables["late"] = self.stage("late rows", lambda: self._late_rows(expected)) or []
        return Audit(verdict, {name: tables.get(name, []) for name in TABLES})

    def _compared(self, run: Evidence, expected: Expected, came: Came, owed: Mapping[str, int]) -> Compared:
        """What wrong rows are compared with for their cause."""
        history = self.audited.history
        marks = {one.plan.batch: one.plan.watermark_ms for one in history.batches}
        prediction = Prediction(
            batch_of=expected.due,
            watermarks_ms=[marks.get(batch, 0) for batch in range(max(marks, default=0) + 1)],
            disposition=bytearray(expected.disposition.astype(np.uint8).tobytes()),
        )
        certain = expected.rows.certain
        rows = [(one, batch) for one, batch in expected.due.items() if one in came.first and one in certain]
        return Compared(RowFacts(history, prediction, run.inputs()), rows, owed, self._explained())

    def _explained(self) -> dict[str, str]:
        """What the watermarks say of the query, if they are wrong and all rows are here."""
        is_whole = self.audited.before is None and not self.audited.may_lack_any
        if "wrong_watermarks" not in self.finding_log.unexplained() or not is_whole:
            return {}
        return {"wrong_watermarks": watermark_cause(self.audited.history)}

    def _is_ours(self, found: OutputLevel) -> bool:
        """Whether the output has records of this query at all, where they say of which they are."""
        if found.level != "batches" or found.foreign < found.records:
            return True
        self.inconclusive.append(
            f"none of the {found.records:,} records of the output names the query {self.manifest.query_id!r} in its"
            " header 'query': is it the output of another checkpoint?"
        )
        return False

    def _say_what_is_open(self, counts: Counter[str], expected: Expected) -> None:
        """What rows are undetermined, and what that means for the verdict."""
        first = self.about.first_batch
        if number := counts["open_by_trimming"]:
            self.notes.append(
                f"{number:,} rows are undetermined, because a record that was read before batch {first} may have been"
                " late there: the log was trimmed"
            )
        if number := counts["earlier_rows"] + counts["earlier_rows_absent"]:
            self.notes.append(
                f"{number:,} rows are of batches before {first}, if they are right at all: {counts['earlier_rows']:,}"
                " came; what was late in those batches is not known, so they are not judged"
            )
        if number := counts["open_by_deletion"]:
            self.inconclusive.append(
                f"{number:,} rows are undetermined, because records of the input were deleted, or may have been:"
                f" {'; '.join(self._gone())}"
            )
        if number := counts["absent_of_deleted_output"]:
            self.inconclusive.append(
                f"{number:,} rows that are owed are not in the output, of which records were deleted, or may have been"
            )
        is_permitted = self.manifest.delivery is Delivery.AT_LEAST_ONCE
        if number := counts["permitted_duplicates"]:
            self.notes.append(
                f"{number:,} rows came again in batches with which the query was started again: at-least-once permits"
                " that"
            )
        unproven = counts["duplicates"] - self._found_repeats() - counts["permitted_duplicates"]
        if is_permitted and unproven:
            self.inconclusive.append(
                f"{unproven:,} rows came again: at-least-once permits that where a batch ran again or a task failed,"
                " and no checkpoint says whether it did"
            )
        if not counts["right_rows"] and not expected.owed.certain and not self.finding_log.totals():
            self.inconclusive.append(
                "no row was judged: none is owed by these batches, and none that is certain came"
            )

    def _found_repeats(self) -> int:
        totals = self.finding_log.totals()
        return totals.get("duplicate_rows", 0) + totals.get("repeated_semi_rows", 0)

    def _say_the_limits(self, found: OutputLevel, checked: WatermarkCheck) -> None:
        """What cannot be known of this query, and did not have to be."""
        about = self.about
        if about.first_batch > 0:
            self.notes.append(
                f"auditable from batch {about.first_batch}: the log has been trimmed before it, so what was late there,"
                " and which batch read it, is not known"
            )
            self.notes += self._said_by_the_state()
        if about.reported is not None:
            first, last = about.reported
            restarts = sorted(self.audited.restarted)
            again = f"; the query was started again with {', '.join(map(str, restarts))}" if restarts else ""
            self.notes.append(f"progress reports tell of batches {first} to {last}{again}")
        self.notes += self._said_of_sparks()
        self.notes += [f"deleted: {span}" for span in self._deleted()]
        self.notes += [f"perhaps removed by compaction: {span}" for span in self._removed()]
        if about.deleted_until_ms is not None:
            self.notes.append(
                f"taken as said: no deleted record has an event time after {moment(about.deleted_until_ms)}"
            )
        for partition, (start, end) in sorted(about.output_deleted.items()):
            self.notes.append(
                f"deleted: offsets {start:,} to {end - 1:,} of the output, partition {partition}"
            )
        output = "the output" if about.output_table is None else "the output table"
        self.notes += [f"{output}: {said}" for said in (*about.output_removals, *about.output_notes)]
        self.notes += [
            f"restart inferred at batch {batch}: nothing else explains the watermarks after it"
            for batch in checked.restarts
        ]
        if found.level != "batches":
            self.notes.append(
                "the output does not say which batch wrote a row: a row in a wrong batch, and a NULL row that came too"
                " early, are not seen; nor is a record of another query in this topic told from one of this query"
            )
        elif found.foreign:
            self.notes.append(
                f"{found.foreign:,} records of the output are of other queries, or name none: they are not judged"
            )
        if found.level == "ids":
            self.notes.append(
                "the output has ids only: where an id was sent twice, rows are compared by how often they came, and a"
                " row that came again is taken for a copy if no id of the input is there twice"
            )
        if about.time_zone is not None and about.time_zone not in _UTC:
            self.inconclusive.append(
                f"the session's time zone is {about.time_zone}: event times without an offset were read in it, and"
                " here in UTC"
            )

    def _said_of_sparks(self) -> list[str]:
        """Which Spark ran which batches, if there was more than one."""
        ran = ", ".join(
            f"Spark {spark} batches {first} to {last}" for spark, first, last in self.about.sparks
        )
        return (
            [f"taken as said: {ran}; rules and known defects are those of the Spark of a batch"]
            if ran
            else []
        )

    def _said_by_the_state(self) -> list[str]:
        """What the state before the first batch that can be judged was good for, if it was asked for."""
        info, known, before = self.manifest.state, self.audited.by_state, self.audited.before
        if info is not None and info.problem is not None:
            return [f"the state after batch {before} could not be read: {info.problem}"]
        if not known.is_read:
            return []
        if known.misfit:
            return [f"the state after batch {before} was read and not used: {known.misfit}"]
        shown = f"{len(known.accepted):,} to have been accepted and {len(known.late):,} to have been late"
        of = f"of the rows that were read before batch {self.about.first_batch}"
        said = [f"the state after batch {before} was read: {of}, it shows {shown}"]
        if known.ambiguous:
            said.append(f"{known.ambiguous:,} of them look alike in the state, which has only some of them")
        return said

    def _deleted(self) -> list[str]:
        return [
            f"offsets {start:,} to {end - 1:,} of {topic}/{partition}"
            for topic, spans in sorted(self.about.deleted.items())
            for partition, (start, end) in sorted(spans.items())
        ]

    def _removed(self) -> list[str]:
        topics = [self.audited.history.side(side).topic for side in (LEFT, RIGHT)]
        counts = sorted(zip(topics, self.audited.removed, strict=True))
        return [f"{gaps:,} offsets of {topic} have no record" for topic, gaps in counts if gaps]

    def _gone(self) -> list[str]:
        return [*self._deleted(), *self._removed()]

    def _counts(self, expected: Expected, came: Came, found: OutputLevel) -> dict[str, int]:
        """As of a run, and what only an audit counts."""
        history, rows = self.audited.history, self.audited.history.rows
        side = np.frombuffer(bytes(rows.side), dtype=np.uint8)
        late = expected.disposition == Disposition.LATE
        unreadable = int(np.sum(expected.disposition == Disposition.UNREADABLE))
        # Older evidence does not mark offsets without a record: `unheld` counts them.
        absent = [
            max(history.absent_of(number), self.about.unheld.get(history.side(number).topic, 0))
            for number in (LEFT, RIGHT)
        ]
        counts = {"rows_in": len(rows) - sum(absent), "late": int(np.sum(late))}
        repeated = 0
        for number in (LEFT, RIGHT):
            topic, mine = history.side(number).topic, side == number
            counts[f"{topic}_in"] = int(np.sum(mine)) - absent[number]
            counts[f"{topic}_late"] = int(np.sum(mine & late))
            ids = [rows.id[row] for row in np.flatnonzero(mine).tolist() if rows.id[row] is not None]
            repeated += len(ids) - len(set(ids))
        key = np.frombuffer(rows.key, dtype=np.int64)
        null_key = (key < 0) & (expected.disposition != Disposition.UNREADABLE)
        batches = self.audited.judged
        with_data = sum(any(batch.rows) for batch in batches)
        return {
            **counts,
            "unreadable": unreadable - sum(absent),
            "null_key": int(np.sum(null_key)),
            "duplicate_events": repeated,
            "matched": sum(rows.side[row] == LEFT for row in expected.matched),
            **self._output_counts(expected, came),
            "output_records": found.records,
            "foreign_records": found.foreign,
            "batches": len(batches),
            "committed_batches": sum(batch.plan.committed for batch in batches),
            "data_batches": with_data,
            "no_data_batches": len(batches) - with_data,
            "deleted_records": sum(self.audited.deleted),
            "removed_records": sum(self.audited.removed),
        }

    def _output_counts(self, expected: Expected, came: Came) -> dict[str, int]:
        right = [one for one in came.first if one in expected.rows.possible]
        joined = sum(one & ROW_MASK != 0 for one in right)
        is_semi = self.contract.kind is JoinKind.LEFT_SEMI
        names = ["undetermined", "undetermined_absent", "not_due", "duplicates", "not_compared"]
        names += ["permitted_duplicates"] if self.about.reported is not None or self.about.sparks else []
        names += [] if self.audited.before is None else ["earlier_rows", "earlier_rows_absent"]
        return {
            "joined_rows": joined,
            "null_rows": 0 if is_semi else len(right) - joined,
            "semi_rows": len(right) - joined if is_semi else 0,
            "expected_rows": len(expected.owed.certain),
            **{name: came.counts[name] for name in names},
        }

    def _late_rows(self, expected: Expected) -> list[RowOfTable]:
        """The late rows: how late, and by which watermark."""
        words, found = AuditedWords(self.audited, expected), []
        watermarks_ms = {one.plan.batch: one.plan.watermark_ms for one in self.audited.history.batches}
        for row in np.flatnonzero(expected.disposition == Disposition.LATE).tolist():
            behind_ms, watermark = lateness(self.audited, row, watermarks_ms)
            finding: Finding = words.finding("", alone(row), "")
            found.append(
                RowOfTable(
                    row={name: value for name, value in finding.row.items() if value is not None},
                    written=finding.written,
                    batch=self.audited.history.rows.batch[row],
                    late_by_ms=behind_ms,
                    watermark=watermark,
                    why=f"as the state after batch {self.audited.before} shows" if watermark is None else "",
                )
            )
        return found
