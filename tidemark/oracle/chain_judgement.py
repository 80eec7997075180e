"""The judgement of a run of a chain: what the rules give, what SQL gives, and what came out, put together.

Free of I/O and of any clock. Output rows do not say
which records they are made of, so they are compared as values, batch by batch.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain as chain_of
from typing import Any

from tidemark.formats import chain
from tidemark.formats.consistency import told_otherwise
from tidemark.formats.contract import JoinKind
from tidemark.formats.events import write_time
from tidemark.formats.manifest import Manifest
from tidemark.oracle import chain_coverage
from tidemark.oracle.causes.cause_lines import Compared
from tidemark.oracle.causes.chain_facts import ChainFacts, deduplicated
from tidemark.oracle.compare.chain_comparison import ChainComparison, DefectRows, Predicted, show
from tidemark.oracle.compare.chain_metrics import ChainMetrics
from tidemark.oracle.compare.operator_states import compare_states
from tidemark.oracle.compare.spark_account import SparkAccount, account_of, inconclusive
from tidemark.oracle.coverage import Goals, waived_in_vain
from tidemark.oracle.delivery import deaths_alone, resent
from tidemark.oracle.findings import Finding
from tidemark.oracle.input.chain_history import ChainHistory, read_history
from tidemark.oracle.input.chain_rows import ChainOutput, Choice, Shape
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import Choose, Rules, first_come
from tidemark.oracle.model.reported_operators import operator_name, reported_machines
from tidemark.oracle.spark.known_defects import (
    FORMAT_4_MISSES_ROWS,
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
    UNUSED_SIDE_HOLDS_THE_WATERMARK,
    has_defect,
    known,
)
from tidemark.oracle.spark.spark_spans import any_has_defect
from tidemark.oracle.spark.spark_versions import SparkRules, not_compared, rules_of_spark
from tidemark.oracle.spark.time_ranges import FIRST_FORMAT_BY_TIME, US_PER_MS
from tidemark.oracle.sql.chain_answer import ChainAnswer, ask_chain
from tidemark.oracle.verdict import Judgement, Verdict, readable_evidence
from tidemark.oracle.watermark_check import check_watermarks

CHAIN_DEFECTS = (LEFT_SEMI_LOSES_SAME_BATCH_ROWS, UNUSED_SIDE_HOLDS_THE_WATERMARK)
"""The known defects that both oracles of a chain have; ``FORMAT_4_MISSES_ROWS`` is the model's alone."""
MOST_TURNS = 8
"""Of so many rows at most, one of which a deduplication kept where nothing shows which, each is tried."""


def rules_of(defects: Collection[str], spark: SparkRules) -> Rules:
    """The model's rules for a Spark with these known defects."""
    waits = spark.waits_for_unread
    return Rules(
        right_first=LEFT_SEMI_LOSES_SAME_BATCH_ROWS in defects,
        drops_sides=not waits or UNUSED_SIDE_HOLDS_THE_WATERMARK in defects,
        waits_for_unread=waits,
        counts_all_removed=spark.counts_all_removed,
    )


def rules_of_run(versions: Mapping[str, str]) -> Rules:
    """The model's rules for the Spark of a run."""
    return rules_of(defects_of_chain(versions), rules_of_spark(versions))


def rules_of_manifest(manifest: Manifest) -> Rules:
    """The model's rules for the Spark of a run and the format of its state."""
    by_time = manifest.state is not None and (manifest.state.format or 0) >= FIRST_FORMAT_BY_TIME
    misses_rows = by_time and any_has_defect(manifest, FORMAT_4_MISSES_ROWS)
    return replace(rules_of_run(manifest.versions), by_time=by_time, misses_rows=misses_rows)


def defects_of_chain(versions: Mapping[str, str]) -> list[str]:
    """The known defects of the Spark of a run, of those that a chain can show."""
    return [name for name in CHAIN_DEFECTS if has_defect(versions, name)]


def judge_chain(run: Evidence, accept: Sequence[str] = ()) -> Verdict:
    """Judge a run of a chain; ``accept`` names known defects besides those that the contract accepts.

    Raises ``TidemarkError``: for evidence that cannot be read, and for a name that is no known defect.
    """
    with readable_evidence():
        history = read_history(run)
        output = ChainOutput(history, run.output())
    return _ChainJudgement(history, output, known((*history.chain.accept, *accept))).judge(run)


