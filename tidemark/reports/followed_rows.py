"""Follows the rows of a run: those that findings are about, what they could have been joined with, and some others.

Decides nothing. Of a single join all is said; of a chain of operators what ``chain_lives`` can tell; of an audit what
its log has (``row_accounts``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tidemark.formats.chain import Chain
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.input.history import NO_BATCH, NO_KEY, Disposition, History, alone, pair, read_history
from tidemark.oracle.spark.time_ranges import FOREVER_US, LEFT, NULL_TIME_US
from tidemark.reports.batch_counts import size_of
from tidemark.reports.chain_lives import follow_chain
from tidemark.reports.large_rows import account_of_large
from tidemark.reports.publishing_times import publishing_times
from tidemark.reports.replayed_rows import ReplayedRows, rows_of
from tidemark.reports.row_accounts import RowAccount, account_of_audit
from tidemark.reports.row_candidates import RowCandidates
from tidemark.reports.row_life import CandidateRow, FollowedFinding, RowLife, RowLives
from tidemark.reports.row_steps import OF_STATE, RowSteps, WrongRows, came_text, key_of

MOST_RECORDS = 60_000
"""Of more records only the rows of findings are followed. Calibration: 30,000 take 0.3 s."""
MOST_ROWS = 400
"""So many rows are followed besides those that findings name."""
MOST_PAIRS = 300_000
"""A key with more pairs of a left and a right row is not followed. Calibration: 0.3 µs a pair."""

_BECAME = {
    Disposition.UNREAD: "unread",
    Disposition.UNREADABLE: "unreadable",
    Disposition.FILTERED: "filtered",
    Disposition.LATE: "late",
    Disposition.ACCEPTED: "accepted",
}
_NO_SUCH_ROW = ("phantom_rows", "late_rows_joined", "nulls_for_matched_rows")


def follow_rows(run: RunDirectory, verdict: Verdict) -> RowLives:
    """The lives of the rows of a run; raises ``BrokenEvidence`` if it cannot be read."""
    manifest, size = run.manifest, size_of(run.manifest)
    described, is_large = run.contract, size > MOST_RECORDS
    if is_large and (isinstance(described, Chain) or manifest.audit is not None):
        what = "a chain" if isinstance(described, Chain) else "an audit"
        return RowLives(notes=[f"{size:,} records: the life of a row of {what} is not shown"])
    if isinstance(described, Chain):
        return follow_chain(run, described, verdict)
    account: RowAccount | str
    if is_large:
        account = account_of_large(run, described, verdict, size)
    elif manifest.audit is not None:
        account = account_of_audit(run)
    else:
        account = RowAccount(run, read_history(run))
    return RowLives(notes=[account]) if isinstance(account, str) else _Follower(account, verdict).lives()


class _Follower:
    """One run whose rows are followed."""

    def __init__(self, account: RowAccount, verdict: Verdict) -> None:
        self._account, self._verdict = account, verdict
        self._history = history = account.history
        named = [self._named_by(finding) for finding in verdict.findings]
        keys, self._left_out = _keys(history, dict.fromkeys(row for rows in named for row in rows))
        named = [rows if keys.issuperset(history.rows.key[row] for row in rows) else [] for rows in named]
        self._named, of_findings = named, dict.fromkeys(row for rows in named for row in rows)
        self._identities = [
            None if finding.property in OF_STATE else self._identity(rows)
            for finding, rows in zip(verdict.findings, named, strict=True)
        ]
        identities = {identity for identity in self._identities if identity is not None}
        self._replayed = ReplayedRows(account, keys, identities)
        self._candidates = RowCandidates(self._replayed)
        beside = [other for row in of_findings for other in self._candidates.of(row)[0]]
        self._rows = list(dict.fromkeys([*of_findings, *beside]))
        more = [row for row in self._replayed.rows if row < history.rows.first_sentinel]
        self._rows = list(dict.fromkeys([*self._rows, *more[:MOST_ROWS]]))
        self._index = {row: at for at, row in enumerate(self._rows)}
        if isinstance(account.run, RunDirectory):
            places = {self._replayed.words.place(row) for row in self._rows}
            account.published = publishing_times(account.run, places)
        self._partners: defaultdict[int, set[int]] = defaultdict(set)
        for rows in named:
            for row in rows:
                self._partners[row].update(set(rows) - {row})
        self._steps = RowSteps(self._replayed, self._wrong())

    def _named_by(self, finding: Finding) -> list[int]:
        """The rows that a finding names; none if some of them were not read."""
        rows = rows_of(self._history, finding)
        is_part = self._account.of_rows is not None and len(rows) < len(finding.written)
        return [] if is_part else rows

    def _wrong(self) -> WrongRows:
        """What findings are about."""
        in_state, expected, due = set[int](), dict[int, str](), dict[int, int]()
        for finding, rows, identity in zip(
            self._verdict.findings, self._named, self._identities, strict=True
        ):
            if finding.property in OF_STATE:
                in_state.update(rows)
            elif identity is not None:
                expected[identity] = self._expected(finding, identity)
                if finding.property == "lost_rows" and finding.batch is not None:
                    due[identity] = finding.batch
        watermarks = "wrong_watermarks" in self._verdict.findings_total
        return WrongRows(in_state, expected, due, watermarks)

    def _identity(self, rows: Sequence[int]) -> int | None:
        """The output row that is made of these rows."""
        side = self._history.rows.side
        if len(rows) == 2 and (side[rows[0]], side[rows[1]]) == (LEFT, 1 - LEFT):
            return pair(rows[0], rows[1])
        return alone(rows[0]) if len(rows) == 1 else None

    def lives(self) -> RowLives:
        """All of it."""
        read = self._history.rows.first_sentinel
        of_rows = self._account.of_rows or read
        notes = [*self._account.notes, *self._left_out]
        if (followed := sum(row < read for row in self._rows)) < of_rows:
            then = ", then those of the first keys" if of_rows == read else ""
            notes.append(
                f"{followed:,} of {of_rows:,} rows can be looked for in the picture: those of findings and their"
                f" candidates{then}"
            )
        findings = [
            self._finding(at, finding) for at, finding in enumerate(self._verdict.findings) if self._named[at]
        ]
        return RowLives(
            rows=[self._life(row) for row in self._rows], findings=findings, of_rows=of_rows, notes=notes
        )

    def _finding(self, at: int, finding: Finding) -> FollowedFinding:
        rows, identity, words = self._named[at], self._identities[at], self._replayed.words
        if identity is None:
            name, expected, observed = words.row(rows[0]), "", finding.message
        else:
            name = words.output_row(identity)
            expected = self._expected(finding, identity)
            observed = came_text(self._replayed.arrivals.get(identity, []))
        return FollowedFinding(
            finding=at,
            property=finding.property,
            name=name,
            expected=expected,
            observed=observed,
            rows=[self._index[row] for row in rows],
            batch=finding.batch,
        )

    def _expected(self, finding: Finding, identity: int) -> str:
        """What was expected of the row of a finding: by the finding itself, then by Spark's rules."""
        if finding.property in _NO_SUCH_ROW:
            return "no such row"
        if finding.property in ("lost_rows", "missing_nulls"):
            if finding.defect is None:
                due = self._replayed.prediction.batch_of.get(identity)
                return f"once, in batch {due if finding.batch is None else finding.batch}"
            return f"once; the known defect {finding.defect} takes it"
        due = self._replayed.prediction.batch_of.get(identity)
        if due is None or finding.defect is not None:
            return "not in this batch"
        return f"once, in batch {due}"

    def _life(self, row: int) -> RowLife:
        history, replayed = self._history, self._replayed
        batch, stored, removed = (
            history.rows.batch[row],
            replayed.prediction.stored[row],
            replayed.prediction.removed[row],
        )
        became = replayed.prediction.disposition[row]
        is_timed = history.side(history.rows.side[row]).watermark_delay_ms is not None
        made = self._steps.made(row, self._index)
        listed, more = self._candidates.of(row)
        listed = list(dict.fromkeys([*sorted(self._partners[row]), *listed]))
        earliest_us, latest_us = self._band(row)
        return RowLife(
            name=_name(history, row, replayed.words.place(row)),
            input=history.rows.side[row],
            key="" if history.rows.key[row] == NO_KEY else key_of(replayed, row),
            place=replayed.words.place(row),
            time=replayed.words.time(row),
            became=_BECAME[Disposition(became)],
            time_us=replayed.time_us(row),
            batch=None if batch == NO_BATCH else batch,
            late_ms=replayed.late_ms(row) if batch != NO_BATCH and is_timed else None,
            earliest_us=earliest_us,
            latest_us=latest_us,
            stored=None if stored == NO_BATCH else stored,
            removed=None if removed == NO_BATCH else removed,
            evicted_ms=self._steps.evicted_ms(row) if stored != NO_BATCH else None,
            steps=self._steps.of(row, made),
            candidates=[self._candidate(row, other) for other in listed],
            more=more,
            made=[one for one in made if one.came or one.due is not None],
        )

    def _band(self, row: int) -> tuple[int | None, int | None]:
        """The times of partners that match; an open end is ``None``."""
        time_us = self._history.rows.time_us[row]
        if time_us == NULL_TIME_US:
            return None, None
        low_us, high_us = self._replayed.window.partners_us(self._history.rows.side[row], time_us)
        far = FOREVER_US // 2
        return (low_us if low_us > -far else None), (high_us if high_us < far else None)

    def _candidate(self, row: int, other: int) -> CandidateRow:
        history, words = self._history, self._replayed.words
        matches, why = self._candidates.why(row, other)
        batch = history.rows.batch[other]
        return CandidateRow(
            row=self._index.get(other, -1),
            name=_name(history, other, words.place(other)),
            place=words.place(other),
            time=words.time(other),
            batch=None if batch == NO_BATCH else batch,
            why=why,
            matches=matches,
            outside_us=self._candidates.outside_us(row, other),
        )


def _keys(history: History, named: Iterable[int]) -> tuple[set[int], list[str]]:
    """The keys that are followed, and notes of those that are not: of findings first, then as rows first have them."""
    rows = history.rows
    counts = Counter(zip(rows.key, rows.side, strict=True))
    chosen: set[int] = set()
    too_large, total = set[int](), 0
    for row in named:
        key = rows.key[row]
        if counts[key, 0] * counts[key, 1] > MOST_PAIRS:
            too_large.add(key)
            continue
        chosen.add(key)
    for row in range(rows.first_sentinel):
        key = rows.key[row]
        if key in chosen or key in too_large:
            continue
        left, right = counts[key, 0], counts[key, 1]
        if total + left + right <= MOST_ROWS and left * right <= MOST_PAIRS:
            total += left + right
            chosen.add(key)
    many = f"{len(too_large):,} keys of findings have too many rows to be followed"
    left_out = [many] if too_large else []
    return chosen, left_out


def _name(history: History, row: int, place: str) -> str:
    """The id of a row, or where it was published."""
    found = history.rows.id[row]
    return place if found is None else found
