"""Reads Spark's event log: which task attempts of which batch failed, and which executors ran the join's tasks.

The lines are those that ``EventLoggingListener`` writes; Spark itself is not needed. The log of a shared driver holds
many queries, so only lines that were appended since the run began are read, and only this query's events are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tidemark.formats.evidence import ExecutorAssignment

IN_PROGRESS = ".inprogress"
"""Suffix of an event log that is still being written (``EventLogFileWriter.IN_PROGRESS``)."""

_PROGRESS = "StreamingQueryListener$QueryProgressEvent"
JOIN = "StreamingSymmetricHashJoin"
"""The join operator's name in the scope of the RDD that opens its state stores."""
_HEAD = 100
"""A line names its event within this many characters."""

_KEPT = (
    '"SparkListenerJobStart"',
    '"SparkListenerStageCompleted"',
    '"SparkListenerTaskEnd"',
    '"SparkListenerExecutor',
)


def finished(path: Path) -> Path:
    """The path of an event log after its driver has stopped normally: Spark removes ``.inprogress`` from the name."""
    return path.with_name(path.name.removesuffix(IN_PROGRESS))


class QueryEvents:
    """The events of one query in the event log ``path``, from byte ``start`` up to byte ``end`` (default: all).

    The driver may still be running. If it stops meanwhile, the log is read under its final name.
    """

    def __init__(self, path: Path, start: int, query_id: str, end: int | None = None) -> None:
        self.path = path
        self.start = start
        self.end = end
        self.query_id = query_id

    def failed_tasks(self) -> Counter[int]:
        """Batch id -> number of task attempts that did not succeed (killed, lost, failed, resubmitted)."""
        failed: Counter[int] = Counter()
        for batch, event in self._task_ends():
            if event["Task End Reason"]["Reason"] != "Success":
                failed[batch] += 1
        return failed

    def executor_assignments(self, of_driver: int) -> Iterator[ExecutorAssignment]:
        """For each batch: the executor that ran the join on each state partition, and the executors that ended.

        ``of_driver`` is the number of the query's driver, from 1. Executor ids of different drivers are made distinct
        with it: ``2:0`` is executor 0 of the second driver.
        """
        name = str if of_driver == 1 else lambda executor: f"{of_driver}:{executor}"
        placed: dict[int, ExecutorAssignment] = {}
        batch_of_stage: dict[int, int] = {}
        latest: int | None = None
        for event in self._events(
            ('"SparkListenerJobStart"', '"SparkListenerTaskEnd"', '"SparkListenerExecutorRemoved"')
        ):
            if event["Event"] == "SparkListenerJobStart":
                batch = self._batch(event)
                if batch is not None:
                    latest = batch
                    placed.setdefault(batch, ExecutorAssignment(batch=batch, executors={}))
                    batch_of_stage.update(dict.fromkeys(_join_stages(event), batch))
            elif event["Event"] == "SparkListenerExecutorRemoved":
                if latest is not None:
                    placed[latest].lost.append(name(event["Executor ID"]))
            elif event["Stage ID"] in batch_of_stage and event["Task End Reason"]["Reason"] == "Success":
                task = event["Task Info"]
                partition = str(task.get("Partition ID", task["Index"]))
                placed[batch_of_stage[event["Stage ID"]]].executors[partition] = name(task["Executor ID"])
        yield from (placed[batch] for batch in sorted(placed))

    def progress(self) -> Iterator[dict[str, Any]]:
        """The query's progress reports, as in ``StreamingQuery.recentProgress``."""
        for event in self._events((_PROGRESS,)):
            if event["progress"]["id"] == self.query_id:
                yield event["progress"]

    def job_started(self, batch: int) -> bool:
        """Whether the log contains the start of a job of that batch."""
        return any(self._batch(event) == batch for event in self._events(('"SparkListenerJobStart"',)))

    def job_ended(self, batch: int) -> bool:
        """Whether the log contains the end of a job of that batch, which Spark logs after the ends of its tasks."""
        jobs = set()
        for event in self._events(('"SparkListenerJobStart"', '"SparkListenerJobEnd"')):
            if event["Event"] == "SparkListenerJobStart":
                if self._batch(event) == batch:
                    jobs.add(event["Job ID"])
            elif event["Job ID"] in jobs:
                return True
        return False

    def excerpt(self) -> Iterator[bytes]:
        """The lines about this query's jobs and tasks, and about executors added or removed, as Spark wrote them."""
        stages: set[int] = set()
        for line, event in self._lines(_KEPT):
            if event["Event"] == "SparkListenerJobStart" and self._batch(event) is not None:
                stages.update(event["Stage IDs"])
                yield line
            elif event["Event"].startswith("SparkListenerExecutor") or _stage_of(event) in stages:
                yield line

    def _task_ends(self) -> Iterator[tuple[int, dict[str, Any]]]:
        batch_of_stage: dict[int, int] = {}
        for event in self._events(('"SparkListenerJobStart"', '"SparkListenerTaskEnd"')):
            if event["Event"] == "SparkListenerJobStart":
                batch = self._batch(event)
                if batch is not None:
                    batch_of_stage.update(dict.fromkeys(event["Stage IDs"], batch))
            elif event["Stage ID"] in batch_of_stage:
                yield batch_of_stage[event["Stage ID"]], event

    def _batch(self, job_start: dict[str, Any]) -> int | None:
        properties = job_start.get("Properties") or {}
        if properties.get("sql.streaming.queryId") != self.query_id:
            return None
        batch = properties.get("streaming.sql.batchId")
        return int(batch) if batch is not None else None

    def _events(self, kinds: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        for _, event in self._lines(kinds):
            yield event

    def _opened(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            self.path = finished(self.path)
            return self.path.open("rb")

    def _lines(self, kinds: tuple[str, ...]) -> Iterator[tuple[bytes, dict[str, Any]]]:
        with self._opened() as log:
            log.seek(self.start)
            at = self.start
            for line in log:
                at += len(line)
                if self.end is not None and at > self.end:
                    return
                head = line[:_HEAD].decode(errors="replace")
                if line.endswith(b"\n") and any(kind in head for kind in kinds):
                    yield line.rstrip(b"\n"), json.loads(line)


class ProgressTail:
    """The progress reports in an event log that is being written, each given once; ``start`` is in bytes."""

    def __init__(self, path: Path, start: int) -> None:
        self.began_in = path
        self._path = path
        self._at = start

    def new(self, query_id: str) -> Iterator[dict[str, Any]]:
        """The query's reports in lines that were completed since. Raises ``OSError`` if there is no such log."""
        if not self._path.exists():
            self._path = finished(self._path)
        with self._path.open("rb") as log:
            log.seek(self._at)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                if _PROGRESS.encode() in line[:_HEAD]:
                    report = json.loads(line)["progress"]
                    if report["id"] == query_id:
                        yield report


def _join_stages(job_start: dict[str, Any]) -> list[int]:
    """The stages of a job that run a stream-stream join."""
    return [
        stage["Stage ID"]
        for stage in job_start.get("Stage Infos", ())
        if any(JOIN in (rdd.get("Scope") or "") for rdd in stage.get("RDD Info", ()))
    ]


def _stage_of(event: dict[str, Any]) -> int | None:
    """The stage that a task's or a stage's event is about."""
    info = event.get("Stage Info") or event
    stage = info.get("Stage ID")
    return stage if isinstance(stage, int) else None