class _ChainJudgement(Judgement):
    """The judgement of a run of a chain."""

    kind = "chain"

    def __init__(self, history: ChainHistory, output: ChainOutput, accept: Sequence[str]) -> None:
        super().__init__(
            history.manifest, accept, [*history.inconclusive, *waived_in_vain(history.manifest.waived)]
        )
        self.history = history
        self.pipeline = history.chain.name
        self.output = output
        self.choice = Choice(history, output)
        self.unseen = 0
        self.others: list[Predicted] = []

    def judge(self, run: Evidence) -> Verdict:
        history, faults = self.history, list(run.faults())
        self.check_gaps(history.gaps)
        # What is broken is said, also where nothing is compared with it.
        deque(chain_of(run.executor_assignments(), run.state() or (), run.state_keys() or ()), maxlen=0)
        progress = run.progress()
        self.inconclusive += told_otherwise(history.manifest, run.batches(), progress)
        times = self.check_liveness(run.batches(), faults, progress)
        self.inconclusive += filter(None, [not_compared(history.manifest.versions)])
        self.inconclusive += inconclusive(history.manifest)
        asked = chain_coverage.asked(history, faults)
        counts: dict[str, int] = {}
        reached: Goals = {}
        account: SparkAccount | None = None
        rules = rules_of_manifest(history.manifest)
        predicted = self.stage("the model", lambda: predict(history, rules, self.choice))
        if predicted is not None:
            self.say_unseen(rules)
            plans, described = [batch.plan for batch in history.batches], history.chain
            self.stage(
                "watermarks",
                lambda: check_watermarks(
                    plans, predicted.watermarks_ms, described.sources, described.policy, self.finding_log
                ),
            )
            defects = self.stage("the SQL oracle", lambda: self.compare_oracles(predicted)) or []
            keeps_late = replace(rules, keep_late=True, misses_rows=False)
            without = self.stage("late rows", lambda: predict(history, keeps_late, self.other_choice()))
            copies = self.stage("copies", lambda: resent(history.manifest, faults, run.output()))
            history.resent = copies or frozenset()
            history.deaths = deaths_alone(faults)
            comparison = ChainComparison(history, self.output, predicted, defects, self.finding_log)
            seen = self.stage("the output", lambda: comparison.run(without, self.others)) or Counter[str]()
            if comparison.undetermined:
                self.inconclusive.append(
                    f"{comparison.undetermined:,} times a row is right or not by which of several rows with the same"
                    " key a deduplication kept in a batch before, and nothing shows it"
                )
            self.explain(lambda: self.compared(comparison))
            counts = (
                self.stage("counts", lambda: chain_coverage.tally(history, predicted, seen, faults)) or {}
            )
            if counts:
                reached = self.stage(
                    "the coverage goals",
                    lambda: chain_coverage.reached(history, predicted, counts, faults, comparison.permitted),
                ) or {}  # fmt: skip
            account = self.stage("Spark's account", lambda: self.spark_account(predicted, run, progress))
        return self.conclude({**counts, **times}, asked, reached, account)

    def spark_account(
        self, predicted: Predicted, run: Evidence, progress: Sequence[dict[str, Any]]
    ) -> SparkAccount:
        """States and reports of Spark's operators, compared, unless their rows depend on what nothing shows."""
        account = account_of(self.history.manifest)
        others = [(one.counts, one.states) for one in self.others]
        if self.unseen or any(one != (predicted.counts, predicted.states) for one in others):
            account.notes.append(
                "state and metrics were not compared: which rows were kept is not determined"
            )
            return account
        compare_states(self.history, predicted, run.state(), account, self.finding_log)
        comparison = ChainMetrics(self.history, predicted, account, self.finding_log)
        comparison.run(progress)
        self.inconclusive += comparison.inconclusive[:1]
        return account

    def compared(self, comparison: ChainComparison) -> Compared:
        """What wrong rows are compared with for their cause: those that came as they had to."""
        first = len(comparison.values)
        facts = ChainFacts(
            self.history.chain,
            [*comparison.values, *(one.values for one in comparison.right)],
            deduplicated(self.history),
        )
        came = [(number, one.batch) for number, one in enumerate(comparison.right, first)]
        return Compared(facts, came, {})

    def say_unseen(self, rules: Rules) -> None:
        """Say which choices nothing shows, and predict what would come of each that the last step may have made."""
        self.unseen = self.choice.unseen
        if self.unseen:
            self.inconclusive.append(
                f"{self.unseen} times several rows with the same key but other fields were read by one"
                " batch: which of them a deduplication keeps is not determined, and nothing shows it"
            )
        turns = [self.other_choice(turn) for turn in range(1, min(self.choice.turns, MOST_TURNS))]
        self.others = self.stage(
            "other choices", lambda: [predict(self.history, rules, turn) for turn in turns]
        ) or []  # fmt: skip

    def other_choice(self, turn: int = 0) -> Choice:
        """A choice for another prediction than that which the output is compared with."""
        return Choice(self.history, self.output, turn)

    def compare_oracles(self, predicted: Predicted) -> list[DefectRows]:
        """What known defects of Spark change; a difference between the oracles becomes a finding."""
        versions, rules, found = self.history.manifest.versions, predicted.model.rules, list[DefectRows]()
        ours = predicted
        if rules.misses_rows:  # SQL does not have it: it says what other state formats give
            ours = predict(self.history, replace(rules, misses_rows=False), self.other_choice())
            found.append(DefectRows.between(FORMAT_4_MISSES_ROWS, ours.all(), predicted.all()))
        name = self.possible_defect(ours.model)
        if not self.agree(ours, defects_of_chain(versions)):
            return []
        if name is None:
            return found
        sound = predict(self.history, rules_of((), rules_of_spark(versions)), self.other_choice())
        if self.agree(sound, ()):
            found.append(DefectRows.between(name, sound.all(), ours.all()))
        return found

    def agree(self, predicted: Predicted, defects: Collection[str]) -> bool:
        """Whether SQL gives what the model gives."""
        answer = ask_chain(self.history, predicted.model.choices(), defects)
        differences = list(differences_of(self.history.chain, predicted, answer))
        for message in differences:
            self.finding_log.add(Finding(property="oracles_disagree", message=message))
        return not differences

    def possible_defect(self, model: Model) -> str | None:
        """The known defect that this chain can show in this Spark."""
        if model.silent:
            return UNUSED_SIDE_HOLDS_THE_WATERMARK
        semi = any(
            isinstance(one, chain.Join) and one.kind is JoinKind.LEFT_SEMI for one in self.history.chain.steps
        )
        return LEFT_SEMI_LOSES_SAME_BATCH_ROWS if semi and model.rules.right_first else None


