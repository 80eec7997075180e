"""One thing that is wrong, and the log that findings are kept in.

Free of everything. Properties are named for what is wrong. Each has an entry below, in the order in which a reader
should look at them: its meaning, then an example, the usual causes, and the next command to run. ``DIR`` is the run
directory.

``missing_batches``
    Batch ids have a gap, or offsets go backwards: nothing is compared from there on.
    Example: batch 4 was planned after batch 2, and there is no batch 3.
    Usual causes: files of the checkpoint were deleted or changed; evidence was cut by hand.
    Next: ``tidemark check DIR --batches``.

``wrong_watermarks``
    A batch ran with another watermark than its input gives.
    Example: batch 5 ran at 12:00:10, and the rows before it give 12:00:05.
    Usual causes: the contract has another delay or watermark policy than the query; offsets of the checkpoint were
    changed.
    Next: ``tidemark contract PIPELINE``, which holds the contract against the query's plan.

``lost_rows``
    A joined or semi row that a committed batch owed never came.
    Example: impression i1 and click c1 match in batch 2, and no output record has both.
    Usual causes: a known defect of Spark (the finding names it); state that was lost; a sink that dropped rows; a
    condition in the query that the contract does not have.
    Next: ``tidemark check DIR --batches``; for a known defect, ``tidemark versions``.

``missing_nulls``
    A NULL row that a committed batch owed never came.
    Example: impression i2 has no click, the watermark passed its time bound, and no row with NULL came for it.
    Usual causes: a watermark on one side only; a watermark that stalled after a restart; rows without event time.
    Next: ``tidemark check DIR --batches``, which says for which input the watermark waits.

``duplicate_rows``
    A row came once more than the delivery promise permits.
    Example: (i1, c1) is in the output twice, and its batch ran once.
    Usual causes: a batch that ran again into a sink that is not exactly-once; two queries with one output topic; a
    sink that writes twice.
    Next: ``tidemark check DIR --batches``; with the exactly-once sink also ``tidemark ledger``.

``repeated_semi_rows``
    As ``duplicate_rows``, of a left semi join, whose rows come at their first match and never again.
    Example: i1 came in batch 1 with click c1, and came again in batch 2 with click c2.
    Usual causes: an inner join in place of a left semi join; as for ``duplicate_rows``.
    Next: ``tidemark contract PIPELINE``.

``phantom_rows``
    A row that no rule gives: of unknown input, of keys or times that do not match, or of a kind that the join does not
    have.
    Example: (i2, c1) came, and the two rows have different keys.
    Usual causes: the query joins by another condition or time bound than the contract says; NULL keys that matched; a
    value that was changed on its way to the sink.
    Next: ``tidemark contract PIPELINE``.

``premature_nulls``
    A NULL row came before the watermark that evicts its preserved row.
    Example: the NULL row of i2 is due in batch 3, and came in batch 1.
    Usual causes: a time bound in the query that is narrower than that of the contract; a watermark that was ahead.
    Next: ``tidemark check DIR --batches``, which shows the watermark of each batch.

``nulls_for_matched_rows``
    A NULL row for a preserved row that has a partner.
    Example: (i1, c1) came, and (i1, NULL) came too.
    Usual causes: state that was lost between two batches; a partner that came after a narrower time bound.
    Next: ``tidemark check DIR``, which names ``lost_state`` and ``wrong_flags`` if the state was read.

``late_rows_joined``
    An output row, of any kind, that a late input row is part of, or owes its match to.
    Example: click c9 is older than the late watermark of its batch, and (i9, c9) came.
    Usual causes: a query without a watermark, or with a longer delay than the contract says.
    Next: ``tidemark contract PIPELINE``.

``misplaced_rows``
    A right row in another batch than the one that emits it.
    Example: (i1, c1) is due in batch 0, and its header ``batch`` says 2.
    Usual causes: a sink that writes a wrong batch id; rows that a sink kept back; a batch that was planned anew.
    Next: ``tidemark check DIR --batches``.

``corrupt_rows``
    An output record that cannot be read, or contradicts the input records that it refers to.
    Example: the value is no JSON object, or the header ``query`` names another query.
    Usual causes: something else writes to the output topic; a sink without the provenance headers.
    Next: ``tidemark check DIR --json``, whose ``read`` is the partition and offset of the record.

``lost_state``
    A row that Spark's rules keep is not in Spark's state.
    Example: after batch 3 the state of the left side lacks i1, which batch 1 stored.
    Usual causes: files of the state store that were lost or cut; a row that was evicted too early.
    Next: ``tidemark check DIR --batches``; the logs are in ``DIR/logs``.

``leaked_state``
    A row is in Spark's state that its rules have removed, or never stored.
    Example: after batch 3 the state has i1, which batch 2 evicts.
    Usual causes: a state watermark that does not move (a known defect of Spark with a watermark on one side only); a
    state file of another batch.
    Next: ``tidemark contract PIPELINE``, which warns of joins whose state grows without end.

``wrong_flags``
    A row of a preserved side is marked as matched in Spark's state, and was not, or the reverse.
    Example: i1 joined c1 in batch 0, and the state after batch 1 has it as not matched.
    Usual causes: state that was restored from another version; a defect of the state format.
    Next: ``tidemark run PIPELINE`` with the seed of the run, on another state format.

``wrong_metrics``
    Spark counts other rows stored, removed, dropped or kept than its rules give.
    Example: batch 2 reports ``numRowsDroppedByWatermark`` 3, and its input has 2 late rows.
    Usual causes: tasks that ran again; a version of Spark that counts differently.
    Next: ``tidemark check DIR --json``; Spark's reports are in ``DIR/progress.jsonl``.

``oracles_disagree``
    Spark's rules and SQL say different things of the same input, and no known defect explains it.
    Example: the rules give (i1, c1), and the SQL join of the accepted rows does not.
    Usual causes: a defect of Spark that is not known yet; an error in tidemark's model.
    Next: ``tidemark check DIR --json``, and keep the run directory: it is all that a report needs.
"""

