"""FileSystemBasedCheckpointFileManager keeps the state file of a batch's first run when the batch is run again.

Plain PySpark, nothing else: ``python repro.py``. A streaming query sums amounts times a rate, which it reads from a
table. Its first batch is run, the driver dies before the batch is in the commit log, the rate changes, and the batch is
run again; then comes a second batch. Done with Spark's default manager of checkpoint files and with the one for plain
file systems. Prints the total that each batch gave, and the versions. Exit code 0: both give the same; 1: they differ.
"""

import json
import os
import platform
import sys
import tempfile

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
NAME = "FileSystemBasedCheckpointFileManager"
PACKAGE = "org.apache.spark.sql.execution.streaming"
if int(pyspark.__version__.split(".")[0]) > 4 or pyspark.__version__.startswith(("4.1.", "4.2.", "4.3.")):
    PACKAGE += ".checkpointing"  # the class has moved in 4.1

# By SQL: 10 x 2, the last word on the first batch, and then 5 x 2 more.
EXPECTED = [20, 30]


def write(path, number, row):
    """One file with one row; the source reads the older file first."""
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, f"{number}.json"), "w") as file:
        file.write(json.dumps(row) + "\n")
    os.utime(os.path.join(path, f"{number}.json"), (1_700_000_000 + number,) * 2)


def run(spark, folder):
    """Start the query on the files that are there, and end it; returns the totals of its batches by batch."""
    totals = {}
    amounts = spark.readStream.schema("amount INT").option("maxFilesPerTrigger", 1).json(f"{folder}/amounts")
    rates = spark.read.schema("rate INT").json(f"{folder}/rates")
    summed = amounts.crossJoin(rates).groupBy().agg(expr("sum(amount * rate)"))
    query = (
        summed.writeStream.outputMode("complete")
        .foreachBatch(lambda rows, batch: totals.update({batch: rows.collect()[0][0]}))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return totals


def case(spark, folder):
    """The totals of both batches, and whether the state file of the first was replaced."""
    state = f"{folder}/checkpoint/state/0/0/1.delta"
    write(f"{folder}/rates", 0, {"rate": 1})
    write(f"{folder}/amounts", 0, {"amount": 10})
    run(spark, folder)
    made = os.stat(state).st_ino
    # As after a driver that died when the batch was written, and not yet in the commit log.
    for name in ("0", ".0.crc"):
        path = f"{folder}/checkpoint/commits/{name}"
        if os.path.exists(path):
            os.remove(path)
    write(f"{folder}/rates", 0, {"rate": 2})
    totals = run(spark, folder)
    replaced = os.stat(state).st_ino != made
    write(f"{folder}/amounts", 1, {"amount": 5})
    totals |= run(spark, folder)
    left = [name for name in os.listdir(os.path.dirname(state)) if name.endswith(".tmp")]
    return [totals.get(0), totals.get(1)], replaced, len(left)


def main():
    """Run the case with both managers."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config(
        "spark.sql.shuffle.partitions", 1
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(f"PySpark {pyspark.__version__}, Python {platform.python_version()}")
    print("expected, by SQL:", EXPECTED)
    came = {}
    for name, manager in (("default manager", None), (NAME, f"{PACKAGE}.{NAME}")):
        if manager:
            spark.conf.set(SETTING, manager)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            came[name], replaced, left = case(spark, folder)
        words = "replaced" if replaced else "left as it was"
        print(f"got, {name}: {came[name]}; the state file was {words}, {left} temporary files are left")
    spark.stop()
    return int(any(totals != EXPECTED for totals in came.values()))


if __name__ == "__main__":
    sys.exit(main())
