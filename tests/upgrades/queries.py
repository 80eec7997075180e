"""Some streaming joins in one classic session, on any Spark from 3.5: ``queries.py FILE``. Not a line of tidemark.

FILE is JSON: ``bootstrap``, and ``queries``, each with ``name``, ``kind``, ``left``, ``right``, ``output`` (topics),
``checkpoint``, ``conf``, and what is other than usual: ``delays_s``, ``upper_s``, ``where``, ``more``, ``keys``,
``condition``, ``equal`` (times, in the place of their bound), ``at_most`` (records of a topic in a batch).
``executors`` is how many processes the tasks run in, one task each; with 0 they are threads of this one's JVM,
``slots`` of them. ``stall`` is the id of a left row before which the sink waits for an hour, so that the program can be
killed in the middle of a batch.

Each output record names its query, its batch, the version of Spark that wrote it, and how many executors there were;
its key is its value, so that the partitions of a topic share the records. A line of JSON on standard output says of
each query that it was started, or which exception ended it: whether that is a refusal is not decided here. A line on
standard input is the name of a query to stop; when standard input ends, all are stopped.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, col, expr, from_json, lit, struct, to_json

KINDS = {
    "inner": "inner",
    "left_outer": "leftOuter",
    "right_outer": "rightOuter",
    "full_outer": "fullOuter",
    "left_semi": "leftSemi",
}
TRIGGER = "2 seconds"
_said = threading.Lock()


def main(path: str) -> None:
    """Start them all, and stop them when standard input ends."""
    asked = json.loads(Path(path).read_text(encoding="utf-8"))
    slots = asked["slots"] + sum(
        bool(one.get("stall")) for one in asked["queries"]
    )  # a query that waits keeps one
    executors = asked.get("executors", 0)
    master = f"local-cluster[{executors},1,1024]" if executors else f"local[{slots}]"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    if executors:  # so many are waited for before the first job
        builder = builder.config("spark.cores.max", str(executors))
    builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    builder = builder.config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    running = {}
    for one in asked["queries"]:
        try:
            query = started(session.newSession(), asked, one)
        except Exception as error:  # noqa: BLE001 - whatever Spark says is what is asked for
            say(one["name"], "refused", error)
            continue
        say(one["name"], "started")
        running[one["name"]] = query
        threading.Thread(target=watch, args=(one["name"], query), daemon=True).start()
    for name in sys.stdin:
        running.pop(name.strip()).stop()
        say(name.strip(), "stopped")
    for query in running.values():
        query.stop()
    session.stop()


def started(session: SparkSession, asked: dict, one: dict):
    """One query, started."""
    for name, value in {"spark.sql.shuffle.partitions": "2", **one.get("conf", {})}.items():
        session.conf.set(name, value)
    upper_s = one.get("upper_s", 20)
    left, right = (events(session, asked["bootstrap"], one, side) for side in ("left", "right"))
    if one.get("where"):
        left = left.where(one["where"])
    equal = " AND ".join(f"l_{key} = r_{key}" for key in one.get("keys", ["key"]))
    within = f"r_time >= l_time AND r_time <= l_time + INTERVAL {upper_s} SECONDS"
    conjuncts = [equal, "l_time = r_time" if one.get("equal") else within, one.get("condition", "true")]
    joined = left.join(right, expr(" AND ".join(conjuncts)), KINDS[one["kind"]])
    ids = ["l_id"] if one["kind"] == "left_semi" else ["l_id", "r_id"]
    if one.get("more"):  # then the state has this column, too
        ids.append("l_price")
    records = joined.select(to_json(struct(*ids), {"ignoreNullFields": "false"}).alias("value"), *ids)
    if one.get("stall"):
        wait = f"CASE WHEN l_id = '{one['stall']}' THEN 3600000L ELSE 0L END"
        records = records.where(f"java_method('java.lang.Thread', 'sleep', {wait}) IS NULL OR value <> ''")
    writer = records.select("value").writeStream.foreachBatch(sink(asked["bootstrap"], one))
    return (
        writer.option("checkpointLocation", one["checkpoint"]).trigger(
            processingTime=one.get("trigger", TRIGGER)
        )
    ).start()


def events(session: SparkSession, bootstrap: str, one: dict, side: str) -> DataFrame:
    """The events of the left or the right topic, from its beginning."""
    mine = side[0]
    fields = {"id": "STRING", "key": "STRING", "lot": "STRING", "time": "TIMESTAMP", "price": "BIGINT"}
    schema = ", ".join(f"{mine}_{name} {of}" for name, of in fields.items())
    source = session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    source = source.option("subscribe", one[side]).option("startingOffsets", "earliest")
    if one.get("at_most"):
        source = source.option("maxOffsetsPerTrigger", str(one["at_most"]))
    records = source.load().select(from_json(col("value").cast("string"), schema).alias("e"))
    delay_s = one.get("delays_s", (10, 20))[side == "right"]
    read = records.select("e.*").where(f"{mine}_time IS NOT NULL")
    return read.withWatermark(f"{mine}_time", f"{delay_s} seconds")


def sink(bootstrap: str, one: dict):
    """Writes a batch to Kafka; each record says by which query, in which batch and on which Spark."""

    def write(batch: DataFrame, number: int) -> None:
        query = json.loads((Path(one["checkpoint"]) / "metadata").read_text(encoding="utf-8"))["id"]
        living = batch.sparkSession.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # the driver, too
        says = {"query": query, "batch": str(number), "spark": batch.sparkSession.version}
        says["executors"] = str(living - 1)
        headers = [
            struct(lit(name).alias("key"), lit(value).cast("binary").alias("value"))
            for name, value in says.items()
        ]
        records = batch.withColumn("key", col("value")).withColumn("headers", array(*headers))
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        writer.option("includeHeaders", "true").option("topic", one["output"]).save()

    return write


def watch(name: str, query) -> None:
    """Say why a query ended."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - whatever Spark says is what is asked for
        say(name, "refused", error)


def say(name: str, what: str, error: Exception | None = None) -> None:
    """A line for the program that started this one."""
    words = "" if error is None else str(error) or repr(error)
    with _said:
        print(json.dumps({"name": name, "what": what, "words": words[:4000]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
