"""A query as somebody else wrote it: ``foreign_join.py BOOTSTRAP ORDERS PAYMENTS OUTPUT CHECKPOINT [NAME=VALUE ...]``.

A left outer join of two topics with Spark's own source and sink, in a classic session, without a line of tidemark. It
runs until it is killed. ``slow.ms=N`` makes the sink wait before each row, so that a batch can be killed between its
first row and its last; ``format=parquet`` or ``delta`` writes a table into the folder OUTPUT; others are settings of
the session. ``orders=text`` reads orders that are no JSON: number and time are in the value, the customer is the key.
If settings ask for source or sink evolution, the sources or the sink have the names that Spark then needs.
"""

from __future__ import annotations

import os
import sys
import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json

ORDERS = "order_id STRING, customer STRING, ordered_at TIMESTAMP"
PAYMENTS = "payment_id STRING, customer STRING, paid_at TIMESTAMP"
SOON = "o.customer = p.customer AND paid_at >= ordered_at AND paid_at <= ordered_at + INTERVAL 20 SECONDS"


def main(bootstrap: str, orders: str, payments: str, output: str, checkpoint: str, *pairs: str) -> None:
    """Start the query, and run until this process is killed or its parent process ends."""
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    conf = dict(pair.split("=", 1) for pair in pairs)
    slow_ms, form = int(conf.pop("slow.ms", "0")), conf.pop("format", "kafka")
    read = texts if conf.pop("orders", "json") == "text" else events
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in {"spark.sql.shuffle.partitions": "2", **conf}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    left = read(session, bootstrap, orders, ORDERS).withWatermark("ordered_at", "10 seconds")
    right = events(session, bootstrap, payments, PAYMENTS).withWatermark("paid_at", "20 seconds")
    joined = left.alias("o").join(right.alias("p"), expr(SOON), "leftOuter")
    row = to_json(struct("order_id", "payment_id")).alias("value")
    records = joined.select(row, "order_id", "payment_id")
    if slow_ms:
        records = records.where(
            f"java_method('java.lang.Thread', 'sleep', {slow_ms}L) IS NULL OR value <> ''"
        )
    if form == "kafka":
        writer = records.select("value").writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", output)
    else:
        writer = records.drop("value").writeStream.format(form).option("path", output)
    writer = writer.option("checkpointLocation", checkpoint)
    if evolves(session, "Sink"):
        writer._jwrite.name("paid")  # Python's writer of Spark 4.3.0 lacks the method
    writer.trigger(processingTime="100 milliseconds").start().awaitTermination()


def events(session: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    """The events of a topic; a record without an event time is none."""
    fields = from_json(col("value").cast("string"), schema).alias("event")
    records = source_of(session, bootstrap, topic, schema)
    return records.select(fields).select("event.*").where(f"{schema.split()[-2]} IS NOT NULL")


def texts(session: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    """The same of records whose value is ``ID|TIME`` and whose key is the customer."""
    name, key, time = schema.split()[::2]
    parts = "split(CAST(value AS STRING), '[|]')"
    fields = (
        f"get({parts}, 0) AS {name}",
        f"CAST(key AS STRING) AS {key}",
        f"try_cast(get({parts}, 1) AS TIMESTAMP) AS {time}",
    )
    return source_of(session, bootstrap, topic, schema).selectExpr(*fields).where(f"{time} IS NOT NULL")


def source_of(session: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    """The records of a topic, from its beginning."""
    source = session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    if evolves(session, "Source"):
        source = source.name(schema.split(maxsplit=1)[0])
    return source.option("subscribe", topic).option("startingOffsets", "earliest").load()


def evolves(session: SparkSession, what: str) -> bool:
    """Whether the session has source evolution or sink evolution."""
    return session.conf.get(f"spark.sql.streaming.queryEvolution.enable{what}Evolution", "false") == "true"


if __name__ == "__main__":
    main(*sys.argv[1:])
