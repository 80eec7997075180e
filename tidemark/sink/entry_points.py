"""The sink's functions that Spark's Python processes call: ``prepare`` and ``end_batch`` on the driver, ``write`` in a
task.

They are pickled into one payload (``tidemark.sink.data_source``), together with everything of ``tidemark`` that they
use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext

from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.driver.checkpoint_files import CheckpointFiles, StoredFiles, checkpoint_files
from tidemark.sink.driver.in_flight import BatchFingerprint, check_age, newest, query_id
from tidemark.sink.driver.takeover import end_transactions, open_ledger, take_over
from tidemark.sink.ledger_checks import Task
from tidemark.sink.records import check_columns
from tidemark.sink.sink_options import SinkOptions, read_options
from tidemark.sink.task.held_steps import holding
from tidemark.sink.task.stream_guard import graceful_shutdown, guarded, task_input
from tidemark.sink.task.transaction import Written, write_task

PROPERTIES = (
    "sql.streaming.queryId",
    "streaming.sql.batchId",
    "spark.jobGroup.id",
    "__is_continuous_processing",
)
"""Local properties in which Spark passes query, batch, run and mode to a task."""


def prepare(options: Mapping[str, str], columns: Mapping[str, str]) -> BatchFingerprint | None:
    """On the driver, once per batch: returns the batch in flight; ``None`` if the checkpoint cannot be read from here.

    Raises:
        SinkRefused: options or columns are invalid, the batch is too old, or it was begun with other settings; or the
            checkpoint is in a store that Python has no file system for.
        SinkFailed: the store of the checkpoint does not answer; or the batch is run again, and the ledger cannot be
            read.
    """
    parsed = read_options(options)
    check_columns(columns, parsed.topic)
    files = _files(parsed)
    in_flight = newest(files)
    if in_flight is None:
        if isinstance(files, StoredFiles):
            raise files.without_a_batch()
        return None
    check_age(in_flight, parsed.expiry_guard_s)
    is_begun = in_flight.time_ms < parsed.started_ms
    query = query_id(files) if is_begun or in_flight.batch == 0 else None
    if query is not None and is_begun:
        take_over(query, in_flight, parsed)
    if query is not None and in_flight.batch == 0:
        open_ledger(query, in_flight, parsed)
    return in_flight.batch, in_flight.offsets


def write(batches: Iterator[Any], options: Mapping[str, str], in_flight: BatchFingerprint | None) -> Written:
    """In a task: write its partition; raises what ``write_task`` raises."""
    parsed = read_options(options)
    task = _task(parsed, in_flight)
    with graceful_shutdown():
        return write_task(guarded(batches, task_input()), task, parsed, holding(task))


def end_batch(options: Mapping[str, str]) -> None:
    """On the driver, after a batch failed or was stopped: end the transactions that killed workers left open.

    If the checkpoint's store does not answer, the next attempt or the transaction timeout ends them.
    """
    parsed = read_options(options)
    try:
        query = query_id(_files(parsed))
    except (SinkFailed, SinkRefused):
        return
    if query is not None:
        end_transactions(query, parsed)


def _files(parsed: SinkOptions) -> CheckpointFiles | None:
    return checkpoint_files(parsed.checkpoint, parsed.checkpoint_store) if parsed.checkpoint_checks else None


def _task(parsed: SinkOptions, in_flight: BatchFingerprint | None) -> Task:
    context = TaskContext.get()
    if context is None:
        raise SinkRefused(
            "the exactly-once sink was called outside of a Spark task", hint="use it in a streaming query"
        )
    properties = {name: context.getLocalProperty(name) for name in PROPERTIES}
    query, batch, run, continuous = properties.values()
    if query is None or batch is None or continuous == "true":
        raise SinkRefused(
            f"the query runs without micro-batches: {properties}",
            detail="the ledger records batches, and this mode has none",
            hint="use a processing-time trigger or availableNow",
        )
    seen = in_flight if in_flight is not None and in_flight[0] == int(batch) else (0, "")
    task = Task(
        query=query,
        run=run or "",
        batch=int(batch),
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        partitions=parsed.partitions,
        offsets=seen[1],
    )
    if task.partition >= task.partitions:
        raise SinkRefused(
            f"the data frame has a partition {task.partition}, but the sink was set up for "
            f"{task.partitions} partitions",
            detail="after a failure, a row must come to the same partition again; else it is lost or doubled",
            hint="start the query with tidemark.sink.write_exactly_once, and do not transform the data frame after it",
        )
    return task
