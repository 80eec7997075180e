"""The verdict, and the frame of a judgement: stages that may fail, coverage goals that must be met.

Free of I/O and of any clock. ``judgement`` and ``chain_judgement`` fill the frame with their comparisons.

``INVALID``  at least one finding that is not of an accepted defect of Spark. It outranks everything.
``UNKNOWN``  no such finding, but a coverage goal was not met, or something is inconclusive: a check
             raised, or the evidence does not hold what the checkpoint says was read.
``VALID``    neither. Uncertain is never counted as passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec

from tidemark.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BrokenEvidence, TidemarkError
from tidemark.formats.evidence import Batch
from tidemark.formats.faults import Fault
from tidemark.formats.liveness import HangPhase
from tidemark.formats.manifest import Manifest
from tidemark.formats.run_diagnosis import Diagnosis
from tidemark.oracle.audit_account import AuditAccount
from tidemark.oracle.causes.cause_lines import Cause, Compared, cause_lines, first_read
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.contract_coverage import Exercised
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.demand_check import LivenessEvidence, check_demands, measured
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.model.sample import Sampled
from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS

T = TypeVar("T")
Outcome = Literal["VALID", "INVALID", "UNKNOWN"]
BOTH, ALONE = ("model", "sql"), ("sql",)
ABSENT = ("lost_rows", "missing_nulls")
"""The properties of rows that did not come: of an output that is not complete they are no findings."""
EXIT_CODES = {"VALID": EXIT_VALID, "INVALID": EXIT_INVALID, "UNKNOWN": EXIT_UNKNOWN}


class Verdict(msgspec.Struct, kw_only=True):
    """``verdict.json``. ``findings`` are examples, ``findings_total`` counts all of them by property,
    ``unexplained_total`` those that no known defect explains, ``defects_total`` the others by known defect.

    ``causes`` has a sentence for each property of ``unexplained_total``: how many rows are wrong, and what they have in
    common and right rows have not. It is counted, and decides nothing.

    ``accept`` names the known defects that the contract or the caller accepts, ``accepted_total`` counts the findings
    of those among them that occurred: they are in ``findings``, too, and do not make the run ``INVALID``.

    ``goals`` says for each coverage goal of this kind of join whether it was met, ``asked`` which had to be, ``waived``
    which it would have had to, and did not: the run said so;
    ``sealed``: whether the evidence has a seal, and is as it was sealed (``None``: nobody looked);
    ``known_defects`` explains the known Spark defects that findings name; ``inconclusive`` has the reasons of an
    ``UNKNOWN``; ``oracles`` are those that the output was compared with; ``modelled`` says how much of the input the
    model judged, if not all of it: SQL always judges all; ``spark_account`` is what Spark said of its
    state and of itself; ``audit``, of a query that somebody else started, what could be judged; ``diagnosis`` is there
    if a cause was looked for at the end of an ``INVALID`` run (it decides nothing); ``redacted`` is there, and true, if
    the evidence has pseudonyms for ids and keys, and no other values.
    """

    verdict: Outcome
    delivery: str
    pipeline: str
    kind: str
    findings: list[Finding]
    findings_total: dict[str, int]
    unexplained_total: dict[str, int]
    defects_total: dict[str, int]
    known_defects: dict[str, str]
    counts: dict[str, int]
    goals: dict[str, bool]
    asked: list[str]
    inconclusive: list[str]
    spark_account: SparkAccount | None = None
    oracles: list[str] = msgspec.field(default_factory=lambda: list(BOTH))
    modelled: Sampled | None = None
    waived: list[str] = []
    sealed: bool | None = None
    accept: list[str] = []
    accepted_total: dict[str, int] = {}
    causes: list[Cause] = []
    audit: AuditAccount | msgspec.UnsetType = msgspec.UNSET
    diagnosis: Diagnosis | msgspec.UnsetType = msgspec.UNSET
    redacted: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.verdict]

    @property
    def cause(self) -> str:
        """The one sentence to read first about what is wrong; empty if no finding is new."""
        return next((one.message for one in first_read(self.causes)), "")

    @property
    def diagnosed(self) -> list[str]:
        """What the diagnosis says below the verdict, in sentences; empty if there is none."""
        return self.diagnosis.brief() if isinstance(self.diagnosis, Diagnosis) else []

    @property
    def new_findings(self) -> list[Finding]:
        """The findings that no known defect of Spark explains: examples, all counted in ``unexplained_total``."""
        return [finding for finding in self.findings if finding.defect is None]


@contextmanager
def readable_evidence() -> Iterator[None]:
    """Turn what a reader of evidence raises into a ``BrokenEvidence``."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise BrokenEvidence(
            "the evidence cannot be read",
            detail=f"{type(error).__name__}: {error}",
            hint="the docstring of tidemark/formats/evidence.py describes each file",
        ) from error


