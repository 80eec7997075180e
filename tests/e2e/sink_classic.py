"""The exactly-once sink in a classic session: ``python sink_classic.py BOOTSTRAP TOPIC CHECKPOINT [slowly]``.

Writes three batches and ends, stopping in the middle of the next one as like as not; ``slowly``: a batch takes seconds,
and the program ends when it is told a line on standard input.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lpad

from tidemark.sink.start import write_exactly_once

bootstrap, topic, checkpoint, *slowly = sys.argv[1:]
session = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    .getOrCreate()
)
rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 30_000).load()
records = rows.select(lpad(col("value").cast("string"), 500, " ").alias("value"))
options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": checkpoint}
if slowly:
    options |= {"kafka.linger.ms": "20", "kafka.buffer.memory": "65536"}
query = write_exactly_once(records, options, partitions=2, key="value").start()
if slowly:
    sys.stdin.readline()
while not slowly and query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 2):
    query.awaitTermination(1)
failure = query.exception()
if failure is not None:
    raise failure
query.stop()
session.stop()
