"""Headers that trace an output record to the batch and task that wrote it.

Runs on executors; imports only pyarrow and PySpark. The headers are ``query`` (the query's id), ``batch``
(micro-batch id), ``partition`` (partition of the writing task) and ``attempt`` (its attempt number, 0 for the first),
all as text. The values come from the task's local properties, which Spark sets in
``MicroBatchExecution`` (``sql.streaming.queryId``, ``streaming.sql.batchId``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "key STRING, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_provenance(records: DataFrame) -> DataFrame:
    """``records`` (string columns ``key`` and ``value``) with a column ``headers`` as Spark's Kafka sink expects it.

    Apply it last: after a shuffle, another task than the one in ``partition`` would write the row. This module is
    pickled into the query by value, so executors need not have it (in Spark 4.1 a streaming query does not get the
    session's artifacts).
    """
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    return records.mapInArrow(_stamp, COLUMNS)


def _stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("provenance headers can only be added inside a Spark task")
    headers = [
        ("query", task.getLocalProperty("sql.streaming.queryId")),
        ("batch", task.getLocalProperty("streaming.sql.batchId")),
        ("partition", str(task.partitionId())),
        ("attempt", str(task.attemptNumber())),
    ]
    pairs = [{"key": name, "value": (text or "").encode()} for name, text in headers]
    stamp = pa.scalar(pairs, type=_HEADERS)
    for batch in batches:
        yield pa.RecordBatch.from_arrays(
            [batch.column("key"), batch.column("value"), pa.repeat(stamp, batch.num_rows)],
            names=["key", "value", "headers"],
        )
