"""A query as somebody else wrote it: ``foreign_join.py BOOTSTRAP LEFT RIGHT OUTPUT CHECKPOINT [NAME=VALUE ...]``.

A left outer join of two topics with Spark's own source and sink, in a classic session, without a line of tidemark. It
runs until it is killed; ``slow.partition=N`` makes the task of that partition wait, so that a batch can be killed
between its first rows and its last. Other settings are the session's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json

ORDERS = "order_id STRING, customer STRING, ordered_at TIMESTAMP"
PAYMENTS = "payment_id STRING, customer STRING, paid_at TIMESTAMP"
SOON = "o.customer = p.customer AND paid_at >= ordered_at AND paid_at <= ordered_at + INTERVAL 20 SECONDS"


def main(bootstrap: str, left: str, right: str, output: str, checkpoint: str, *pairs: str) -> None:
    """Start it, and wait."""
    conf = dict(pair.split("=", 1) for pair in pairs)
    slow_s = float(conf.pop("slow.seconds", "0"))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    orders = topic(session, bootstrap, left, ORDERS).withWatermark("ordered_at", "10 seconds")
    payments = topic(session, bootstrap, right, PAYMENTS).withWatermark("paid_at", "20 seconds")
    joined = orders.alias("o").join(payments.alias("p"), expr(SOON), "leftOuter")
    records = joined.select(to_json(struct("order_id", "payment_id")).alias("value"))
    if slow_s:
        records = records.mapInPandas(lambda frames: slowly(frames, slow_s), "value STRING")
    query = (
        records.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", output)
        .option("kafka.linger.ms", "0")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.awaitTermination()


def topic(session: SparkSession, bootstrap: str, name: str, schema: str) -> DataFrame:
    """The events of a topic."""
    source = session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    records = source.option("subscribe", name).option("startingOffsets", "earliest").load()
    fields = from_json(col("value").cast("string"), schema)
    return records.select(fields.alias("event")).select("event.*").where(expr(f"{schema.split()[-2]} IS NOT NULL"))


def slowly(frames: Iterator, seconds: float) -> Iterator:
    """The same rows, one by one, each after a while."""
    for frame in frames:
        for at in range(len(frame)):
            yield frame.iloc[at : at + 1]
            time.sleep(seconds)  # noqa: TID251 (a program that knows nothing of tidemark)


if __name__ == "__main__":
    main(*sys.argv[1:])
