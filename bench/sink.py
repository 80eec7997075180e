"""The exactly-once sink against Spark's own Kafka sink: same rows, same stack, turn by turn.

    python -m bench.sink [--rows 400000] [--rounds 3]

Rows come from Spark's rate source, one large batch at a time, shuffled by the key to two partitions for both; what
is measured is the time of whole batches (``triggerExecution``), after a first one that is measured by itself. The fixed
cost is that of batches of ten rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, repeat

from bench._summary import print_result, say, summary
from tidemark import kafka
from tidemark.sink.start import write_exactly_once
from tidemark.stack import Stack, lease, spec_to_lease
from tidemark.wait import wait_until

BATCHES = 4
SIZES = (100, 500)
SINKS = ("spark", "exactly-once", "exactly-once, one partition")
BATCH_S = 300.0
"""Calibration: a batch of 400,000 rows takes 2-6 s."""


def batch_times_ms(stack: Stack, session: SparkSession, sink: str, rows: int, size: int) -> list[int]:
    """How long each of the first batches of a new query took, in milliseconds."""
    name = f"bench-sink-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {name: 2})
    records = _records(session, rows, size)
    options = {"kafka.bootstrap.servers": stack.bootstrap_inside, "topic": name}
    options["checkpointLocation"] = str(stack.work_dir(name))
    if sink == "spark":
        writer = records.repartition(2, "key").writeStream.format("kafka").options(**options)
    elif sink == "exactly-once":
        writer = write_exactly_once(records, options, partitions=2, key="key")
    else:
        writer = write_exactly_once(records, options)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        return wait_until(
            lambda: _reported(query), BATCH_S, lambda: f"{BATCHES} batches of {sink}", poll_s=0.2
        )
    finally:
        query.stop()
        kafka.delete_topics(stack.bootstrap_servers, [name])


def _records(session: SparkSession, rows: int, size: int) -> DataFrame:
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    value = repeat(col("value").cast("string"), size).substr(1, size)
    return source.select(col("value").cast("string").alias("key"), value.alias("value"))


def _reported(query: Any) -> list[int] | None:
    failure = query.exception()
    if failure is not None:
        raise failure
    reports = [json.loads(report.json) for report in query.recentProgress]
    times = [
        report["durationMs"]["triggerExecution"] for report in reports if "addBatch" in report["durationMs"]
    ]
    return times[:BATCHES] if len(times) >= BATCHES else None


def compare(stack: Stack, session: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    """Rows a second of each sink by size of the value, turn by turn, and what a batch of ten rows costs."""
    result: dict[str, Any] = {}
    for size in SIZES:
        speeds: dict[str, list[float]] = {sink: [] for sink in SINKS}
        for _ in range(rounds):
            for sink in SINKS:
                times = batch_times_ms(stack, session, sink, rows, size)[1:]
                speeds[sink].append(rows * 1000 / median(times))
                say(f"{size} B, {sink}: {speeds[sink][-1]:,.0f} rows/s")
        for sink in SINKS:
            result[f"{sink}, {size} B"] = summary(f"{sink}, {size} B", "rows/s", speeds[sink])
            result[f"{sink}, {size} B, ratio"] = round(median(speeds[sink]) / median(speeds["spark"]), 2)
    for sink in SINKS:
        few = [batch_times_ms(stack, session, sink, 10, 100) for _ in range(rounds)]
        say(f"{sink}: first batch {few[-1][0]} ms, then {few[-1][1:]} ms")
        result[f"{sink}, first batch"] = summary(f"{sink}, first batch", "ms", [times[0] for times in few])
        later = [time for times in few for time in times[1:]]
        result[f"{sink}, later batch"] = summary(f"{sink}, later batch", "ms", later)
    return result


def main() -> int:
    """Lease a stack, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.sink", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with lease(spec_to_lease()) as stack:
        session = SparkSession.builder.remote(stack.driver().remote).create()
        try:
            session.conf.set("spark.sql.artifact.isolation.enabled", "false")
            print_result(compare(stack, session, args.rows, args.rounds))
        finally:
            session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
