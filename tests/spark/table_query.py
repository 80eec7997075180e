"""A query that writes a table: ``table_query.py FORMAT OUTPUT CHECKPOINT [NAME=VALUE ...]``.

A classic session, without a line of tidemark, that runs until it is killed or its standard input ends. Batch N reads
the values from ``20 * N`` on, odd ones in one task and even ones in the other. ``slow.ms=T`` makes the first of them
wait before each row, so that a batch can be killed when one of its tasks is done and the other is not.
``sql=STATEMENT;STATEMENT`` is run before the query starts. Other pairs are settings of the session.
"""

from __future__ import annotations

import os
import sys
import threading

from pyspark.sql import SparkSession

ROWS = 20
"""Rows of a batch."""
START_MS = 1_767_225_600_000
STEP_MS = 1_500
"""All rows of batch N have the time ``START_MS + N * STEP_MS``."""


def main(form: str, output: str, checkpoint: str, *pairs: str) -> None:
    """Start it, and wait until it is killed."""
    threading.Thread(target=end_with_input, daemon=True).start()
    conf = dict(pair.split("=", 1) for pair in pairs)
    slow_ms, statements = int(conf.pop("slow.ms", "0")), conf.pop("sql", "")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in {"spark.sql.session.timeZone": "America/New_York", **conf}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for statement in filter(None, statements.split(";")):
        session.sql(statement)
    source = session.readStream.format("rate-micro-batch")
    source = source.option("rowsPerBatch", ROWS).option("numPartitions", 2)
    rows = source.option("startTimestamp", START_MS).option("advanceMillisPerBatch", STEP_MS).load()
    if slow_ms:
        slowly = f"java_method('java.lang.Thread', 'sleep', {slow_ms}L) IS NULL"
        rows = rows.where(f"value % 2 = 0 OR {slowly} OR value >= 0")
    rows = rows.selectExpr(
        "value",
        "concat('r', value) AS id",
        "timestamp AS at",
        "IF(value % 3 = 0, NULL, value) AS other",
        "concat('a b:', value % 2) AS shop",
    )
    writer = rows.writeStream.format(form).partitionBy("shop").option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="100 milliseconds").start(output).awaitTermination()


def end_with_input() -> None:
    """End at once when the program that started this one has ended; the JVM ends with its own input then."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
