"""The exactly-once sink in a classic session, as a program: ``python sink_classic.py BOOTSTRAP TOPIC CHECKPOINT``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tidemark.sink.start import write_exactly_once

bootstrap, topic, checkpoint = sys.argv[1:]
session = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
records = rows.select(col("value").cast("string").alias("value"))
options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": checkpoint}
query = write_exactly_once(records, options, partitions=2, key="value").start()
while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 2):
    query.awaitTermination(1)
failure = query.exception()
if failure is not None:
    raise failure
query.stop()
session.stop()
