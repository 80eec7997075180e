"""The judgement of one run: oracles, comparisons and coverage goals, put together.

Free of I/O and of any clock. ``judge`` takes evidence and returns a verdict:

``INVALID``  at least one finding that is not of an accepted defect of Spark. It outranks everything.
``UNKNOWN``  no such finding, but a coverage goal was not met, or something is inconclusive: a check
             raised, or the evidence does not hold what the checkpoint says was read.
``VALID``    neither. Uncertain is never counted as passed.

Three answers are compared: what Spark's rules give (``model``), what SQL gives
(``sql``), and what was observed: the output, and Spark's own account of state and metrics. A
disagreement between two of them is a finding. A Spark before 4.2, whose own rules are not modelled, is judged by SQL
and its output alone (``answer``).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

import msgspec

from tidemark.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BrokenEvidence, TidemarkError
from tidemark.oracle import coverage as goals
from tidemark.oracle.compare.join_comparison import Defects, JoinComparison, Seen
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.compare.spark_account import SparkAccount, check_spark_account, inconclusive
from tidemark.oracle.compare.wording import Wording
from tidemark.oracle.delivery import resent
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import Evidence, History, read_history
from tidemark.oracle.model.join_replay import Prediction, predict
from tidemark.oracle.run_counts import tally
from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS, is_modelled, known
from tidemark.oracle.sql.join_answer import defect_that_adds, defect_that_loses, differences, right_answer
from tidemark.oracle.sql.unmodelled import expect
from tidemark.oracle.watermark_check import check_watermarks

T = TypeVar("T")
Outcome = Literal["VALID", "INVALID", "UNKNOWN"]
BOTH, ALONE = ("operational", "declarative"), ("declarative",)
EXIT_CODES = {"VALID": EXIT_VALID, "INVALID": EXIT_INVALID, "UNKNOWN": EXIT_UNKNOWN}


class Verdict(msgspec.Struct, kw_only=True):
    """``verdict.json``. ``findings`` are examples, ``findings_total`` counts all of them by property,
    ``unexplained_total`` those that no known defect explains, ``defects_total`` the others by known defect.

    ``accept`` names the known defects that the contract or the caller accepts, ``accepted_total`` counts the findings
    of those among them that occurred: they are in ``findings``, too, and do not make the run ``INVALID``.

    ``goals`` says for each coverage goal of this kind of join whether it was met, ``asked`` which had to be;
    ``known_defects`` explains the known Spark defects that findings name; ``inconclusive`` has the reasons of an
    ``UNKNOWN``; ``oracles`` are those that the output was compared with; ``spark_account`` is what Spark said of its
    state and of itself.
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
    accept: list[str] = []
    accepted_total: dict[str, int] = {}

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.verdict]

    @property
    def new_findings(self) -> list[Finding]:
        """The findings that no known defect of Spark explains: examples, all counted in ``unexplained_total``."""
        return [finding for finding in self.findings if finding.defect is None]


