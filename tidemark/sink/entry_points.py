"""What the sink does in Spark's Python processes: look at the checkpoint on the driver, write in a task.

Both functions travel as one parcel of bytes (``tidemark.sink.data_source``), and so does all that they use
of ``tidemark``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext

from tidemark.errors import SinkRefused
from tidemark.sink.driver.in_flight import Seen, must_be_fresh, newest, query_id
from tidemark.sink.driver.takeover import end_transactions, open_ledger, take_over
from tidemark.sink.ledger_checks import Task
from tidemark.sink.records import check_columns
from tidemark.sink.sink_options import SinkOptions, read_options
from tidemark.sink.task.stream_guard import ended_in_order, input_of_task, whole
from tidemark.sink.task.transaction import Written, write_task

PROPERTIES = (
    "sql.streaming.queryId",
    "streaming.sql.batchId",
    "spark.jobGroup.id",
    "__is_continuous_processing",
)
"""What Spark tells a task of its query, batch, run and mode."""


def prepare(options: Mapping[str, str], columns: Mapping[str, str]) -> Seen | None:
    """On the driver, once a batch: the batch that is about to be written; ``None`` if the checkpoint is elsewhere.

    Raises:
        SinkRefused: options or columns will not do, the batch is too old, or it was begun in another way.
        SinkFailed: it is run again, and Kafka does not say what of it is there.
    """
    told = read_options(options)
    check_columns(columns, told.topic)
    in_flight = newest(told.checkpoint)
    if in_flight is None:
        return None
    must_be_fresh(in_flight, told.expiry_guard_s)
    is_begun = in_flight.time_ms < told.started_ms
    query = query_id(told.checkpoint) if is_begun or in_flight.batch == 0 else None
    if query is not None and is_begun:
        take_over(query, in_flight, told)
    if query is not None and in_flight.batch == 0:
        open_ledger(query, in_flight, told)
    return in_flight.batch, in_flight.offsets


def write(batches: Iterator[Any], options: Mapping[str, str], in_flight: Seen | None) -> Written:
    """In a task: write its partition; raises what ``write_task`` raises."""
    told = read_options(options)
    with ended_in_order():
        return write_task(whole(batches, input_of_task()), _task(told, in_flight), told)


def give_up(options: Mapping[str, str]) -> None:
    """On the driver, when a batch failed or was stopped: no reader shall wait for what a killed worker left open."""
    told = read_options(options)
    query = query_id(told.checkpoint)
    if query is not None:
        end_transactions(query, told)


def _task(told: SinkOptions, in_flight: Seen | None) -> Task:
    context = TaskContext.get()
    if context is None:
        raise SinkRefused("the exactly-once sink runs outside of a task", hint="use it in a streaming query")
    properties = {name: context.getLocalProperty(name) for name in PROPERTIES}
    query, batch, run, continuous = properties.values()
    if query is None or batch is None or continuous == "true":
        raise SinkRefused(
            f"the query runs without micro-batches: {properties}",
            detail="the ledger is kept by batch, and there are none to keep it by",
            hint="use a processing-time trigger or availableNow",
        )
    seen = in_flight if in_flight is not None and in_flight[0] == int(batch) else (0, "")
    task = Task(
        query=query,
        run=run or "",
        batch=int(batch),
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        partitions=told.partitions,
        offsets=seen[1],
    )
    if task.partition >= task.partitions:
        raise SinkRefused(
            f"there is a partition {task.partition}, but the sink was told of {task.partitions}",
            detail="which row is in which partition decides what is written again after a failure",
            hint="start the query with tidemark.sink.write_exactly_once, and change no data frame after it",
        )
    return task