class Judgement:
    """The stages of one judgement; a stage that raises is inconclusive, and those that need it are not run."""

    pipeline: str
    kind: str
    oracles: Sequence[str] = BOTH
    modelled: Sampled | None = None

    def __init__(self, manifest: Manifest, accept: Sequence[str], inconclusive: Sequence[str]) -> None:
        self.manifest = manifest
        self.accept = accept
        self.finding_log = FindingLog()
        self.inconclusive = list(inconclusive)
        self._causes: list[Cause] | None = None
        for difference in manifest.plan_differs:
            message = f"contract and plan differ in {difference}"
            self.finding_log.add(Finding(property="plan_differs", message=message))
        if manifest.hang is not None:
            self.inconclusive.append(manifest.hang.said())

    def stage(self, name: str, work: Callable[[], T]) -> T | None:
        """Do a part of the judgement; what it raises makes the verdict inconclusive; broken evidence is raised."""
        try:
            return work()
        except TidemarkError:
            raise
        except Exception as error:  # noqa: BLE001 (a check that raises gives UNKNOWN, never a lost run)
            self.inconclusive.append(f"{name} could not be judged: {type(error).__name__}: {error}")
            return None

    def explain(self, compared: Callable[[], Compared]) -> None:
        """Find what wrong rows have in common; to be called once all findings are there."""
        self._withdraw_absent()
        if self.finding_log.unexplained():
            self._causes = self.stage("causes", lambda: cause_lines(self.finding_log, compared()))

    def _withdraw_absent(self) -> None:
        """Rows that did not come may be behind the end of an output that was not read to its end."""
        hang = self.manifest.hang
        if hang is None or hang.phase is not HangPhase.DRAIN:
            return
        if many := self.finding_log.withdraw(ABSENT):
            self.inconclusive.append(
                f"{many:,} rows that committed batches owed are not in the output as far as it was read:"
                " they may come after its end"
            )

    def check_gaps(self, gaps: Sequence[tuple[int, str]]) -> None:
        """A gap in the batches ends the comparison, and is a finding."""
        for batch, gap in gaps:
            message = f"{gap}; nothing is compared from there on"
            self.finding_log.add(Finding(property="missing_batches", message=message, batch=batch))

    def check_liveness(
        self, batches: Sequence[Batch], faults: Sequence[Fault], progress: Sequence[Mapping[str, Any]]
    ) -> dict[str, int]:
        """What was demanded in time; returns the counts of what was measured."""
        hang = self.manifest.hang
        owing = hang if hang is not None and hang.owes_batches else None
        about = LivenessEvidence(batches, faults, progress, owing)
        demands = self.manifest.demands
        if demands is not None:
            not_judged = self.stage(
                "what was demanded", lambda: check_demands(demands, about, self.finding_log)
            )
            self.inconclusive += not_judged or []
        return self.stage("times of batches", lambda: measured(about)) or {}

    def conclude(
        self,
        counts: dict[str, int],
        asked: Sequence[str],
        reached: Mapping[str, Exercised],
        spark_account: SparkAccount | None = None,
    ) -> Verdict:
        """The verdict of what was found; a coverage goal that is asked, not reached and not waived is inconclusive."""
        self._withdraw_absent()
        may_miss = [name for name in self.manifest.waived if name in WAIVABLE]
        missed = [name for name in asked if not (name in reached and reached[name].met)]
        self.inconclusive += [_not_met(name, reached) for name in missed if name not in may_miss]
        return Verdict(
            verdict=conclude(self.finding_log, self.inconclusive, self.accept),
            delivery=str(self.manifest.delivery),
            pipeline=self.pipeline,
            kind=self.kind,
            findings=self.finding_log.findings(),
            findings_total=self.finding_log.totals(),
            unexplained_total=self.finding_log.unexplained(),
            defects_total=dict(self.finding_log.defects),
            known_defects={name: KNOWN_DEFECTS[name] for name in self.finding_log.defects},
            counts=counts,
            goals={name: goal.met for name, goal in reached.items()},
            asked=[name for name in asked if name not in may_miss],
            waived=[name for name in missed if name in may_miss],
            inconclusive=self.inconclusive,
            spark_account=spark_account,
            oracles=list(self.oracles),
            modelled=self.modelled,
            accept=list(self.accept),
            accepted_total=accepted(self.finding_log, self.accept),
            causes=self._causes or cause_lines(self.finding_log),
            redacted=msgspec.UNSET if self.manifest.redacted is None else True,
        )


def accepted(findings: FindingLog, accept: Sequence[str]) -> dict[str, int]:
    """How many findings there are of each accepted defect that occurred."""
    return {name: findings.defects[name] for name in accept if findings.defects[name]}


def conclude(findings: FindingLog, inconclusive: Sequence[str], accept: Sequence[str]) -> Outcome:
    """``INVALID`` outranks ``UNKNOWN``; findings of accepted defects are neither."""
    if sum(findings.totals().values()) > sum(accepted(findings, accept).values()):
        return "INVALID"
    return "UNKNOWN" if inconclusive else "VALID"


def _not_met(name: str, reached: Mapping[str, Exercised]) -> str:
    if reached and name not in reached:
        return f"the coverage goal {name!r} is required, which is none of: {', '.join(reached)}"
    missing = f": {reached[name].missing}" if name in reached and reached[name].missing else ""
    return f"the coverage goal {name!r} is required and was not met{missing}"
