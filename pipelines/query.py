"""Starts the query of a pipeline: Kafka sources, the pipeline's ``build``, and a Kafka sink."""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import coalesce, col, struct, to_json

from pipelines.user_errors import as_usage_error
from tidemark.errors import TestbedError, TidemarkError, UsageError
from tidemark.formats.chain import Chain, topics_of
from tidemark.formats.client_settings import spark_options
from tidemark.formats.connect_url import is_refusal, with_token, without_token
from tidemark.formats.contract import Output

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType, SimpleNamespace

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tidemark.formats.contract import Contract

    ToSink = Callable[[DataFrame], DataFrame]

FETCH_MAX_WAIT_MS = 20
"""A cached consumer leaves a fetch pending at the broker when its task ends. The first fetch of the next batch queues
behind it: with Kafka's default, 500 ms in every batch.
"""
LOST_LEADER = {
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "8000",
    "fetchOffset.numRetries": "12",
}
"""Kafka's admin client keeps asking a dead leader until its deadline, by default a minute, and the query waits. Spark
then retries, by default three times, before the query fails.
"""

SINK_PARTITIONS = 2
"""One for each executor of a driver."""

NO_BROKER = "localhost:1"
PLANNED_VIEW = "tidemark_planned"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
PLAN_FIELDS = "spark.sql.debug.maxToStringFields"

KEEP_ALL = 100_000
"""Checkpoint entries and progress reports to keep: more than any run has batches, because they are evidence."""


def add_login(parser: ArgumentParser) -> None:
    """The options that say how Spark logs in to Kafka."""
    parser.add_argument(
        "--kafka-conf",
        default="",
        help="a file with settings in Kafka's Java names, as driver and executors see it",
    )
    parser.add_argument(
        "--kafka-setting", action="append", default=[], help="a setting of that file to use; repeatable"
    )


@contextmanager
def open_session(args: Namespace) -> Iterator[SparkSession]:
    """A session on the driver, with the settings of the command line; ``getOrCreate`` returns it."""
    remote = with_token(args.remote)
    session = SparkSession.builder.remote(remote).create()
    os.environ["SPARK_REMOTE"] = remote
    try:
        # With artifact isolation, each query would start Python workers of its own.
        session.conf.set("spark.sql.artifact.isolation.enabled", "false")
        session.conf.set("spark.sql.streaming.minBatchesToRetain", KEEP_ALL)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", KEEP_ALL)
        for name, value in args.conf:
            session.conf.set(name, value)
        yield session
    except Exception as error:
        if is_refusal(str(error)):
            raise TestbedError(
                "the Spark Connect server does not let this client in any more",
                detail=without_token(str(error), remote),
                hint="write a valid token into the file that the address names, and run again; the query of this run "
                "may go on at the server until its session has ended",
            ) from error
        raise
    finally:
        session.stop()


def build_records(session: SparkSession, module: ModuleType | SimpleNamespace, args: Namespace) -> DataFrame:
    """The pipeline's output as Kafka records; this starts no query."""
    contract = module.CONTRACT
    if POLICY not in dict(args.conf):
        session.conf.set(POLICY, str(contract.policy))
    inputs = [_read(session, args, topic) for topic in topics_of(contract)]
    try:
        rows = module.build(*inputs)
        if hasattr(module, "MODULE"):
            _must_have_columns(rows, contract)
    except TidemarkError:
        raise
    except Exception as error:
        raise as_usage_error(error, f"`build` of the pipeline {contract.name!r} failed") from error
    return _records(rows, _keys(contract))


def build_for_draft(
    session: SparkSession, function: Callable[..., DataFrame]
) -> tuple[DataFrame, dict[str, list[str]]]:
    """What a function makes of two streams of Kafka's source, which no broker is asked for; topics and columns.

    The topics are called as the function calls its parameters. Only the second source has headers: so the plan shows
    which is which.
    """
    topics = list(inspect.signature(function).parameters)
    inputs = [
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", NO_BROKER)
        .option("subscribe", topic)
        .option("includeHeaders", str(topic == topics[1]).lower())
        .load()
        for topic in topics
    ]
    name = getattr(function, "__name__", "of the pipeline")
    try:
        rows = function(*inputs)
        columns = getattr(rows, "columns", None)  # what is wrong with the query is said when it is asked for
    except TidemarkError:
        raise
    except Exception as error:
        raise as_usage_error(error, f"the function {name} failed") from error
    if columns is None:
        raise UsageError(
            f"the function {name} returned {type(rows).__name__}",
            hint="it has to return the data frame of the joined rows",
        )
    return rows, {"topics": topics, "columns": columns}


