"""A left outer join with a watermark on the right side only never emits the NULL row of an unmatched left row.

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
from pyspark.sql.functions import expr

# One entry for each micro-batch: the rows of the left side, then those of the right side.
BATCHES = [
    # The watermark is 01:40 after this batch, and no right row that L1 could match can come any more.
    ([("L1", "a", "2026-01-01 00:00:10")], [("R1", "b", "2026-01-01 00:01:40")]),
]
LEFT, RIGHT = "l_id STRING, l_key STRING, l_time TIMESTAMP", "r_id STRING, r_key STRING, r_time TIMESTAMP"
CONF = {}


def join(left, right):
    """The query under test, of two streams or of two tables."""
    right = right.withWatermark("r_time", "0 seconds")
    condition = """
        l_key = r_key AND l_time BETWEEN r_time - INTERVAL 1 SECOND AND r_time + INTERVAL 1 SECOND
    """
    return left.join(right, expr(condition), "leftOuter").select("l_id", "r_id")


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
