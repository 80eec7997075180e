"""The judgement of one run: oracles, comparisons and coverage goals, put together.

Free of I/O and of any clock. ``judge`` takes evidence and returns a verdict (``tidemark.oracle.verdict``).

Three answers are compared: what SQL gives (``sql``), what Spark's rules give (``model``; beyond a size for a sample of
keys), and what was observed: the output, and Spark's own account of state and metrics. A disagreement between two of
them is a finding. Of a large run SQL says which keys are right; the others, and a sample, are compared (``large``). All
follow the rules of the Spark that ran (``spark.spark_versions``).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidemark.formats.consistency import told_otherwise
from tidemark.oracle import coverage as goals
from tidemark.oracle.causes.cause_lines import Compared
from tidemark.oracle.causes.row_facts import RowFacts
from tidemark.oracle.causes.state_causes import state_cause
from tidemark.oracle.causes.watermark_causes import watermark_cause
from tidemark.oracle.compare.explanations import if_it_never_came
from tidemark.oracle.compare.join_comparison import Defects, JoinComparison, Seen
from tidemark.oracle.compare.spark_account import SparkAccount, check_spark_account, inconclusive
from tidemark.oracle.compare.unread_records import UnreadRecords
from tidemark.oracle.delivery import deaths_alone, resent
from tidemark.oracle.expectation import defects_of, prediction_of
from tidemark.oracle.input.history import Evidence, History, read_history
from tidemark.oracle.large.duckdb_engine import duckdb_engine
from tidemark.oracle.large.engine import OpenEngine
from tidemark.oracle.large.reduction import reduced
from tidemark.oracle.model.join_replay import replay
from tidemark.oracle.model.sample import choose
from tidemark.oracle.oracle_comparison import OracleComparison
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.run_counts import tally
from tidemark.oracle.spark.known_defects import known
from tidemark.oracle.spark.spark_versions import not_compared
from tidemark.oracle.sql.join_answer import ask
from tidemark.oracle.verdict import Judgement, Verdict, readable_evidence
from tidemark.oracle.watermark_check import check_watermarks


def judge(run: Evidence, accept: Sequence[str] = (), *, engine: OpenEngine = duckdb_engine) -> Verdict:
    """Judge a run; ``accept`` names known defects besides those that the contract accepts.

    ``engine`` reduces a large run. Raises ``TidemarkError``: for evidence that cannot be read, for a name that is no
    known defect, and for what the engine lacks.
    """
    with _uncollected():
        with readable_evidence():
            part = reduced(run, opened=engine)
            history = read_history(run) if part is None else read_history(part, part.rest)
        return _JoinJudgement(history, known((*history.contract.accept, *accept))).judge(part or run)


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


class _JoinJudgement(Judgement):
    """The judgement of a run of one join."""

    def __init__(self, history: History, accept: Sequence[str]) -> None:
        super().__init__(
            history.manifest,
            accept,
            [
                *inconclusive(history.manifest),
                *goals.waived_in_vain(history.manifest.waived),
                *filter(None, [not_compared(history.manifest.versions)]),
            ],
        )
        self.history = history
        self._watermarks_ms: Sequence[int] = ()
        self.pipeline, self.kind = history.contract.name, str(history.contract.kind)

    def judge(self, run: Evidence) -> Verdict:
        history, faults = self.history, list(run.faults())
        self.check_gaps(history.gaps)
        progress = run.progress()
        self.inconclusive += told_otherwise(history.manifest, run.batches(), progress)
        times = self.check_liveness(run.batches(), faults, progress)
        counts: dict[str, int] = {}
        reached: goals.Goals = {}
        asked = goals.asked(history, faults)
        spark_account: SparkAccount | None = None
        expected = self.expectation()
        if expected is not None:
            prediction, defects = expected
            copies = self.stage("copies", lambda: resent(history.manifest, faults, run.output()))
            history.resent = copies or frozenset()
            history.deaths = deaths_alone(faults)
            unread = UnreadRecords(history, run.inputs)
            comparison = JoinComparison(history, prediction, defects, self.finding_log, unread)
            seen = self.stage("the output", lambda: comparison.run(run.output())) or Seen()
            if history.rest is not None:
                seen.permitted.update(history.rest.permitted)
                self.inconclusive += history.rest.notes
            spark_account = self.stage(
                "Spark's state",
                lambda: check_spark_account(history, prediction, run, progress, self.finding_log),
            )
            counts = self.stage("the counts", lambda: tally(history, prediction, seen, faults)) or {}
            if counts:
                found = self.stage(
                    "the coverage goals",
                    lambda: goals.reached(history, prediction, counts, faults, seen),
                )
                reached = found or {}
            self.explain(lambda: self._compared(run, prediction, seen))
        self.inconclusive += history.inconclusive
        return self.conclude({**counts, **times}, asked, reached, spark_account)

    def _compared(self, run: Evidence, prediction: Prediction, seen: Seen) -> Compared:
        """What wrong rows are compared with for their cause."""
        history, batch_of = self.history, prediction.batch_of
        of_trace = [identity for identity in batch_of if not history.is_of_sentinel(identity)]
        owed = Counter(
            if_it_never_came(identity, history.contract.kind)
            for identity in of_trace
            if history.rest is None and history.batches[batch_of[identity]].plan.committed
        )
        came = [(identity, batch_of[identity]) for identity in of_trace if seen.came(identity)]
        return Compared(RowFacts(history, prediction, run.inputs()), came, owed, self._explained(run))

    def _explained(self, run: Evidence) -> dict[str, str]:
        """What the watermarks and the state say of the query, if they are wrong."""
        wrong, found = self.finding_log.unexplained(), {}
        if "wrong_watermarks" in wrong:
            found["wrong_watermarks"] = watermark_cause(self.history, self._watermarks_ms)
        of_state = [name for name in ("lost_state", "leaked_state") if name in wrong]
        if of_state:
            found[of_state[0]] = state_cause(self.history, run.state() or ())
        return found

    def expectation(self) -> tuple[Prediction, Defects] | None:
        """What had to come out, and what known defects change in it."""
        history = self.history
        answer = self.stage("the SQL oracle", lambda: ask(history))
        if answer is None:
            return None
        found = self.stage("the model", lambda: replay(history, choose(history)))
        watermarks_ms = answer.watermarks_ms
        if found is not None:
            # Where Spark had a choice, the model knows each watermark that rows can give, SQL the range of them.
            self.modelled, watermarks_ms = found.sample.about, found.watermarks_ms
            comparison = OracleComparison(history, answer, found, self.finding_log)
            self.stage("the oracles", comparison.run)
        self._watermarks_ms = watermarks_ms
        plans = [batch.plan for batch in history.batches]
        inputs, policy = (history.contract.left, history.contract.right), history.contract.policy
        self.stage(
            "watermarks", lambda: check_watermarks(plans, watermarks_ms, inputs, policy, self.finding_log)
        )
        return prediction_of(history, answer), defects_of(answer)
