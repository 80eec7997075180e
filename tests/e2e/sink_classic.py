"""The exactly-once sink in a classic session: ``sink_classic.py BOOTSTRAP TOPIC CHECKPOINT ROWS [slowly]``.

Writes three batches and ends, stopping in the middle of the next one as like as not; ``slowly``: a batch takes minutes,
and the program ends when it is told a line on standard input.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lpad

from tests.e2e.sinks import await_batch, end
from tidemark.sink import write_exactly_once

bootstrap, topic, checkpoint, per_batch, *slowly = sys.argv[1:]
session = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    .getOrCreate()
)
rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", int(per_batch)).load()
records = rows.select(lpad(col("value").cast("string"), 500, " ").alias("value"))
options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": checkpoint}
if slowly:
    options |= {"kafka.linger.ms": "1000", "kafka.buffer.memory": "65536"}
query = write_exactly_once(records, options, partitions=2, key="value").start()
if slowly:
    sys.stdin.readline()
else:
    await_batch(query, 2)
end(query, session)
