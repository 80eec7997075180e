"""The exactly-once sink in a classic session, as a program that is told what to be: ``python sink_program.py JSON``.

``root`` is where this project's code is, ``folder`` that of a trap, ``conf`` are Spark's settings. It says the query's
id, and ends after the batch ``until``, or with the error of the query.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, rpad, udf

told = json.loads(sys.argv[1])
sys.path.insert(0, told["root"])

from tests.e2e.sinks import SMALL_BATCHES, WIDTH, Trap, await_batch, end  # noqa: E402
from tidemark.errors import SinkRefused  # noqa: E402
from tidemark.sink import write_exactly_once  # noqa: E402


def main() -> None:
    builder = SparkSession.builder.master(told["master"])
    for name, value in {"spark.ui.enabled": "false", **SMALL_BATCHES, **told.get("conf", {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()

    @udf("string", useArrow=True)
    def checked(text):
        from importlib.util import find_spec

        if find_spec("tidemark") is not None:
            raise RuntimeError("tidemark is to be had here")
        return text

    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", told["rows"]).load()
    records = rows.select(col("value").cast("string").alias("value"))
    records = records.withColumn("key", checked("value")).withColumn("value", rpad("value", WIDTH, "."))
    trap = Trap(Path(told["folder"]))
    options = {
        "kafka.bootstrap.servers": told["bootstrap"],
        "topic": told["topic"],
        "checkpointLocation": told["checkpoint"],
    }
    try:
        query = write_exactly_once(records, options, partitions=2, key=trap.key()).start()
    except SinkRefused as error:
        sys.exit(f"refused: {error}")
    print(query.id, flush=True)
    await_batch(query, told["until"])
    end(query, session)


if __name__ == "__main__":
    main()
