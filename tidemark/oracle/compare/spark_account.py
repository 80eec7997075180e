"""Spark's own account of a run: its state, its metrics, and where its state was.

Free of I/O. Spark's output is not all that Spark says: after each batch it also has a state, and reports how many rows
it stored (``numRowsUpdated``), removed, dropped as late, and keeps. All of that follows from the rules that give the
output, so that a difference is a finding even where the output does not show it (yet).

A report is compared if its batch was run once and none of its tasks failed, for a task that is run again counts its
rows again. What Spark counts:

* ``numRowsRemoved`` until 4.2: not the rows of the preserved sides of an outer join, which leave with a NULL row, or
  without one; later versions count all rows (``SparkRules.counts_all_removed``);
* ``numRowsTotal`` in state format 4: not rows, but different keys and times; a side without a watermark has no times
  there but random numbers, and is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import Any

import msgspec
import numpy as np

from tidemark.formats.contract import PRESERVED
from tidemark.formats.manifest import Manifest
from tidemark.oracle.compare.state_comparison import PredictedState, StateComparison
from tidemark.oracle.compare.state_counts import CountComparison
from tidemark.oracle.compare.state_locality import Locality, locality
from tidemark.oracle.compare.unread_records import UnreadRecords
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import NO_BATCH, Disposition, Evidence, History
from tidemark.oracle.input.state_fields import StateFields
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.spark_versions import minor_version
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

OPERATOR = "symmetricHashJoin"
TIMES = {"updates": "allUpdatesTimeMs", "removals": "allRemovalsTimeMs", "commits": "commitTimeMs"}
METRICS = {
    "numRowsUpdated": "rows stored",
    "numRowsRemoved": "rows removed",
    "numRowsDroppedByWatermark": "rows dropped as late",
    "numRowsTotal": "rows kept",
}


class SparkAccount(msgspec.Struct, kw_only=True):
    """``spark_account`` of the verdict.

    ``state_batches`` are the batches whose state was compared, ``count_batches`` those whose counts of keys were (older
    evidence has none), ``metric_batches`` how many reports were; ``rows`` sums
    what Spark reported (``kept`` is the most of any batch); ``times_ms`` has the least, the median and the most of the
    batches; ``notes`` say what was not compared, and why.
    """

    format: int | None = None
    provider: str | None = None
    changelog: bool | None = None
    state_batches: list[int] = []
    count_batches: list[int] | msgspec.UnsetType = msgspec.UNSET
    metric_batches: int = 0
    rows: dict[str, int] = {}
    times_ms: dict[str, tuple[int, int, int]] = {}
    locality: Locality | None = None
    notes: list[str] = []


def account_of(manifest: Manifest) -> SparkAccount:
    """An account of which nothing was compared yet."""
    info = manifest.state
    if info is None:
        return SparkAccount()
    return SparkAccount(format=info.format, provider=info.provider, changelog=info.changelog)


def check_spark_account(
    history: History,
    prediction: Prediction,
    run: Evidence,
    progress: Sequence[Mapping[str, Any]],
    finding_log: FindingLog,
) -> SparkAccount:
    """Compare what Spark says of itself, in its state and its ``progress``; what is wrong goes into the finding log."""
    spark_account = account_of(history.manifest)
    executor_assignments, reports = run.executor_assignments(), _reports(progress)
    spark_account.locality = locality(executor_assignments) if executor_assignments else None
    spark_account.rows, spark_account.times_ms = _sums(reports), _times(reports)
    _compare_state(history, prediction, run, spark_account, finding_log)
    if not reports:
        spark_account.notes.append("there is no progress report of one join: its metrics were not compared")
    history.inconclusive += _untold(progress, reports)
    if history.optional:
        why = "Spark may have dropped rows by what it is asked of the equal key of the other side, or stored them"
        spark_account.notes.append(f"the metrics were not compared: {why}")
        return spark_account
    expected = _Expected(history, prediction)
    for batch, report in reports.items():
        plan = history.batches[batch].plan if batch < len(history.batches) else None
        if plan is not None and plan.committed and plan.runs == 1 and not plan.failed_tasks:
            spark_account.metric_batches += 1
            _compare(batch, report, expected.of(batch), finding_log)
    return spark_account


def _compare_state(
    history: History, prediction: Prediction, run: Evidence, account: SparkAccount, finding_log: FindingLog
) -> None:
    """Compare rows and counts of the state."""
    info = history.manifest.state
    state, read_keys = run.state(), run.state_keys()
    # What is broken is said, also where no row was read.
    keys = None if read_keys is None else list(read_keys)
    if state is None:
        why = f": {info.note}" if info is not None and info.note else ""
        account.notes.append(f"the state was not read{why}")
    else:
        asked = info.batches if info is not None else []
        comparison = StateComparison(history, prediction, finding_log, UnreadRecords(history, run.inputs))
        account.state_batches = comparison.run(state, asked)
        if keys is not None:
            counts = CountComparison(history, comparison.predicted, finding_log)
            account.count_batches = counts.run(keys, comparison.read, account.state_batches)
            account.notes += counts.notes
        history.inconclusive += comparison.inconclusive


def inconclusive(manifest: Manifest) -> list[str]:
    """What the manifest says of a state that was wanted and is not to be had."""
    info = manifest.state
    if info is None:
        return []
    found = [f"the state was to be read, and could not be: {info.problem}"] if info.problem else []
    if info.asked_format is not None and info.asked_format != info.format:
        found.append(f"the run asked for state format {info.asked_format} and had {info.format}")
    return found


class _Expected:
    """What Spark must report."""

    def __init__(self, history: History, prediction: Prediction) -> None:
        self._state = PredictedState(history, prediction)
        side = np.frombuffer(history.rows.side, dtype=np.uint8)
        columns = (
            np.frombuffer(prediction.stored, dtype=np.int32),
            np.frombuffer(prediction.removed, dtype=np.int32),
        )
        self._stored, self._removed = (
            [np.bincount(column[(side == of) & (column != NO_BATCH)], minlength=len(history.batches))
             for of in (LEFT, RIGHT)]
            for column in columns
        )  # fmt: skip
        late = np.frombuffer(prediction.disposition, dtype=np.uint8) == Disposition.LATE
        read_in = np.frombuffer(history.rows.batch, dtype=np.int32)
        self._late = np.bincount(read_in[late], minlength=len(history.batches))
        if (rest := history.rest) is not None:
            self._stored = [mine + theirs for mine, theirs in zip(self._stored, rest.stored, strict=True)]
            self._removed = [mine + theirs for mine, theirs in zip(self._removed, rest.removed, strict=True)]
            self._late = self._late + rest.late
        more, less = sum(self._stored), sum(self._removed)
        self._kept = np.cumsum(np.asarray(more) - np.asarray(less))
        self._by_time = history.by_time
        sides = history.contract.left, history.contract.right
        self._all_timed = all(one.watermark_delay_ms is not None for one in sides)
        preserved = PRESERVED.get(history.contract.kind, ())
        spark = minor_version(history.manifest.versions.get("spark", ""))
        self._removed_is_known = spark is not None or not preserved
        self._counted = [
            of for of in (LEFT, RIGHT) if history.spark.counts_all_removed or of not in preserved
        ]

    def of(self, batch: int) -> dict[str, int]:
        """The metrics of a batch."""
        expected = {
            "numRowsUpdated": int(self._stored[LEFT][batch] + self._stored[RIGHT][batch]),
            "numRowsDroppedByWatermark": int(self._late[batch]),
        }
        if self._removed_is_known:
            expected["numRowsRemoved"] = sum(int(self._removed[side][batch]) for side in self._counted)
        if not self._by_time:
            expected["numRowsTotal"] = int(self._kept[batch])
        elif self._all_timed:
            expected["numRowsTotal"] = self._entries(batch)
        return expected

    def _entries(self, batch: int) -> int:
        """The different keys and times in the state; no time is the epoch."""
        known, state = StateFields(key=True, time=True, ref=False), self._state
        kept = ([state.kept(row, known) for row in state.after(batch, side)] for side in (LEFT, RIGHT))
        return sum(len({(row.key, row.time_us or 0) for row in rows}) for rows in kept)


def _compare(
    batch: int, report: Mapping[str, Any], expected: Mapping[str, int], finding_log: FindingLog
) -> None:
    for name, what in METRICS.items():
        reported = report.get(name)
        if reported is not None and reported != expected.get(name, reported):
            message = (
                f"Spark reports {reported:,} {what} in batch {batch} ({name});"
                f" its own rules give {expected[name]:,}"
            )
            finding_log.add(Finding(property="wrong_metrics", message=message, batch=batch))


def _reports(progress: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The join's part of the last report of each batch; nothing where a query has more joins than one."""
    found: dict[int, Mapping[str, Any]] = {}
    for report in progress:
        operators = report.get("stateOperators") or ()
        joins = [operator for operator in operators if operator.get("operatorName") == OPERATOR]
        if len(joins) == 1:
            found[int(report["batchId"])] = joins[0]
    return found


def _untold(progress: Iterable[Mapping[str, Any]], reports: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Why a run is inconclusive of which some reports have the numbers of the join, and others have not."""
    if not reports:
        return []
    batches = sorted({report["batchId"] for report in progress} - reports.keys())
    found = [f"Spark's report of batch {batches[0]} has no numbers of the join"] if batches else []
    missing = ((batch, name) for batch, report in reports.items() for name in METRICS if name not in report)
    return found + [f"Spark's report of batch {batch} has no {name}" for batch, name in islice(missing, 1)]


def _sums(reports: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
    if not reports:
        return {}
    columns = {name: [int(report.get(name) or 0) for report in reports.values()] for name in METRICS}
    return {
        "stored": sum(columns["numRowsUpdated"]),
        "removed": sum(columns["numRowsRemoved"]),
        "dropped": sum(columns["numRowsDroppedByWatermark"]),
        "kept": max(columns["numRowsTotal"]),
    }


def _times(reports: Mapping[int, Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    found = {}
    for what, name in TIMES.items():
        times = [int(report[name]) for report in reports.values() if name in report]
        if times:
            found[what] = min(times), round(median(times)), max(times)
    return found
