"""One thing that is wrong, and the book they are kept in.

Free of everything. Properties are named for what is wrong with a row:

``lost_rows``             a joined or semi row that was owed by a committed batch never came
``missing_nulls``         a NULL row that was owed by a committed batch never came
``duplicate_rows``        a row came once more than the delivery promise excuses
``repeated_semi_rows``    the same of a left semi join, whose rows come at their first match and never again
``phantom_rows``          a row that no rule gives: unknown input, keys or times that do not match, a kind of
                          row the join has not
``premature_nulls``       a NULL row came before the watermark that expires its left row
``nulls_for_matched_rows``  a NULL row for a left row that has a partner
``late_rows_joined``      an output row (of any kind) that a late input row is part of, or owes its match to
``misplaced_rows``        a right row, in another batch than the one that emits it
``corrupt_rows``          an output record that cannot be read, or contradicts the input records that it
                          refers to
``missing_batches``       batch ids with a gap, or offsets that go backwards: nothing is compared from there
                          on
``wrong_watermarks``      a batch ran with another watermark than its input gives
``lost_state``            a row that the engine's own rules keep is not in Spark's state
``leaked_state``          a row is in Spark's state that its own rules have removed, or never stored
``wrong_flags``           a row of a preserved side is marked as matched in Spark's state, and was not, or the reverse
``wrong_metrics``         Spark counts other rows stored, removed, dropped or kept than its own rules give
``oracles_disagree``     the engine's own rules and SQL say different things, and no known defect explains it
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
    record (``partition/offset``; ``None``: it never came), ``defect`` a known defect of the engine.
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
