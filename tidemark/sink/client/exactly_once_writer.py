"""The one way to use the sink: from a streaming data frame to a writer that is ready to be started.

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

On Spark Connect as on a classic session. Where the rows go is decided here: row to partition must be the same function
whenever a batch is run again, so the rows are shuffled by the key to exactly as many partitions as were asked for.
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
from tidemark.sink.cluster_check import check_cluster
from tidemark.sink.entry_points import give_up, prepare, write
from tidemark.sink.records import KEYS, check_columns
from tidemark.sink.sink_options import SinkOptions, read_options

try:
    from tidemark.sink.data_source import FORMAT, KafkaExactlyOnce
except ImportError as error:
    raise SinkRefused(
        f"PySpark {pyspark.__version__} has no Arrow writers for streams, which the exactly-once sink is one of",
        detail=str(error),
        hint="use PySpark 4.1 or newer, or Spark's own Kafka sink (for a pipeline of the testbed: --sink spark)",
    ) from error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRAVELS = ("tidemark.sink", "tidemark.sparkfiles.checkpoint", "tidemark.errors", "tidemark.waiting")
"""What runs in Spark's Python processes goes there by value, with the query."""


def write_exactly_once(
    records: DataFrame,
    options: Mapping[str, str],
    *,
    partitions: int = 1,
    key: str | Column | Sequence[str | Column] = (),
    provenance: bool = False,
) -> DataStreamWriter:
    """A writer for ``records``, ready for ``trigger``, ``queryName`` and ``start``.

    ``options`` are those of Spark's Kafka sink, and the sink's own (``tidemark/sink/README.md``). With one partition
    a whole batch is one transaction, and no key is needed. With more, each partition is one, and ``key`` says which
    rows belong together: columns or expressions that depend on nothing but the input. ``provenance`` adds the headers
    ``query``, ``batch``, ``partition`` and ``attempt``.

    Raises:
        SinkRefused: options, columns, key or session will not do.
        SinkFailed: the cluster, the topic or a right is missing.
    """
    keys: Sequence[Any] = key if isinstance(key, list | tuple) else [key]
    expressions: list[Column] = [col(name) if isinstance(name, str) else name for name in keys]
    own = {"partitions": str(partitions), "provenance": str(provenance).lower()}
    told = read_options({**options, **own})
    session = records.sparkSession
    check_columns({field.name: field.dataType.simpleString() for field in records.schema.fields}, told.topic)
    _check_session(session, told)
    own["keyFingerprint"] = _check_key(records, expressions, partitions)
    own |= _check_cluster(session, told)
    if partitions > 1:
        records = records.repartition(partitions, *expressions).withColumn(KEYS, xxhash64(*expressions))
    else:
        records = records.repartition(1)
    _register(session)
    return records.writeStream.format(FORMAT).options(**{**options, **own})


def _register(session: SparkSession) -> None:
    with _by_value():
        parcel = zlib.compress(cloudpickle.dumps((prepare, write, give_up)), 9)  # type: ignore[no-untyped-call]
        session.dataSource.register(type(FORMAT, (KafkaExactlyOnce,), {"parcel": parcel}))


def _check_session(session: SparkSession, told: SinkOptions) -> None:
    if not told.checkpoint and not session.conf.get("spark.sql.streaming.checkpointLocation", None):
        raise SinkRefused(
            "no checkpoint is given",
            detail="Spark would make a temporary one, and after a restart write everything again",
            hint="set the option checkpointLocation to a folder that stays",
        )
    if str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise SinkRefused(
            "spark.speculation is on",
            detail="a second copy of a task fences the first one, whose failure counts against spark.task.maxFailures",
            hint="set spark.speculation to false for this application",
        )


def _check_key(records: DataFrame, expressions: Sequence[Column], partitions: int) -> str:
    """A fingerprint of the key: of the names that Spark gives to its expressions, for their own texts hold addresses
    and counters of one process. Spark says whether they are deterministic, too: it allows no others in an aggregate.
    """
    if partitions > 1 and not expressions:
        raise SinkRefused(
            f"there are {partitions} partitions, but no key",
            detail="without one, rows may go elsewhere when a batch is run again, and be lost or doubled",
            hint="name the columns that say where a row belongs, such as key='key'; or write with one partition",
        )
    names: list[str] = []
    for expression in expressions if partitions > 1 else ():
        try:
            names += records.groupBy().agg(count(expression)).columns
        except AnalysisException as error:
            hint = "use a key that depends on nothing but the input"
            if "NONDETERMINISTIC" in (error.getCondition() or ""):
                raise SinkRefused(
                    f"the key {expression} is not deterministic",
                    detail="rows would go elsewhere when a batch is run again, and be lost or doubled",
                    hint=hint,
                ) from error
            raise SinkRefused(
                f"the key {expression} cannot be used", detail=str(error).splitlines()[0], hint=hint
            ) from error
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] if names else ""


def _check_cluster(session: SparkSession, told: SinkOptions) -> dict[str, str]:
    """Look at Kafka from where the query will: inside a task. The addresses there may be none of this machine's.

    Returns what the sink is to know: the driver's clock from before, and for how long brokers keep offsets.
    """

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [json.dumps(check_cluster(told))]})

    with _by_value():
        looked = session.range(0, 1, 1, 1).mapInArrow(look, "answer STRING")
        [row] = looked.withColumn("now", unix_millis(current_timestamp())).collect()
    answer: dict[str, Any] = json.loads(row.answer)
    if "message" in answer:
        raise SinkRefused(answer["message"], detail=answer["detail"], hint=answer["hint"])
    return {
        "startedMs": str(row.now),
        **({"offsetsKeptSeconds": answer["kept_s"]} if "kept_s" in answer else {}),
    }


@contextmanager
def _by_value() -> Iterator[None]:
    modules = [sys.modules[name] for name in TRAVELS]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