from __future__ import annotations

from collections import Counter

import msgspec

EXAMPLES_KEPT = 20

PROPERTIES = (
    "missing_batches",
    "wrong_watermarks",
    "lost_rows",
    "missing_nulls",
    "duplicate_rows",
    "repeated_semi_rows",
    "phantom_rows",
    "premature_nulls",
    "nulls_for_matched_rows",
    "late_rows_joined",
    "misplaced_rows",
    "corrupt_rows",
    "lost_state",
    "leaked_state",
    "wrong_flags",
    "wrong_metrics",
    "oracles_disagree",
)
"""In the order in which a reader should look at them."""


class Finding(msgspec.Struct, kw_only=True, frozen=True):
    """``message`` is one sentence that says what is wrong and why.

    ``row`` names the ids, ``written`` the input records (``topic/partition/offset``), ``read`` the output
    record (``partition/offset``; ``None``: it never came), ``defect`` a known defect of Spark.
    """

    property: str
    message: str
    row: dict[str, str | None] = {}
    written: list[str] = []
    read: str | None = None
    batch: int | None = None
    defect: str | None = None


class FindingLog:
    """All findings of a judgement: every one is counted, the first of each property are kept."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._unexplained: Counter[str] = Counter()
        self.defects: Counter[str] = Counter()
        self._kept: dict[tuple[str, str | None], list[Finding]] = {}

    def wants(self, name: str, defect: str | None = None) -> bool:
        """Whether another example of this property would be kept: if not, ``count`` is enough."""
        return len(self._kept.get((name, defect), ())) < EXAMPLES_KEPT

    def count(self, name: str, defect: str | None = None) -> None:
        """Count a finding without an example."""
        self._totals[name] += 1
        if defect:
            self.defects[defect] += 1
        else:
            self._unexplained[name] += 1

    def add(self, finding: Finding) -> None:
        """Count a finding and keep it if there is room."""
        self.count(finding.property, finding.defect)
        if self.wants(finding.property, finding.defect):
            self._kept.setdefault((finding.property, finding.defect), []).append(finding)

    def totals(self) -> dict[str, int]:
        """How many findings there are of each property, in the order of ``PROPERTIES``."""
        return {name: self._totals[name] for name in PROPERTIES if name in self._totals}

    def unexplained(self) -> dict[str, int]:
        """As ``totals``, without those that a known defect explains."""
        return {name: self._unexplained[name] for name in PROPERTIES if name in self._unexplained}

    def findings(self) -> list[Finding]:
        """The kept findings, in the order of ``PROPERTIES``."""
        kept = [finding for findings in self._kept.values() for finding in findings]
        return sorted(kept, key=lambda finding: PROPERTIES.index(finding.property))
