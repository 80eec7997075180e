"""What Spark reports of each stateful operator of a chain, compared with what the model of the chain counts.

Free of I/O. A report is compared if its batch was run once and none of its tasks failed, for a task that is run again
counts its rows again. Of every operator it is known how many rows its state took, lost and kept, and how many rows
were late for it. What these are is in ``tidemark.oracle.model.operators``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.oracle.compare.chain_comparison import Predicted
from tidemark.oracle.compare.operator_states import in_best_order
from tidemark.oracle.compare.spark_account import METRICS, SparkAccount
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.model.operators import Counts
from tidemark.oracle.spark.spark_versions import minor_version

Report = Mapping[str, Any]


@dataclass
class ComparedMetrics:
    """What came of a comparison: what is wrong, of which metrics there is none, and the batches that were compared.

    ``others`` says of which batches Spark reports other operators than the chain has.
    """

    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    batches: int = 0


class ChainMetrics:
    """Compares the reports of all operators; ``inconclusive`` says of which something is missing.

    A query may have the sides of a join exchanged, which does not change its rows: the order of the operators is taken
    in which least is wrong.
    """

    def __init__(
        self, history: ChainHistory, predicted: Predicted, account: SparkAccount, finding_log: FindingLog
    ) -> None:
        self._history = history
        self._predicted = predicted
        self._finding_log = finding_log
        self.inconclusive: list[str] = []
        self.account = account

    def run(self, progress: Iterable[Report]) -> None:
        """Compare; what is wrong goes into the finding log."""
        reports = {int(one["batchId"]): one.get("stateOperators") or () for one in progress}
        if not any(reports.values()):
            self.account.notes.append(
                "there is no progress report of an operator with a state: its metrics were not compared"
            )
            return
        best = in_best_order(
            self._predicted.model.chain.last,
            lambda order: self._compared(reports, [number for number, _ in order]),
            lambda one: (len(one.others), len(one.findings), not one.batches),
        )
        for finding in best.findings:
            self._finding_log.add(finding)
        self.account.metric_batches += best.batches
        self.inconclusive += best.missing
        # Where no report fits, the plan is one that is not described; where one does not, something is missing in it.
        (self.inconclusive if best.batches else self.account.notes).extend(best.others[:1])

    def _compared(self, reports: Mapping[int, Sequence[Report]], order: Sequence[int]) -> ComparedMetrics:
        compared = ComparedMetrics()
        for batch, counts in zip(self._history.batches, self._predicted.counts, strict=True):
            plan, counted = batch.plan, [counts[number] for number in order]
            operators = reports.get(plan.batch)
            if operators is None or not plan.committed:
                continue
            names, wanted = [str(one.get("operatorName")) for one in operators], [name for name, _ in counted]
            if names != wanted:
                compared.others.append(
                    f"the metrics of batch {plan.batch} were not compared: Spark reports the operators"
                    f" {', '.join(names) or 'none'}, the chain has {', '.join(wanted)}"
                )
            elif plan.runs == 1 and not plan.failed_tasks:
                compared.batches += 1
                self._compare(plan.batch, operators, counted, compared)
        return compared

    def _compare(
        self,
        batch: int,
        operators: Sequence[Report],
        counted: Sequence[tuple[str, Counts]],
        compared: ComparedMetrics,
    ) -> None:
        is_known = minor_version(self._history.manifest.versions.get("spark", "")) is not None
        for place, (report, (name, counts)) in enumerate(zip(operators, counted, strict=True), 1):
            for metric, count in zip(METRICS, counts, strict=True):
                reported = report.get(metric)
                if reported is None:
                    compared.missing.append(f"Spark's report of batch {batch} has no {metric} of {name}")
                elif count not in (None, reported) and (is_known or metric != "numRowsRemoved"):
                    message = (
                        f"Spark reports {reported:,} {METRICS[metric]} in batch {batch} ({metric} of {name}, operator"
                        f" {place} of the report); its own rules give {count:,}"
                    )
                    compared.findings.append(Finding(property="wrong_metrics", message=message, batch=batch))
