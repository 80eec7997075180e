"""The public entry point of the sink: turns a streaming data frame into a writer that is ready to start.

    query = (
        write_exactly_once(
            records,                                  # columns value, key, headers, topic, partition
            {"kafka.bootstrap.servers": "broker:9092", "topic": "out", "checkpointLocation": "/checkpoints/q"},
            partitions=4,
            key="key",
        )
        .trigger(processingTime="1 second")
        .start()
    )

It works on Spark Connect and on a classic session. When a batch is run again, each row must come to the same partition
as before; so the rows are shuffled here, by the key, into exactly the requested number of partitions.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql.functions import col, count, current_timestamp, unix_millis, xxhash64

from tidemark.errors import SinkRefused
from tidemark.sink.client.hadoop_settings import store_settings
from tidemark.sink.cluster_check import check_given
from tidemark.sink.entry_points import end_batch, prepare, write
from tidemark.sink.records import KEYS, check_columns
from tidemark.sink.sink_options import SinkOptions, read_options

try:
    from tidemark.sink.data_source import FORMAT, KafkaExactlyOnce
except ImportError as error:
    raise SinkRefused(
        f"the exactly-once sink does not run on PySpark {pyspark.__version__}, which has no Arrow writers for streams",
        detail=str(error),
        hint="use PySpark 4.1 or newer, or Spark's own Kafka sink (for a pipeline of the testbed: --sink spark)",
    ) from error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PICKLED_BY_VALUE = (
    "tidemark.sink",
    "tidemark.sparkfiles.checkpoint",
    "tidemark.formats.client_settings",
    "tidemark.errors",
    "tidemark.waiting",
)
"""Modules that are pickled by value into the query, for Spark's Python processes."""


def write_exactly_once(
    records: DataFrame,
    options: Mapping[str, str],
    *,
    partitions: int = 1,
    key: str | Column | Sequence[str | Column] = (),
    provenance: bool = False,
) -> DataStreamWriter:
    """A writer for ``records``, ready for ``trigger``, ``queryName`` and ``start``.

    ``options`` has the options of Spark's Kafka sink and the sink's own (``tidemark/sink/README.md``). With one
    partition, a batch is one transaction and needs no key. With more, each partition of a batch is one transaction, and
    ``key`` (deterministic columns or expressions) assigns rows to partitions. ``provenance`` adds the headers
    ``query``, ``batch``, ``partition`` and ``attempt``.

    Raises:
        SinkRefused: options, columns, key or session are invalid; or the check of the Kafka cluster failed.
    """
    keys: Sequence[Any] = key if isinstance(key, list | tuple) else [key]
    expressions: list[Column] = [col(name) if isinstance(name, str) else name for name in keys]
    own = {"partitions": str(partitions), "provenance": str(provenance).lower()}
    parsed = read_options({**options, **own}, on_cluster=False)
    session = records.sparkSession
    check_columns(
        {field.name: field.dataType.simpleString() for field in records.schema.fields}, parsed.topic
    )
    _check_session(session, parsed)
    if parsed.checkpoint and not parsed.checkpoint_store:
        own["checkpointStore"] = store_settings(parsed.checkpoint, lambda name: session.conf.get(name, None))
    own["keyFingerprint"] = _check_key(records, expressions, partitions)
    own |= _check_cluster(session, {**options, **own})
    if partitions > 1:
        records = records.repartition(partitions, *expressions).withColumn(KEYS, xxhash64(*expressions))
    else:
        records = records.repartition(1)
    _register(session)
    return records.writeStream.format(FORMAT).options(**{**options, **own})


def _register(session: SparkSession) -> None:
    payload = pickled_entry_points()
    with _by_value():
        session.dataSource.register(type(FORMAT, (KafkaExactlyOnce,), {"payload": payload}))


def pickled_entry_points() -> bytes:
    """The payload of the data source: what drivers and executors run, where ``tidemark`` is not installed.

    What is pickled by its name only, such as a function under ``functools.cache``, must not be in it.
    """
    with _by_value():
        return zlib.compress(cloudpickle.dumps((prepare, write, end_batch)), 9)  # type: ignore[no-untyped-call]


def _check_session(session: SparkSession, parsed: SinkOptions) -> None:
    if not parsed.checkpoint and not session.conf.get("spark.sql.streaming.checkpointLocation", None):
        raise SinkRefused(
            "no checkpoint location is set",
            detail="Spark would use a temporary checkpoint, and write all rows again after a restart",
            hint="set the option checkpointLocation to a persistent directory",
        )
    if str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise SinkRefused(
            "spark.speculation is true",
            detail="a speculative attempt fences the first attempt, whose failure counts against "
            "spark.task.maxFailures",
            hint="set spark.speculation to false for this application",
        )


def _check_key(records: DataFrame, expressions: Sequence[Column], partitions: int) -> str:
    """The fingerprint of the key: a hash of the names that Spark gives its expressions.

    The text of a column object contains addresses and counters of this process. Spark also checks that the expressions
    are deterministic, because it rejects others in an aggregate.
    """
    if partitions > 1 and not expressions:
        raise SinkRefused(
            f"partitions is {partitions}, but no key is set",
            detail="without a key, rows may change their partition when a batch is run again, and be lost or doubled",
            hint="name the columns that assign rows to partitions, for example key='key'; or set partitions=1",
        )
    names: list[str] = []
    for expression in expressions if partitions > 1 else ():
        try:
            names += records.groupBy().agg(count(expression)).columns
        except AnalysisException as error:
            hint = "use columns or expressions that depend only on the input"
            if "NONDETERMINISTIC" in (error.getCondition() or ""):
                raise SinkRefused(
                    f"the key {expression} is not deterministic",
                    detail="rows would change their partition when a batch is run again, and be lost or doubled",
                    hint=hint,
                ) from error
            raise SinkRefused(
                f"the key {expression} is not valid", detail=str(error).splitlines()[0], hint=hint
            ) from error
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] if names else ""


def _check_cluster(session: SparkSession, given: Mapping[str, str]) -> dict[str, str]:
    """Check the Kafka cluster inside a task, because addresses may be valid on the executors only.

    Returns options for the sink: the driver's clock, and for how long the brokers keep offsets.
    """

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [json.dumps(check_given(given))]})

    with _by_value():
        checked = session.range(0, 1, 1, 1).mapInArrow(check, "answer STRING")
        [row] = checked.withColumn("now", unix_millis(current_timestamp())).collect()
    answer: dict[str, Any] = json.loads(row.answer)
    if "message" in answer:
        raise SinkRefused(answer["message"], detail=answer["detail"], hint=answer["hint"])
    return {
        "startedMs": str(row.now),
        **({"offsetsKeptSeconds": answer["retention_s"]} if "retention_s" in answer else {}),
    }


@contextmanager
def _by_value() -> Iterator[None]:
    modules = [sys.modules[name] for name in PICKLED_BY_VALUE]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
