"""What the static part of a report says, as data: findings in groups, counts, goals, faults and how to see it again.

Free of HTML and of I/O. Findings that no known defect of Spark explains are new, and come first, in groups by property
in the order of their causes: the sentence that explains most is read first. Those of a known defect are a group each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidemark.formats.faults import CommitPoint, Fault
from tidemark.formats.manifest import Manifest
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.causes.cause_lines import first_read
from tidemark.oracle.spark.known_defects import BY_NAME
from tidemark.reports import REDACTED, demand_lines, notes_of_a_run, oracles_line, summary_lines
from tidemark.reports.audit_lines import notes
from tidemark.reports.liveness_lines import recoveries
from tidemark.reports.property_notes import PropertyNote, goal_notes, property_notes
from tidemark.reports.run_statistics import FaultStatistics


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one property, or of one known defect.

    ``total`` counts all of them; ``smallest`` and ``others`` are examples, ``kept`` how many ``verdict.json`` has.
    ``said`` is the sentence of the cause, or what is known of the defect.
    """

    name: str
    total: int
    said: str
    smallest: Finding | None
    others: Sequence[Finding]
    kept: int
    note: PropertyNote
    properties: Sequence[str] = ()
    ticket: str = ""
    accepted: bool = False


@dataclass(frozen=True)
class GoalLine:
    """A coverage goal: when it is met, whether it was, and whether it had to be (``required``, ``waived`` or empty)."""

    name: str
    meaning: str
    met: bool
    asked: str


@dataclass(frozen=True)
class FaultLine:
    """A fault in words."""

    label: str
    point: str
    batch: str
    at_utc: str
    recovery: str
    proof: str


@dataclass(frozen=True)
class VerdictPage:
    """The static part of a page; all of it is plain text."""

    verdict: str
    pipeline: str
    kind: str
    is_audit: bool
    delivery: str
    about: Sequence[tuple[str, str]]
    headlines: Sequence[str]
    diagnosis: Sequence[str]
    new: list[FindingGroup]
    known: list[FindingGroup]
    inconclusive: Sequence[str]
    counts: Sequence[tuple[str, str]]
    goals: Sequence[GoalLine]
    faults: Sequence[FaultLine]
    recoveries: Sequence[FaultStatistics]
    injected: str
    notes: Sequence[str]
    contract: str
    command: str


def verdict_page(
    verdict: Verdict, manifest: Manifest, faults: Sequence[Fault], waits: Sequence[str] = ()
) -> VerdictPage:
    """The static part of the page of a run, a chain or an audit; ``waits`` says where the watermark stood, and why."""
    new = _new(verdict)
    return VerdictPage(
        verdict=verdict.verdict,
        pipeline=verdict.pipeline,
        kind=verdict.kind.replace("_", " "),
        is_audit=manifest.audit is not None,
        delivery=verdict.delivery,
        about=_about(verdict, manifest),
        headlines=headlines(verdict),
        diagnosis=verdict.diagnosed,
        new=new,
        known=_known(verdict),
        inconclusive=verdict.inconclusive,
        counts=[
            *summary_lines(verdict, faults),
            *demand_lines(manifest, verdict),
            *(("watermark", line) for line in waits),
        ],
        goals=_goals(verdict),
        faults=[_fault_line(fault) for fault in faults],
        recoveries=recoveries(faults) if len(faults) > 1 else [],
        injected=injected_line(faults),
        notes=[*notes(verdict), *notes_of_a_run(manifest)],
        contract=msgspec.json.format(msgspec.json.encode(manifest.contract), indent=2).decode(),
        command=manifest.command or "",
    )


def _about(verdict: Verdict, manifest: Manifest) -> list[tuple[str, str]]:
    """What was run, and how it was judged."""
    versions = manifest.versions
    seal = {True: "intact", False: "none: nothing shows that the evidence is as a run wrote it", None: ""}
    found = [
        ("Spark", versions.get("spark", "")),
        ("Kafka", versions.get("kafka", "")),
        ("sink", manifest.sink or ""),
        ("backend", manifest.backend or ""),
        ("pace", "" if manifest.audit is not None else manifest.pace),
        ("seed", "" if manifest.seed is None else str(manifest.seed)),
        ("started", manifest.started_utc or ""),
        ("judged by", _oracles(verdict)),
        ("seal", seal[verdict.sealed]),
        ("redacted", REDACTED if verdict.redacted is True else ""),
        ("trace", f"sha256:{manifest.trace_sha256}" if manifest.trace_sha256 else ""),
    ]
    return [(name, value) for name, value in found if value]


def _oracles(verdict: Verdict) -> str:
    if verdict.modelled is not None:
        return oracles_line(verdict.modelled)
    return "SQL and the model" if "model" in verdict.oracles else "SQL"


def headlines(verdict: Verdict) -> list[str]:
    """What to read first: causes, then known defects; of an ``UNKNOWN`` run its reasons."""
    causes = [cause.message for cause in first_read(verdict.causes)]
    defects = [
        f"{total:,} finding{'' if total == 1 else 's'} of {name}, a known defect of Spark{_in_brackets(name)}"
        f"{', accepted' if name in verdict.accepted_total else ''}"
        for name, total in verdict.defects_total.items()
    ]
    if verdict.verdict == "UNKNOWN":
        return [*(f"inconclusive because {reason}" for reason in verdict.inconclusive), *defects]
    return [*causes, *defects]


