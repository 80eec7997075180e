"""Which bug a finding shows: what a smaller run has to show to be a run of the same bug.

Free of I/O. Ids, times, batches and counts are no part of it: they change when a run becomes smaller. Whether the
finding is about a sentinel is: a bug of a row that only flushes the query is none of the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.trace import Record
from tidemark.oracle import Verdict
from tidemark.oracle.demand_check import OF_TIME
from tidemark.oracle.findings import Finding
from tidemark.oracle.input.unreadable import NOTHING_READ

CHAIN = "chain of "
OF_A_SENTINEL = ", of a sentinel"
PLAN_DIFFERS = "plan_differs"
NOT_SHOWN: Mapping[str, str] = MappingProxyType(
    {PLAN_DIFFERS: "the plan of the query", **dict.fromkeys(OF_TIME, "time")}
)
"""Properties that no smaller run shows, and what their findings are about."""
Starts = Mapping[tuple[str, int], int]
"""The first offset of each topic and partition."""


@dataclass(frozen=True)
class BugSignature:
    """``property`` and ``defect`` of the finding, the ``kind`` of the join, and what the finding is ``about``: a pair,
    a semi row, the NULL row of a side, the state of a side, or the query as a whole; and whether of a sentinel. The
    kind of a chain is its steps; a finding is about a row of the last one, of which fields are NULL or not.
    """

    property: str
    defect: str | None
    kind: str
    about: str

    def __str__(self) -> str:
        known = f", known defect {self.defect}" if self.defect else ""
        return f"{self.property} of {self.about} in a {query_of(self)}{known}"


def query_of(signature: BugSignature) -> str:
    """The join, or the chain, in words."""
    return signature.kind if signature.kind.startswith(CHAIN) else f"{signature.kind} join"


def signature_of(
    finding: Finding, contract: Contract, records: Iterable[Record], starts: Starts = MappingProxyType({})
) -> BugSignature:
    """The bug that a finding shows; ``records`` are those of the run's trace, behind which its sentinels are.

    ``starts``: the first offset of a topic and partition, where it is not 0.
    """
    return _signature(finding, contract, _ends(records, starts))


def signatures_in(
    verdict: Verdict, contract: Contract, records: Iterable[Record], starts: Starts = MappingProxyType({})
) -> set[BugSignature]:
    """The bugs that a verdict shows."""
    ends = _ends(records, starts)
    return {_signature(finding, contract, ends) for finding in verdict.findings}


def of_sentinels(
    records: Iterable[Record], starts: Starts = MappingProxyType({})
) -> Callable[[Finding], bool]:
    """Tells whether a finding is about a sentinel; arguments as those of ``signature_of``."""
    ends = _ends(records, starts)
    return lambda finding: _is_of_sentinel(finding, ends)


def leaves_topic_unread(verdict: Verdict) -> bool:
    """Whether no record of a topic could be read: once the bug is gone, such a run is ``UNKNOWN``, and never green."""
    return any(reason.startswith(NOTHING_READ) for reason in verdict.inconclusive)


def chosen_finding(
    verdict: Verdict,
    number: int | None,
    is_of_sentinel: Callable[[Finding], bool] = lambda _finding: False,
    *,
    not_shown: Collection[str] = NOT_SHOWN,
) -> Finding:
    """The finding with a number, from 1, in the order of the verdict; by default the first that no defect explains.

    One about a row of the trace is taken before one about a sentinel, and one of the properties in ``not_shown``, which
    nothing smaller shows, after all others. Raises ``UsageError`` if there is none.
    """
    findings = verdict.findings
    if not findings:
        raise UsageError(
            f"the run is {verdict.verdict}, and has no finding",
            detail="only a finding can be shown by a smaller run",
            hint="`tidemark check DIR` judges a run directory",
        )
    if number is None:
        return min(
            findings,
            key=lambda one: (one.property in not_shown, one.defect is not None, is_of_sentinel(one)),
        )
    if not 1 <= number <= len(findings):
        raise UsageError(
            f"there is no finding {number}",
            detail=f"the verdict has examples of {len(findings)} findings",
            hint=f"--finding 1 to {len(findings)}, in the order of `findings` in verdict.json",
        )
    return findings[number - 1]


def must_be_shown_by_runs(finding: Finding) -> None:
    """Raise ``UsageError`` for a finding that no smaller run shows."""
    what = NOT_SHOWN.get(finding.property)
    if what is None:
        return
    why = "a smaller run takes less time, and shows nothing of it"
    hint = "`tidemark report DIR` draws faults, recoveries and batches"
    if finding.property == PLAN_DIFFERS:
        why = "it is the same whatever the trace is, and the plan is not compared in the runs of the search"
        hint = "`tidemark contract PIPELINE` compares contract and plan without a run"
    raise UsageError(
        f"the finding is about {what}: {finding.message}",
        detail=why,
        hint=f"{hint}; --finding N chooses another finding",
    )


def _about_chain(finding: Finding, contract: ChainInputs) -> str:
    """A row of the last step, and which of its fields are NULL: in an outer join those of a side."""
    if not finding.row:
        return "the query"
    step = contract.steps.rpartition(", ")[2]
    absent = [name for name, value in finding.row.items() if value is None]
    return f"a row of the {step}" + (f" without {', '.join(absent)}" if absent else "")


def _about(finding: Finding, contract: Contract) -> str:
    if not finding.row:
        topics = {place.split("/")[0] for place in finding.written}
        sides = [
            name
            for name, side in (("left", contract.left), ("right", contract.right))
            if side.topic in topics
        ]
        return f"the {' and '.join(sides)} side" if sides else "the query"
    left = finding.row.get(contract.output.left_id)
    if contract.output.right_id is None:
        return "a semi row"
    right = finding.row.get(contract.output.right_id)
    if left is not None and right is not None:
        return "a pair"
    return f"a NULL row of the {'left' if left is not None else 'right'} side"


def _ends(records: Iterable[Record], starts: Starts) -> Counter[tuple[str, str]]:
    """Where the records of the trace end in each topic and partition."""
    found = Counter((record.topic, str(record.partition)) for record in records)
    found.update({(topic, str(partition)): first for (topic, partition), first in starts.items()})
    return found


def _signature(finding: Finding, contract: Contract, ends: Counter[tuple[str, str]]) -> BugSignature:
    kind, about = str(contract.kind), _about(finding, contract)
    if isinstance(contract, ChainInputs):
        kind, about = CHAIN + contract.steps, _about_chain(finding, contract)
    behind = OF_A_SENTINEL if _is_of_sentinel(finding, ends) else ""
    return BugSignature(finding.property, finding.defect, kind, about + behind)


def _is_of_sentinel(finding: Finding, ends: Counter[tuple[str, str]]) -> bool:
    """Whether a row that it names was published behind the trace; of a finding about no row: whether all were."""
    places = [place.rsplit("/", 2) for place in finding.written]
    behind = [int(offset) >= ends[topic, part] for topic, part, offset in places]
    return any(behind) if finding.row else bool(behind) and all(behind)
