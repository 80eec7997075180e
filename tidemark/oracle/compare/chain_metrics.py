"""What Spark reports of each stateful operator of a chain, compared with what the model of the chain counts.

Free of I/O. A report is compared if its batch was run once and none of its tasks failed, for a task that is run again
counts its rows again. The state of a chain itself is not read; of every operator it is known how many rows its state
took, lost and kept, and how many rows were late for it. What these are is in ``tidemark.oracle.model.operators``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemark.oracle.compare.chain_comparison import Predicted
from tidemark.oracle.compare.spark_account import METRICS as WORDS
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.model.reported_operators import METRICS
from tidemark.oracle.spark.spark_versions import minor_version

Report = Mapping[str, Any]


def compare_metrics(
    history: ChainHistory, predicted: Predicted, progress: Iterable[Report], finding_log: FindingLog
) -> SparkAccount:
    """Compare the reports of all operators; what is wrong goes into the finding log."""
    account = SparkAccount()
    reports = {int(one["batchId"]): one.get("stateOperators") or () for one in progress}
    if not any(reports.values()):
        account.notes.append(
            "there is no progress report of an operator with a state: its metrics were not compared"
        )
        return account
    for batch, counted in zip(history.batches, predicted.counts, strict=True):
        plan = batch.plan
        operators = reports.get(plan.batch, ())
        if not operators or not plan.committed or plan.runs > 1 or plan.failed_tasks:
            continue
        names, wanted = [one.get("operatorName") for one in operators], [name for name, _ in counted]
        if names != wanted:
            account.notes.append(
                f"the metrics of batch {plan.batch} were not compared: Spark reports the operators"
                f" {', '.join(map(str, names))}, the chain has {', '.join(wanted)}"
            )
            break
        account.metric_batches += 1
        for place, (report, (name, counts)) in enumerate(zip(operators, counted, strict=True), 1):
            known = dict(zip(METRICS, counts, strict=True))
            if minor_version(history.manifest.versions.get("spark", "")) is None:
                known["numRowsRemoved"] = None
            which = f"{name}, the {place}. operator of the report"
            _compare(plan.batch, which, report, known, finding_log)
    return account


def _compare(
    batch: int, which: str, report: Report, known: Mapping[str, int | None], finding_log: FindingLog
) -> None:
    for metric, count in known.items():
        reported = report.get(metric)
        if count is not None and reported is not None and reported != count:
            message = (
                f"Spark reports {reported:,} {WORDS[metric]} in batch {batch} ({metric} of {which});"
                f" its own rules give {count:,}"
            )
            finding_log.add(Finding(property="wrong_metrics", message=message, batch=batch))
