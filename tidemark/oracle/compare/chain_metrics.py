"""What Spark reports of each stateful operator of a chain, compared with what the model of the chain counts.

Free of I/O. A report is compared if its batch was run once and none of its tasks failed, for a task that is run again
counts its rows again. Of every operator it is known how many rows its state took, lost and kept, and how many rows
were late for it. What these are is in ``tidemark.oracle.model.operators``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidemark.oracle.compare.chain_comparison import Predicted
from tidemark.oracle.compare.spark_account import METRICS, SparkAccount
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.model.operators import Counts
from tidemark.oracle.spark.spark_versions import minor_version

Report = Mapping[str, Any]


class ChainMetrics:
    """Compares the reports of all operators; ``inconclusive`` says of which something is missing."""

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
        others = []
        for batch, counted in zip(self._history.batches, self._predicted.counts, strict=True):
            plan = batch.plan
            operators = reports.get(plan.batch)
            if operators is None or not plan.committed:
                continue
            names, wanted = [str(one.get("operatorName")) for one in operators], [name for name, _ in counted]
            if names != wanted:
                others.append(
                    f"the metrics of batch {plan.batch} were not compared: Spark reports the operators"
                    f" {', '.join(names) or 'none'}, the chain has {', '.join(wanted)}"
                )
            elif plan.runs == 1 and not plan.failed_tasks:
                self.account.metric_batches += 1
                self._compare(plan.batch, operators, counted)
        # Where no report fits, the plan is one that is not described; where one does not, something is missing in it.
        (self.inconclusive if self.account.metric_batches else self.account.notes).extend(others[:1])

    def _compare(
        self, batch: int, operators: Sequence[Report], counted: Sequence[tuple[str, Counts]]
    ) -> None:
        is_known = minor_version(self._history.manifest.versions.get("spark", "")) is not None
        for place, (report, (name, counts)) in enumerate(zip(operators, counted, strict=True), 1):
            for metric, count in zip(METRICS, counts, strict=True):
                reported = report.get(metric)
                if reported is None:
                    self.inconclusive.append(f"Spark's report of batch {batch} has no {metric} of {name}")
                elif count not in (None, reported) and (is_known or metric != "numRowsRemoved"):
                    message = (
                        f"Spark reports {reported:,} {METRICS[metric]} in batch {batch} ({metric} of {name}, operator"
                        f" {place} of the report); its own rules give {count:,}"
                    )
                    self._finding_log.add(Finding(property="wrong_metrics", message=message, batch=batch))
