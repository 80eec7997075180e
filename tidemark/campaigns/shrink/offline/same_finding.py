"""Whether an evidence shows the same finding as a larger one, and nothing wrong that was not wrong there.

Free of I/O. The finding is the same if property, known defect and what it is about are, and the output row with its
place; wrong watermarks are if that of the log and the right one are. So another row that is wrong in the same way shows
nothing of it, nor does what is wrong only because of what was left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from tidemark.campaigns.shrink.bug_signature import BugSignature, signature_of, signatures_in
from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence
from tidemark.campaigns.shrink.offline.smaller_evidence import with_derived_watermarks
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Contract
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.trace import Record
from tidemark.oracle import Verdict, judge
from tidemark.oracle.findings import Finding

WATERMARKS = "wrong_watermarks"
Ids = frozenset[tuple[str, str | None]]
"""The ids of an output row, by the names of their fields."""


class _What(NamedTuple):
    """What a finding is, in whatever evidence."""

    property: str
    defect: str | None
    ids: Ids
    read: str | None


class SameFinding:
    """``verdict`` is that of the evidence ``held``, ``finding`` one of its findings; ``came`` are the ids of all output
    rows.

    Raises ``ValueError`` for wrong watermarks where the right ones cannot be told.
    """

    def __init__(self, held: HeldEvidence, verdict: Verdict, finding: Finding, came: Set[Ids]) -> None:
        self._contract = contract = Contract.from_json(held.manifest.contract)
        self._outcome = verdict.verdict
        self.signature = signature_of(finding, contract, *where_sentinels_begin(held))
        self._what = _what(finding)
        self._came = came
        self._known = {_what(one) for one in verdict.findings}
        self._signatures = bugs_in(verdict, held)
        self._totals = _totals(verdict)
        self._beyond = self._totals - Counter(_counted(one) for one in verdict.findings)
        self._reasons = _reasons(verdict)
        self._watermarks = _watermarks_at(held, finding) if finding.property == WATERMARKS else None

    def is_shown_by(self, held: HeldEvidence) -> bool:
        """Whether it is. Evidence that cannot be judged shows nothing."""
        try:
            return self.is_in(judge(held), held)
        except (TidemarkError, ValueError):
            return False

    def is_in(self, verdict: Verdict, held: HeldEvidence) -> bool:
        """Whether a verdict has it, and says nothing else that the verdict of the whole does not say."""
        mine = [one for one in verdict.findings if self._is_it(one, held)]
        return (
            verdict.verdict == self._outcome
            and bool(mine)
            and bugs_in(verdict, held) <= self._signatures
            and _totals(verdict) <= self._totals
            and all(self._may_be_of_the_whole(one) for one in verdict.findings)
            and _reasons(verdict) <= self._reasons
            and (self._watermarks is None or self._watermarks == _watermarks_at(held, mine[0]))
        )

    def _is_it(self, finding: Finding, held: HeldEvidence) -> bool:
        return (
            _what(finding) == self._what
            and signature_of(finding, self._contract, *where_sentinels_begin(held)) == self.signature
        )

    def _may_be_of_the_whole(self, finding: Finding) -> bool:
        """Whether a finding is one of the whole evidence, of which a verdict names the first of each property."""
        what = _what(finding)
        if what in self._known:
            return True
        is_left_out = what.read is None and what.ids in self._came
        return self._beyond[_counted(finding)] > 0 and not is_left_out


def where_sentinels_begin(held: HeldEvidence) -> tuple[Sequence[Record], dict[tuple[str, int], int]]:
    """The records before them, and the first offsets."""
    return held.records[: held.first_sentinel], first_offsets(held.manifest.inputs)


def bugs_in(verdict: Verdict, held: HeldEvidence) -> set[BugSignature]:
    """The bugs that the verdict of an evidence shows."""
    contract = Contract.from_json(held.manifest.contract)
    return signatures_in(verdict, contract, *where_sentinels_begin(held))


def _what(finding: Finding) -> _What:
    return _What(finding.property, finding.defect, frozenset(finding.row.items()), finding.read)


def _counted(finding: Finding) -> tuple[str, str]:
    return ("property", finding.property) if finding.defect is None else ("defect", finding.defect)


def _totals(verdict: Verdict) -> Counter[tuple[str, str]]:
    """How many findings there are of each property that no defect explains, and of each known defect."""
    found = {("property", name): count for name, count in verdict.unexplained_total.items()}
    return Counter(found | {("defect", name): count for name, count in verdict.defects_total.items()})


def _reasons(verdict: Verdict) -> set[str]:
    """Why it is inconclusive, but for numbers, and for coverage goals, which a part of a run need not meet."""
    missed = sum(not verdict.goals.get(name, False) for name in verdict.asked)
    reasons = verdict.inconclusive[: len(verdict.inconclusive) - missed]
    return {re.sub(r"\d+", "#", reason) for reason in reasons}


def _watermarks_at(held: HeldEvidence, finding: Finding) -> tuple[int, int] | None:
    """The watermark that a finding says is wrong, and the right one; ``None`` if it is that after the last batch.

    Raises ``ValueError`` where Spark has a choice, or the log does not begin with batch 0.
    """
    right = with_derived_watermarks(held).planned
    numbers = [one.batch for one in held.planned]
    # An audit names the batch after which the watermark is wrong.
    at = numbers.index(finding.batch or 0) + (held.manifest.audit is not None)
    if at >= min(len(right), len(numbers)):
        return None
    return held.planned[at].watermark_ms, right[at].watermark_ms
