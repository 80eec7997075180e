"""The judgement of a run of a chain: what the rules give, what SQL gives, and what came out, put together.

Free of I/O and of any clock. As ``tidemark.oracle.judgement``, whose words and verdict it uses; output rows do not say
which records they are made of, so they are compared as values, batch by batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from tidemark.errors import BrokenEvidence, TidemarkError
from tidemark.formats import chain
from tidemark.formats.contract import JoinKind
from tidemark.oracle import chain_coverage
from tidemark.oracle.compare.chain_comparison import ChainComparison, DefectRows, Predicted, show
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.delivery import resent
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory, read_history
from tidemark.oracle.input.chain_rows import ChainOutput, Choice, Shape
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.judgement import Verdict, accepted, conclude
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import Choose, Rules, first_come
from tidemark.oracle.spark.known_defects import (
    KNOWN_DEFECTS,
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
    UNUSED_SIDE_HOLDS_THE_WATERMARK,
    has_defect,
    is_modelled,
    known,
)
from tidemark.oracle.sql.chain_answer import ChainAnswer

T = TypeVar("T")
KIND = "chain"
SOUND = Rules(right_first=False, drops_sides=False)
"""Those of a Spark without a known defect."""


def judge_chain(run: Evidence, accept: Sequence[str] = ()) -> Verdict:
    """Judge a run of a chain; ``accept`` names known defects besides those that the contract accepts.

    Raises ``TidemarkError``: for evidence that cannot be read, and for a name that is no known defect.
    """
    try:
        history = read_history(run)
        output = ChainOutput(history, run.output())
    except (ValueError, TypeError) as error:
        raise BrokenEvidence(
            "the evidence cannot be read",
            detail=f"{type(error).__name__}: {error}",
            hint="the docstring of tidemark/formats/evidence.py describes each file",
        ) from error
    return _Judgement(history, output, known((*history.chain.accept, *accept))).judge(run)


def unmodelled(spark: str | None) -> str:
    """Why a run is inconclusive on a Spark that the model was never compared with."""
    return f"the rules of Spark {spark} were not compared with the model of a chain"


class _Judgement:
    """The stages of one judgement; a stage that raises makes the verdict inconclusive."""

    def __init__(self, history: ChainHistory, output: ChainOutput, accept: Sequence[str]) -> None:
        self.history = history
        self.accept = accept
        self.output = output
        self.finding_log = FindingLog()
        self.inconclusive = list(history.inconclusive)
        self.choice = Choice(history, output)

    def judge(self, run: Evidence) -> Verdict:
        history, faults = self.history, list(run.faults())
        self.check_gaps()
        if not is_modelled(history.manifest.versions):
            self.inconclusive.append(unmodelled(history.manifest.versions.get("spark")))
        asked = chain_coverage.asked(history, faults)
        counts: dict[str, int] = {}
        reached: dict[str, bool] = {}
        predicted = self.stage("Spark's rules", lambda: self.predict(self.rules(), self.choice))
        if predicted is not None:
            if self.choice.unseen:
                self.inconclusive.append(
                    f"{self.choice.unseen} times several rows with the same key but other fields were read by one"
                    " batch: which of them a deduplication keeps is not determined, and nothing shows it"
                )
            self.stage("watermarks", lambda: self.check_watermarks(predicted))
            defect = self.stage("the SQL answer", lambda: self.compare_oracles(predicted)) or DefectRows()
            without = self.stage("late rows", lambda: self.predict(Rules(keep_late=True), first_come))
            copies = self.stage("copies", lambda: resent(history.manifest, faults, run.output()))
            history.resent = copies or frozenset()
            comparison = ChainComparison(history, self.output, predicted, defect, self.finding_log)
            seen = self.stage("the output", lambda: comparison.run(without)) or Counter[str]()
            counts = (
                self.stage("counts", lambda: chain_coverage.tally(history, predicted, seen, faults)) or {}
            )
            if counts:
                reached = self.stage(
                    "the coverage goals",
                    lambda: chain_coverage.reached(history, predicted, counts, faults, comparison.permitted),
                ) or {}  # fmt: skip
        missed = [name for name in asked if not reached.get(name)]
        self.inconclusive += [f"the coverage goal {name!r} is required and was not met" for name in missed]
        return Verdict(
            verdict=conclude(self.finding_log, self.inconclusive, self.accept),
            delivery=str(history.manifest.delivery),
            pipeline=history.chain.name,
            kind=KIND,
            findings=self.finding_log.findings(),
            findings_total=self.finding_log.totals(),
            unexplained_total=self.finding_log.unexplained(),
            defects_total=dict(self.finding_log.defects),
            known_defects={name: KNOWN_DEFECTS[name] for name in self.finding_log.defects},
            counts=counts,
            goals=reached,
            asked=asked,
            inconclusive=self.inconclusive,
            accept=list(self.accept),
            accepted_total=accepted(self.finding_log, self.accept),
        )

    def stage(self, name: str, work: Callable[[], T]) -> T | None:
        """Do a part of the judgement; what it raises makes the verdict inconclusive; broken evidence is raised."""
        try:
            return work()
        except TidemarkError:
            raise
        except Exception as error:  # noqa: BLE001 (a check that raises gives UNKNOWN, never a lost run)
            self.inconclusive.append(f"{name} could not be judged: {type(error).__name__}: {error}")
            return None

    def rules(self) -> Rules:
        """Those of the Spark that ran."""
        versions = self.history.manifest.versions
        return Rules(
            right_first=has_defect(versions, LEFT_SEMI_LOSES_SAME_BATCH_ROWS),
            drops_sides=has_defect(versions, UNUSED_SIDE_HOLDS_THE_WATERMARK),
        )

    def predict(self, rules: Rules, choose: Choose) -> Predicted:
        """Run the model over all batches."""
        model, shape = Model(self.history.chain, rules, choose), Shape(self.history.chain)
        predicted = Predicted(model, shape)
        for number, batch in enumerate(self.history.batches):
            self.choice.batch = number
            if batch.plan.restarted:
                model.restart()
            predicted.watermarks_ms.append(model.watermark_ms)
            predicted.rows.append([(shape.of(row), row) for row in model.batch(batch.rows)])
        return predicted

    def check_gaps(self) -> None:
        """A gap in the batches ends the comparison, and is a finding."""
        for batch, gap in self.history.gaps:
            message = f"{gap}; nothing is compared from there on"
            self.finding_log.add(Finding(property="missing_batches", message=message, batch=batch))

    def check_watermarks(self, predicted: Predicted) -> None:
        """Compare the watermarks in the checkpoint with those that the input gives."""
        plans = [batch.plan for batch in self.history.batches]
        wrong = [plan for plan in plans if plan.watermark_ms != predicted.watermarks_ms[plan.batch]]
        if not wrong:
            return
        first = wrong[0]
        delays = ", ".join(
            f"{source.watermark_delay_ms} ms on {source.topic}"
            for source in self.history.chain.sources
            if source.watermark_delay_ms is not None
        )
        message = (
            f"batch {first.batch} ran with the eviction watermark {moment(first.watermark_ms)}, but the input before"
            f" it, with delays of {delays} under the policy {self.history.chain.policy}, gives"
            f" {moment(predicted.watermarks_ms[first.batch])}; {len(wrong)} of {len(plans)} batches differ, and rows"
            " are judged by the watermarks that the input gives"
        )
        self.finding_log.add(Finding(property="wrong_watermarks", message=message, batch=first.batch))

    def compare_oracles(self, predicted: Predicted) -> DefectRows:
        """What a known defect of Spark changes; any other difference becomes a finding."""
        sources = range(len(self.history.chain.sources))
        given = [[row for batch in self.history.batches for row in batch.rows[source]] for source in sources]
        oracle_name = ChainAnswer(predicted.model, given)
        sql, ours = Counter(map(predicted.shape.shorten, oracle_name.rows().elements())), predicted.all()
        for broken in oracle_name.broken:
            self.finding_log.add(Finding(property="oracles_disagree", message=f"in Spark's rules {broken}"))
        holds_back = predicted.model.silent > 0  # then SQL, too, goes by a watermark that is held back
        if sql == ours and not holds_back:
            return DefectRows()
        name = self.possible_defect(predicted.model)
        if name is not None:
            sound = self.predict(SOUND, first_come)
            right = Counter(map(predicted.shape.shorten, ChainAnswer(sound.model, given).rows().elements()))
            if right == sound.all() and (right == sql or holds_back):
                return DefectRows(name, lost=right - ours, added=ours - right)
        for values, who in [(one, "SQL gives") for one in (sql - ours).elements()] + [
            (one, "Spark's rules give") for one in (ours - sql).elements()
        ]:
            message = f"{who} {show(self.history.chain, values)}, the other oracle does not"
            self.finding_log.add(Finding(property="oracles_disagree", message=message))
        return DefectRows()

    def possible_defect(self, model: Model) -> str | None:
        """The known defect that this chain can show in this Spark."""
        if model.silent:
            return UNUSED_SIDE_HOLDS_THE_WATERMARK
        semi = any(
            isinstance(one, chain.Join) and one.kind is JoinKind.LEFT_SEMI for one in self.history.chain.steps
        )
        return LEFT_SEMI_LOSES_SAME_BATCH_ROWS if semi and model.rules.right_first else None
