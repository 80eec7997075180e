"""The exactly-once sink against Spark's own Kafka sink: same rows, same stack, turn by turn.

    python -m bench.sink [--rows 400000] [--rounds 3]

Rows come from Spark's rate source, one large batch at a time, shuffled by the key to two partitions for both; what
is measured is the time of whole batches (``triggerExecution``), after a first one that is measured by itself. The fixed
cost is that of batches of ten rows.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, repeat

from bench._summary import print_result, say, summary
from tidemark import paths
from tidemark.kafka import client as kafka
from tidemark.sink import write_exactly_once
from tidemark.stack import Stack, lease, spec_to_lease
from tidemark.waiting import wait_until

BATCHES = 4
SIZES = (100, 500)
SMALL_BATCHES, WARM = 20, 5
SINKS = ("spark", "exactly-once", "exactly-once, one partition", "spark, no shuffle")
BATCH_S = 300.0
"""Calibration: a batch of 400,000 rows takes 2-6 s."""


@dataclass(frozen=True)
class Load:
    """So many batches of so many rows, with values of so many bytes."""

    rows: int
    size: int
    batches: int = BATCHES


def batch_times_ms(stack: Stack, session: SparkSession, sink: str, load: Load) -> list[int]:
    """How long each of the first batches of a new query took, in milliseconds."""
    name = f"bench-sink-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {name: 2})
    records = _records(session, load.rows, load.size)
    options = {"kafka.bootstrap.servers": stack.bootstrap_inside, "topic": name}
    options["checkpointLocation"] = str(stack.work_dir(name))
    if sink == "spark":
        writer = records.repartition(2, "key").writeStream.format("kafka").options(**options)
    elif sink == "spark, no shuffle":
        writer = records.writeStream.format("kafka").options(**options)
    elif sink == "exactly-once":
        writer = write_exactly_once(records, options, partitions=2, key="key")
    else:
        writer = write_exactly_once(records, options)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        return wait_until(
            lambda: _reported(query, load.batches), BATCH_S, lambda: f"batches of {sink}: {load}", poll_s=0.2
        )
    finally:
        query.stop()
        kafka.delete_topics(stack.bootstrap_servers, [name])


def _records(session: SparkSession, rows: int, size: int) -> DataFrame:
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    value = repeat(col("value").cast("string"), size).substr(1, size)
    return source.select(col("value").cast("string").alias("key"), value.alias("value"))


def _reported(query: Any, count: int) -> list[int] | None:
    failure = query.exception()
    if failure is not None:
        raise failure
    reports = [json.loads(report.json) for report in query.recentProgress]
    times = [
        report["durationMs"]["triggerExecution"] for report in reports if "addBatch" in report["durationMs"]
    ]
    return times[:count] if len(times) >= count else None


def compare(stack: Stack, session: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    """Rows a second of each sink by size of the value, turn by turn, and what a batch of ten rows costs."""
    result: dict[str, Any] = {}
    for size in SIZES:
        speeds: dict[str, list[float]] = {sink: [] for sink in SINKS}
        for _ in range(rounds):
            for sink in SINKS:
                with Memory() as memory:
                    times = batch_times_ms(stack, session, sink, Load(rows, size))[1:]
                speeds[sink].append(rows * 1000 / median(times))
                say(
                    f"{size} B, {sink}: {speeds[sink][-1]:,.0f} rows/s, workers up to {memory.peak_mib:.0f} MiB"
                )
                if size == max(SIZES) and sink == "exactly-once":
                    result["peak of a worker"] = summary("peak of a Python worker", "MiB", [memory.peak_mib])
        for sink in SINKS:
            result[f"{sink}, {size} B"] = summary(f"{sink}, {size} B", "rows/s", speeds[sink])
            ratios = [own / spark for own, spark in zip(speeds[sink], speeds["spark"], strict=True)]
            result[f"{sink}, {size} B, ratio"] = summary(f"{sink} / spark, {size} B", "", ratios)
            say(f"{sink}, {size} B: {shown(ratios)} of Spark's own")
    result.update(fixed_cost(stack, session, rounds))
    return result


def fixed_cost(stack: Stack, session: SparkSession, rounds: int) -> dict[str, Any]:
    """What batches of ten rows take, and by how much more than with Spark's own sink, round by round."""
    result: dict[str, Any] = {}
    first: dict[str, list[float]] = {sink: [] for sink in SINKS}
    later: dict[str, list[float]] = {sink: [] for sink in SINKS}
    for _ in range(rounds):
        for sink in SINKS:
            times = batch_times_ms(stack, session, sink, Load(10, 100, SMALL_BATCHES))
            first[sink].append(times[0])
            later[sink].append(median(times[WARM:]))
            say(f"{sink}: first batch {times[0]} ms, later ones {later[sink][-1]:.0f} ms")
    for what, taken in (("first", first), ("later", later)):
        for sink in SINKS:
            more = [own - spark for own, spark in zip(taken[sink], taken["spark"], strict=True)]
            result[f"{sink}, {what} batch"] = summary(f"{sink}, {what} batch", "ms", taken[sink])
            result[f"{sink}, {what} batch, more"] = summary(f"{sink} - spark, {what} batch", "ms", more)
            say(f"{sink}, {what} batch: {shown(more)} ms more than Spark's own")
    return result


def shown(runs: list[float]) -> str:
    """Least, median and most."""
    return f"{min(runs):.2f} / {median(runs):.2f} / {max(runs):.2f}"


class Memory:
    """The largest share of memory (PSS) that one of Spark's Python workers of this stack has, looked at meanwhile."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    command = (folder / "cmdline").read_bytes().split(b"\0")
                    mine = (folder / "cwd").readlink().is_relative_to(paths.state_dir())
                    if not mine or command[-2:-1] != [b"pyspark.worker"]:
                        continue
                    pss = re.search(r"^Pss:\s+(\d+)", (folder / "smaps_rollup").read_text(), re.MULTILINE)
                except OSError:
                    continue  # it has ended
                self.peak_mib = max(self.peak_mib, int(pss[1]) / 1024 if pss else 0.0)


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