def _in_brackets(name: str) -> str:
    return f" ({ticket})" if (ticket := _ticket(name)) else ""


def _ticket(name: str) -> str:
    """The ticket of a defect; empty if there is none."""
    defect = BY_NAME.get(name)
    return defect.ticket or "" if defect is not None else ""


def _new(verdict: Verdict) -> list[FindingGroup]:
    messages = {cause.property: cause.message for cause in first_read(verdict.causes)}
    names = dict.fromkeys([*messages, *verdict.unexplained_total])
    found = []
    for name in names:
        if not (total := verdict.unexplained_total.get(name, 0)):
            continue
        examples = [one for one in verdict.findings if one.property == name and one.defect is None]
        smallest, others = _parted(examples)
        note = property_notes().get(name, PropertyNote())
        said = messages.get(name, "")
        if smallest is not None and said == smallest.message:
            said = ""  # a single finding is its own cause
        found.append(FindingGroup(name, total, said, smallest, others, len(examples), note))
    return found


def _known(verdict: Verdict) -> list[FindingGroup]:
    found = []
    for name, total in verdict.defects_total.items():
        examples = [one for one in verdict.findings if one.defect == name]
        smallest, others = _parted(examples)
        found.append(
            FindingGroup(
                name,
                total,
                verdict.known_defects.get(name, ""),
                smallest,
                others,
                len(examples),
                PropertyNote(),
                properties=list(dict.fromkeys(one.property for one in examples)),
                ticket=_ticket(name),
                accepted=name in verdict.accepted_total,
            )
        )
    return found


def _parted(examples: Sequence[Finding]) -> tuple[Finding | None, list[Finding]]:
    """The smallest example, that of the fewest input records and words, and some of the others."""
    if not examples:
        return None, []
    smallest = min(examples, key=lambda one: (len(one.written), len(one.message)))
    return smallest, [one for one in examples if one is not smallest]


def _goals(verdict: Verdict) -> list[GoalLine]:
    meanings = goal_notes()
    asked = dict.fromkeys(verdict.asked, "required") | dict.fromkeys(verdict.waived, "waived")
    lines = [
        GoalLine(name, meanings.get(name, ""), met=met, asked=asked.get(name, ""))
        for name, met in verdict.goals.items()
    ]
    return sorted(lines, key=lambda line: (line.met or not line.asked, line.asked != "required"))


_MEANT: dict[str, str] = {
    CommitPoint.PLANNED: "the offsets of the batch are logged, and nothing of it is written",
    CommitPoint.HALF_WRITTEN: "some of its rows are written",
    CommitPoint.STATE: "some state stores of a partition have committed it, and others have not",
    CommitPoint.SNAPSHOT: "a snapshot of a state store is being written",
    CommitPoint.FENCED: "a task of the sink has fenced earlier attempts, and not looked up what they wrote",
    CommitPoint.LOOKED_UP: "a task of the sink knows what earlier attempts wrote, and has begun no transaction",
    CommitPoint.BEGUN: "a task of the sink has begun its transaction, and sent nothing in it",
    CommitPoint.ROWS_SENT: "rows of it lie in an open transaction of the sink",
    CommitPoint.ENTRY_SENT: "a ledger entry of it lies in an open transaction of the sink",
    CommitPoint.PARTITION_WRITTEN: "a task of the sink has committed its transaction, and Spark does not know",
    CommitPoint.WRITTEN: "all of its rows are written, and it is not committed",
    CommitPoint.NO_DATA: "it reads no rows, and emits those that the watermark makes due",
    CommitPoint.COMMITTED: "it is committed, and the next batch is not planned",
    CommitPoint.DELETED_COMMIT: "it is committed, and its commit is removed before the next driver starts",
}
"""Where in a batch a fault is injected, for a reader who has not seen the commit points before."""


def injected_line(faults: Sequence[Fault]) -> str:
    """What was injected, and the longest recovery, in a sentence; empty if nothing was."""
    done = Counter(f"{fault.label} at {fault.point}" for fault in faults if fault.injected)
    if not done:
        return ""
    total = done.total()
    kinds = ", ".join(f"{number:,} × {name}" for name, number in done.most_common())
    recoveries = [fault.recovery_s for fault in faults if fault.injected and fault.recovery_s is not None]
    longest = f"; its batch was committed after {max(recoveries):.1f} s" if recoveries else ""
    if len(recoveries) > 1:
        longest = f"; their batches were committed after at most {max(recoveries):.1f} s"
    points = dict.fromkeys(str(fault.point) for fault in faults if fault.injected)
    meant = "; ".join(f"{point}: {_MEANT[point]}" for point in points if point in _MEANT)
    said = f"{total:,} fault{'' if total == 1 else 's'} injected: {kinds}{longest}."
    return f"{said} ({meant}.)" if meant else said


def _fault_line(fault: Fault) -> FaultLine:
    proof = msgspec.json.format(msgspec.json.encode(fault.proof), indent=2).decode() if fault.proof else ""
    return FaultLine(
        label=fault.label if fault.injected else f"{fault.label}: not injected",
        point=str(fault.point),
        batch="" if fault.batch is None else str(fault.batch),
        at_utc=fault.at_utc if fault.injected else "",
        recovery="" if fault.recovery_s is None else f"{fault.recovery_s:.1f} s",
        proof=proof,
    )