def predict(history: ChainHistory, rules: Rules, choose: Choose = first_come) -> Predicted:
    """Run the model over all batches."""
    model, shape = Model(history.chain, rules, choose), Shape(history.chain)
    predicted, reported = Predicted(model, shape), reported_machines(model)
    info = history.manifest.state
    read = frozenset() if info is None else frozenset(info.batches)
    for number, batch in enumerate(history.batches):
        if isinstance(choose, Choice):
            choose.batch = number
        if batch.plan.restarted:
            model.restart()
        predicted.watermarks_ms.append(model.watermark_ms)
        predicted.rows.append([(shape.of(row), row) for row in model.batch(batch.rows)])
        predicted.counts.append([(operator_name(one.step), one.counts()) for one in reported])
        if batch.plan.batch in read:
            states = [(operator_name(one.step), one.stored()) for one in reported]
            predicted.states[batch.plan.batch] = [
                (name, None if rows is None else list(rows)) for name, rows in states
            ]
    if isinstance(choose, Choice):
        predicted.offered = choose.offered
    return predicted


def differences_of(described: chain.Chain, predicted: Predicted, answer: ChainAnswer) -> Iterator[str]:
    """What the oracles say differently: watermarks, late rows of each step, and the rows of each batch."""
    yield from (f"in Spark's rules {broken}" for broken in answer.broken)
    marks = zip(answer.watermarks_ms, predicted.watermarks_ms, strict=True)
    for batch, (one_ms, other_ms) in enumerate(marks):
        if one_ms != other_ms:
            one, other = (write_time(ms * US_PER_MS) for ms in (one_ms, other_ms))
            yield f"SQL gives batch {batch} the watermark {one}, Spark's rules give {other}"
    for number, (late, machine) in enumerate(zip(answer.late, predicted.model.machines, strict=True), 1):
        if late != (other_late := sum(map(len, machine.late))):
            step = type(machine.step).__name__.lower()
            yield f"SQL gives {late} late rows at step {number} ({step}), Spark's rules give {other_late}"
    for batch, (rows, other_rows) in enumerate(zip(answer.rows, predicted.rows, strict=True)):
        sql, ours = Counter(map(predicted.shape.shorten, rows)), Counter(values for values, _ in other_rows)
        for who, more in (("SQL gives", sql - ours), ("Spark's rules give", ours - sql)):
            for values in more.elements():
                yield f"{who} {show(described, values)} in batch {batch}, the other oracle does not"
