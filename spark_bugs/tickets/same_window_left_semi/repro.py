"""A left semi join of counts per window on both sides emits nothing.

Plain PySpark, nothing else: ``python repro.py``. The same join of the same rows is run as a batch query, which is
what SQL says, and as a streaming query. Prints both and the versions. Exit code 0: they are equal; 1: they differ.
"""

import json
import os
import platform
import sys
import tempfile

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, expr, window

# One entry for each micro-batch: the rows of the left side, then those of the right side.
BATCHES = [
    ([("a", "2026-01-01 00:00:01")], [("a", "2026-01-01 00:00:03")]),
    # These only move the watermark, to 01:40, so that the window of 00:00 to 00:10 is complete.
    ([("last", "2026-01-01 00:01:40")], [("last", "2026-01-01 00:01:40")]),
]
LEFT, RIGHT = "l_key STRING, l_time TIMESTAMP", "r_key STRING, r_time TIMESTAMP"
CONF = {}


def join(left, right):
    """The query under test, of two streams or of two tables."""
    left = left.withWatermark("l_time", "0 seconds").groupBy(
        "l_key", window("l_time", "10 seconds").alias("l_window")
    )
    right = right.withWatermark("r_time", "0 seconds").groupBy(
        "r_key", window("r_time", "10 seconds").alias("r_window")
    )
    left, right = left.agg(count("*").alias("l_rows")), right.agg(count("*").alias("r_rows"))
    condition = "l_key = r_key AND l_window = r_window AND l_rows >= r_rows"
    return left.join(right, expr(condition), "leftSemi").select("l_key", "l_rows")


def write(folder):
    """One file a side and micro-batch, each older than the next: the source reads them in this order."""
    for number, sides in enumerate(BATCHES):
        for side, schema, rows in zip("lr", (LEFT, RIGHT), sides, strict=True):
            names = [column.split()[0] for column in schema.split(", ")]
            path = os.path.join(folder, side, f"{number}.json")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
            os.utime(path, (1_700_000_000 + number,) * 2)


def rows_of(frame):
    """The rows as lists, without those of the rows that only move the watermark."""
    rows = [list(row) for row in frame.collect()]
    return sorted((row for row in rows if not any(str(one).startswith("last") for one in row)), key=str)


def main():
    """Run the batch query and the streaming query."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config(
        "spark.sql.shuffle.partitions", 1
    )
    for name, value in {"spark.sql.session.timeZone": "UTC", **CONF}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        write(folder)
        tables = [
            spark.read.schema(schema).json(f"{folder}/{side}") for side, schema in (("l", LEFT), ("r", RIGHT))
        ]
        expected = rows_of(join(*tables))
        streams = [
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{folder}/{side}")
            for side, schema in (("l", LEFT), ("r", RIGHT))
        ]
        query = (
            join(*streams).writeStream.format("memory").queryName("came").trigger(availableNow=True).start()
        )
        query.awaitTermination()
        got = rows_of(spark.table("came"))
        spark.stop()
    print(f"PySpark {pyspark.__version__}, Python {platform.python_version()}")
    print("expected, by SQL:", expected)
    print("got:             ", got)
    print("missing:         ", [row for row in expected if row not in got])
    print("too much:        ", [row for row in got if row not in expected])
    return int(got != expected)


if __name__ == "__main__":
    sys.exit(main())