def judge(run: Evidence, accept: Sequence[str] = ()) -> Verdict:
    """Judge a run; ``accept`` names known defects besides those that the contract accepts.

    Raises ``TidemarkError``: for evidence that cannot be read, and for a name that is no known defect.
    """
    with _uncollected():
        try:
            history = read_history(run)
        except (ValueError, TypeError) as error:
            raise BrokenEvidence(
                "the evidence cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="the docstring of tidemark/formats/evidence.py describes each file",
            ) from error
        return _Judgement(history, known((*history.contract.accept, *accept))).judge(run)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector: a judgement makes no cycles, and millions of objects for it to walk in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Judgement:
    """The stages of one judgement; a stage that raises is inconclusive, and those that need it are not run."""

    def __init__(self, history: History, accept: Sequence[str]) -> None:
        self.history = history
        self.accept = accept
        self.finding_log = FindingLog()
        self.inconclusive = [*history.inconclusive, *inconclusive(history)]
        self.oracles = BOTH if is_modelled(history.manifest.versions) else ALONE

    def judge(self, run: Evidence) -> Verdict:
        history, faults = self.history, list(run.faults())
        for batch, gap in history.gaps:
            message = f"{gap}; nothing is compared from there on"
            self.finding_log.add(Finding(property="missing_batches", message=message, batch=batch))
        counts: dict[str, int] = {}
        reached: dict[str, bool] = {}
        asked = goals.asked(history, faults)
        spark_account: SparkAccount | None = None
        expected = self.expectation(run)
        if expected is not None:
            prediction, defects = expected
            copies = self.stage("copies", lambda: resent(history.manifest, faults, run.output()))
            history.resent = copies or frozenset()
            comparison = JoinComparison(history, prediction, defects, self.finding_log)
            seen = self.stage("the output", lambda: comparison.run(run.output())) or Seen()
            spark_account = self.stage(
                "Spark's state", lambda: check_spark_account(history, prediction, run, self.finding_log)
            )
            counts = self.stage("the counts", lambda: tally(history, prediction, seen, faults)) or {}
            if counts:
                found = self.stage(
                    "the coverage goals",
                    lambda: goals.reached(history, prediction, counts, faults, seen.permitted),
                )
                reached = found or {}
        self.inconclusive += [_not_met(name, reached) for name in asked if not reached.get(name)]
        return Verdict(
            verdict=conclude(self.finding_log, self.inconclusive, self.accept),
            delivery=str(history.manifest.delivery),
            pipeline=history.contract.name,
            kind=str(history.contract.kind),
            findings=self.finding_log.findings(),
            findings_total=self.finding_log.totals(),
            unexplained_total=self.finding_log.unexplained(),
            defects_total=dict(self.finding_log.defects),
            known_defects={name: KNOWN_DEFECTS[name] for name in self.finding_log.defects},
            counts=counts,
            goals=reached,
            asked=asked,
            inconclusive=self.inconclusive,
            spark_account=spark_account,
            oracles=list(self.oracles),
            accept=list(self.accept),
            accepted_total=accepted(self.finding_log, self.accept),
        )

    def expectation(self, run: Evidence) -> tuple[Prediction, Defects] | None:
        """What had to come out, and what known defects change in it."""
        history = self.history
        if self.oracles == ALONE:
            return self.stage("the declarative answer", lambda: expect(history, run.output()))
        prediction = self.stage("Spark's rules", lambda: predict(history))
        if prediction is None:
            return None
        self.stage("watermarks", lambda: check_watermarks(history, prediction, self.finding_log))
        defects = self.stage("the declarative answer", lambda: self.compare_oracles(prediction))
        return prediction, defects or Defects()

    def stage(self, name: str, work: Callable[[], T]) -> T | None:
        """Do a part of the judgement; what it raises makes the verdict inconclusive; broken evidence is raised."""
        try:
            return work()
        except TidemarkError:
            raise
        except Exception as error:  # noqa: BLE001 (a check that raises gives UNKNOWN, never a lost run)
            self.inconclusive.append(f"{name} could not be judged: {type(error).__name__}: {error}")
            return None

    def compare_oracles(self, prediction: Prediction) -> Defects:
        """What known defects of Spark change; any other difference becomes a finding."""
        history = self.history
        partners, words = Partners(history), Wording(history, prediction)
        defects = Defects()
        more, less = differences(right_answer(history, prediction), prediction.batch_of)
        for identity in more:
            defect = defect_that_loses(history, prediction, partners, identity)
            if defect:
                defects.lost[identity] = defect
            else:
                self.disagree(identity, "SQL gives", "Spark's rules do not", words)
        for identity in less:
            defect = defect_that_adds(history, prediction, partners, identity)
            if defect:
                defects.added[identity] = defect
            else:
                self.disagree(identity, "Spark's rules give", "SQL does not", words)
        return defects

    def disagree(self, identity: int, who: str, who_not: str, words: Wording) -> None:
        """Two oracles differ in a row, and no known defect explains it."""
        if self.finding_log.wants("oracles_disagree"):
            message = f"{who} {words.output_row(identity)}, {who_not}"
            self.finding_log.add(words.finding("oracles_disagree", identity, message))
        else:
            self.finding_log.count("oracles_disagree")


def accepted(findings: FindingLog, accept: Sequence[str]) -> dict[str, int]:
    """How many findings there are of each accepted defect that occurred."""
    return {name: findings.defects[name] for name in accept if findings.defects[name]}


def conclude(findings: FindingLog, inconclusive: Sequence[str], accept: Sequence[str]) -> Outcome:
    """``INVALID`` outranks ``UNKNOWN``; findings of accepted defects are neither."""
    if sum(findings.totals().values()) > sum(accepted(findings, accept).values()):
        return "INVALID"
    return "UNKNOWN" if inconclusive else "VALID"


def _not_met(name: str, reached: dict[str, bool]) -> str:
    if reached and name not in reached:
        return f"the coverage goal {name!r} is required, which is none of: {', '.join(reached)}"
    return f"the coverage goal {name!r} is required and was not met"