def _must_have_columns(rows: DataFrame | None, contract: Contract | Chain) -> None:
    """Raise ``UsageError`` if the output lacks a column that the contract names."""
    if rows is None:
        raise UsageError(
            f"`build` of the pipeline {contract.name!r} returned None",
            hint="return the data frame of the joined rows",
        )
    columns = rows.columns
    output = contract.output
    if isinstance(output, Output):
        refs = [*(output.left_ref or ()), *(output.right_ref or ())]
        wanted = [name for name in (output.left_id, output.right_id, *refs) if name is not None]
    else:
        wanted = list(output)
    missing = [name for name in wanted if name.casefold() not in map(str.casefold, columns)]
    if missing:
        raise UsageError(
            f"the output of the pipeline {contract.name!r} has no column {', '.join(map(repr, missing))}",
            detail=f"the contract's output names it; `build` returned the columns {', '.join(columns)}",
            hint="select the column in `build`, or name the right one in the contract's Output",
        )


def explain(session: SparkSession, show: Callable[[], None]) -> dict[str, str]:
    """The physical ``plan`` that ``show`` prints, and the session's watermark ``policy``."""
    session.conf.set(PLAN_FIELDS, KEEP_ALL)  # by default the plan abbreviates after 25 fields
    with redirect_stdout(StringIO()) as printed:
        show()
    session.conf.unset(PLAN_FIELDS)
    return {
        "plan": printed.getvalue(),
        "policy": str(session.conf.get(POLICY)),
    }


def print_plan(session: SparkSession, rows: DataFrame) -> None:
    """Print the physical plan of a data frame over streams.

    ``explain()`` takes a statement of SQL over views of streams for a batch, because it is not resolved yet, and fails.
    As a view that is read as a stream it is planned as one.
    """
    try:
        rows.explain(mode="simple")
    except AnalysisException:
        rows.createOrReplaceTempView(PLANNED_VIEW)
        session.readStream.table(PLANNED_VIEW).explain(mode="simple")
        session.catalog.dropTempView(PLANNED_VIEW)


def start_records(
    records: DataFrame, module: ModuleType | SimpleNamespace, args: Namespace
) -> StreamingQuery:
    """Start the query that writes these records; without ``trigger_ms`` it ends after all available input."""
    writer = _SINKS[args.sink](records, getattr(module, "to_sink", None), args)
    writer = writer.queryName(args.query_name).outputMode("append")
    if args.trigger_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{args.trigger_ms} milliseconds").start()


def _read(session: SparkSession, args: Namespace, name: str) -> DataFrame:
    source = (
        session.readStream.format("kafka")
        .options(**_kafka(args))
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", FETCH_MAX_WAIT_MS)
        .options(**LOST_LEADER)
        .option("subscribe", dict(args.input)[name])
        .option("startingOffsets", "earliest")
    )
    limit = dict(args.max_offsets).get(name)
    return (source.option("maxOffsetsPerTrigger", limit) if limit else source).load()


def _kafka(args: Namespace) -> dict[str, str]:
    """Where Kafka is and how to log in, as options of source and sink."""
    login = spark_options(args.kafka_conf, args.kafka_setting)
    return {"kafka.bootstrap.servers": args.bootstrap, **login}


def _keys(contract: Contract | Chain) -> Sequence[str]:
    """Output fields for the record's key: the first that is not NULL is used."""
    if isinstance(contract, Chain):
        return contract.output
    return [name for name in (contract.output.left_id, contract.output.right_id) if name is not None]


def _records(rows: DataFrame, ids: Sequence[str]) -> DataFrame:
    """Output rows as Kafka records: the first of ``ids`` that is not NULL as key, all columns as JSON, with NULLs."""
    return rows.select(
        coalesce(*[col(name).cast("string") for name in ids]).alias("key"),
        to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value"),
    )


def _exactly_once(records: DataFrame, to_sink: ToSink | None, args: Namespace) -> DataStreamWriter:
    """The sink of ``tidemark.sink``: per batch and partition one transaction, with an entry in the ledger."""
    from tidemark.sink import write_exactly_once

    options = {
        **_kafka(args),
        "topic": args.output,
        "checkpointLocation": args.checkpoint,
    }
    whole = to_sink(records) if to_sink is not None else records
    shuffled = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or SINK_PARTITIONS)
    partitions = min(SINK_PARTITIONS, shuffled)
    return write_exactly_once(whole, options, partitions=partitions, key="key", provenance=to_sink is None)


def _spark(records: DataFrame, to_sink: ToSink | None, args: Namespace) -> DataStreamWriter:
    """Spark's own Kafka sink, which promises at-least-once."""
    from tidemark.sink.provenance import with_provenance

    whole = to_sink(records) if to_sink is not None else with_provenance(records)
    return (
        whole.writeStream.format("kafka")
        .options(**_kafka(args))
        .option("includeHeaders", "true")
        .option("topic", args.output)
        .option("checkpointLocation", args.checkpoint)
    )


_SINKS: Mapping[str, Callable[[DataFrame, ToSink | None, Namespace], DataStreamWriter]] = {
    "exactly-once": _exactly_once,
    "spark": _spark,
}
SINKS = tuple(_SINKS)
"""The values of ``--sink``, the default first."""
