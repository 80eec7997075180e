"""From a pipeline's ``build`` to a running query: Kafka in, join, Kafka out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, struct, to_json

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from types import ModuleType

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FETCH_MAX_WAIT_MS = 20
"""A cached consumer left a fetch waiting at the broker when its last task ended; the next batch's first fetch queues
behind it, for Kafka's default of 500 ms in every batch."""
LOST_LEADER = {
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "8000",
    "fetchOffset.numRetries": "12",
}
"""Kafka's admin client goes on asking a leader that has died until its own deadline, by default a minute, in which the
query stands still; then Spark asks anew, and by default gives up after three times."""

KEEP_ALL = 100_000
"""Checkpoint entries and progress reports kept: more than the batches of any run, because they are its evidence."""


@contextmanager
def open_session(args: Namespace) -> Iterator[SparkSession]:
    """A session on the driver, with the settings of the command line."""
    session = SparkSession.builder.remote(args.remote).create()
    try:
        session.conf.set("spark.sql.streaming.minBatchesToRetain", KEEP_ALL)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", KEEP_ALL)
        for name, value in args.conf:
            session.conf.set(name, value)
        yield session
    finally:
        session.stop()


def start_query(session: SparkSession, module: ModuleType, args: Namespace) -> StreamingQuery:
    """Start the pipeline's query."""
    contract = module.CONTRACT
    left, right = (_read(session, args, side.topic) for side in (contract.left, contract.right))
    records = _records(module.build(left, right), contract.output.left_id)
    return _write(getattr(module, "to_sink", _with_provenance)(records), args)


def _read(session: SparkSession, args: Namespace, name: str) -> DataFrame:
    source = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", FETCH_MAX_WAIT_MS)
        .options(**LOST_LEADER)
        .option("subscribe", dict(args.input)[name])
        .option("startingOffsets", "earliest")
    )
    limit = dict(args.max_offsets).get(name)
    return (source.option("maxOffsetsPerTrigger", limit) if limit else source).load()


def _records(rows: DataFrame, key: str) -> DataFrame:
    """Output rows as Kafka records: the left id as key, all columns as JSON, NULLs shown."""
    return rows.select(
        col(key).alias("key"), to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value")
    )


def _with_provenance(records: DataFrame) -> DataFrame:
    from tidemark.sink.provenance import with_provenance

    return with_provenance(records)


def _write(records: DataFrame, args: Namespace) -> StreamingQuery:
    return (
        records.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("includeHeaders", "true")
        .option("topic", args.output)
        .option("checkpointLocation", args.checkpoint)
        .queryName(args.query_name)
        .trigger(processingTime=f"{args.trigger_ms} milliseconds")
        .outputMode("append")
        .start()
    )
