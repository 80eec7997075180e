"""Joins of two streams, each with a plan of its own kind; nothing of them is ever run.

``python -m tests.spark.plan_queries REMOTE`` records their plans for the unit tests; ``test_plans`` compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, expr, from_json, udf

RECORDED = Path(__file__).parents[1] / "unit" / "preflight" / "recorded"
LEFT = "impression_id STRING, user_id STRING, ad_id STRING, price BIGINT, impression_time TIMESTAMP"
RIGHT = "click_id STRING, user_id STRING, ad_id STRING, price BIGINT, click_time TIMESTAMP"

KEYS = "i.user_id = c.user_id AND i.ad_id = c.ad_id"
WITHIN = "c.click_time >= i.impression_time AND c.click_time <= i.impression_time + INTERVAL 20 SECONDS"
RANGE = f"{KEYS} AND {WITHIN}"
WINDOW = "window({time}, '10 seconds') AS w"

Build = Callable[[SparkSession], DataFrame]


def read(session: SparkSession, schema: str) -> DataFrame:
    lines = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    return lines.select(from_json(col("value"), schema).alias("event")).select("event.*")


def impressions(session: SparkSession) -> DataFrame:
    return read(session, LEFT).where("impression_time IS NOT NULL")


def clicks(session: SparkSession) -> DataFrame:
    return read(session, RIGHT).where("click_time IS NOT NULL")


def join(
    kind: str, condition: str, *, left: str | None = "10 seconds", right: str | None = "20 seconds"
) -> Build:
    def build(session: SparkSession) -> DataFrame:
        shown, clicked = impressions(session), clicks(session)
        shown = shown.withWatermark("impression_time", left) if left else shown
        clicked = clicked.withWatermark("click_time", right) if right else clicked
        return shown.alias("i").join(clicked.alias("c"), expr(condition), kind)

    return build


def in_windows(kind: str, condition: str) -> Build:
    def build(session: SparkSession) -> DataFrame:
        shown = impressions(session).withWatermark("impression_time", "10 seconds")
        clicked = clicks(session).withWatermark("click_time", "20 seconds")
        shown = shown.selectExpr("* EXCEPT (impression_time)", WINDOW.format(time="impression_time"))
        clicked = clicked.selectExpr("* EXCEPT (click_time)", WINDOW.format(time="click_time"))
        return shown.alias("i").join(clicked.alias("c"), expr(f"{KEYS} AND {condition}"), kind)

    return build


def filtered(session: SparkSession) -> DataFrame:
    shown = impressions(session).withWatermark("impression_time", "10 seconds").where("price >= 5")
    clicked = clicks(session).where("price < 9").withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "inner").where("i.price < c.price")


def key_filtered(*, observed: bool) -> Build:
    """A filter on a key; what is observed stays above what reads the records, and Spark infers from it."""

    def build(session: SparkSession) -> DataFrame:
        shown, clicked = impressions(session), clicks(session)
        if observed:
            shown, clicked = (one.observe(name, count("*")) for name, one in (("i", shown), ("c", clicked)))
        shown = shown.where("price >= 5").withWatermark("impression_time", "10 seconds").alias("i")
        clicked = clicked.withWatermark("click_time", "20 seconds").alias("c")
        return shown.join(clicked, expr(f"i.price = c.price AND {WITHIN} AND c.price < 9"), "leftOuter")

    return build


def null_time(session: SparkSession) -> DataFrame:
    shown = read(session, LEFT).withWatermark("impression_time", "10 seconds")
    clicked = read(session, RIGHT).withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "leftOuter")


def renamed(session: SparkSession) -> DataFrame:
    shown = impressions(session).withColumnsRenamed({"user_id": "uid", "impression_time": "shown"})
    shown = shown.withWatermark("shown", "10 seconds").withColumn(
        "latest", expr("shown + INTERVAL 20 SECONDS")
    )
    text = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS v")
    fields = ("user_id", "ad_id", "click_id")
    clicked = text.selectExpr(
        *(f"get_json_object(v, '$.{field}') AS c_{field}" for field in fields),
        "CAST(get_json_object(v, '$.click_time') AS TIMESTAMP) AS clicked",
    )
    clicked = clicked.where("clicked IS NOT NULL").withWatermark("clicked", "20 seconds")
    condition = "uid = c_user_id AND ad_id = c_ad_id AND clicked BETWEEN shown AND latest"
    return shown.join(clicked, expr(condition), "leftOuter")


def arrival_time(session: SparkSession) -> DataFrame:
    shown = impressions(session).withColumn("impression_time", expr("TIMESTAMP '2026-01-01 00:00:00'"))
    shown = shown.withWatermark("impression_time", "10 seconds")
    clicked = clicks(session).withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "leftOuter")


def other_column(session: SparkSession) -> DataFrame:
    shown = impressions(session).withColumn("seen", expr("impression_time + INTERVAL 3 DAYS"))
    shown = shown.withWatermark("impression_time", "10 seconds")
    clicked = clicks(session).withWatermark("click_time", "20 seconds")
    condition = RANGE.replace("i.impression_time", "i.seen")
    return shown.alias("i").join(clicked.alias("c"), expr(condition), "leftOuter")


def clicks_first(session: SparkSession) -> DataFrame:
    shown = impressions(session).withWatermark("impression_time", "10 seconds")
    clicked = clicks(session).withWatermark("click_time", "20 seconds")
    return clicked.alias("c").join(shown.alias("i"), expr(RANGE), "rightOuter")


def deduplicated(session: SparkSession) -> DataFrame:
    shown = impressions(session).withWatermark("impression_time", "10 seconds")
    shown = shown.dropDuplicatesWithinWatermark(["impression_id"])
    clicked = clicks(session).withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "inner")


def counted(session: SparkSession) -> DataFrame:
    joined = join("inner", RANGE)(session)
    return joined.groupBy(expr("window(impression_time, '10 seconds')")).count()


def two_joins(session: SparkSession) -> DataFrame:
    joined = join("inner", RANGE)(session).select("impression_id", "impression_time")
    third = session.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    soon = "timestamp BETWEEN impression_time AND impression_time + INTERVAL 5 SECONDS"
    return joined.join(third, expr(f"impression_id = CAST(value AS STRING) AND {soon}"), "inner")


def selected(build: Build, *columns: str) -> Build:
    return lambda session: build(session).select(*columns)


SHOWN = "meta STRUCT<id: STRING, at: BIGINT>, who ARRAY<STRUCT<id: STRING>>, price DECIMAL(12,2)"
CLICKED = "meta STRUCT<id: STRING, at: STRING>, user_id STRING, price STRUCT<net: DECIMAL(12,2)>"


def nested(session: SparkSession) -> DataFrame:
    """Nested records with times in milliseconds, and by a pattern."""
    shown = read(session, SHOWN).selectExpr(
        "meta.id AS impression_id",
        "get(who, 0).id AS viewer",
        "price",
        "timestamp_millis(meta.at) AS shown_at",
    )
    clicked = read(session, CLICKED).selectExpr(
        "meta.id AS click_id",
        "user_id",
        "price.net AS cost",
        "try_to_timestamp(meta.at, 'dd/MM/yyyy HH:mm') AS clicked_at",
    )
    shown = shown.where("shown_at IS NOT NULL AND price >= 0.50").withWatermark("shown_at", "10 seconds")
    clicked = clicked.where("clicked_at IS NOT NULL").withWatermark("clicked_at", "20 seconds")
    within = "clicked_at >= shown_at AND clicked_at <= shown_at + INTERVAL 20 SECONDS"
    return shown.join(clicked, expr(f"viewer = user_id AND price > cost AND {within}"), "leftOuter")


def texts(session: SparkSession) -> DataFrame:
    """Filters that compare text, one of them a key's, which Spark asks of the other side, too."""
    shown = impressions(session).where("ad_id = 'in house'").withWatermark("impression_time", "10 seconds")
    clicked = clicks(session).where("click_id <> 'test'").withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "inner").where("i.impression_id > 'i-7'")


def by_function(session: SparkSession) -> DataFrame:
    """A filter that a function of Python decides."""
    dear = udf(lambda price: price > 5, "boolean")
    shown = impressions(session).where(dear("price")).withWatermark("impression_time", "10 seconds")
    clicked = clicks(session).withWatermark("click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "inner")


def read_by_function(session: SparkSession) -> DataFrame:
    """Records that a function of Python makes columns of, all of one struct."""

    def events(schema: str, time: str, delay: str) -> DataFrame:
        lines = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
        rows = lines.select(udf(lambda _: None, schema)("value").alias("event")).select("event.*")
        return rows.where(f"{time} IS NOT NULL").withWatermark(time, delay)

    shown, clicked = events(LEFT, "impression_time", "10 seconds"), events(RIGHT, "click_time", "20 seconds")
    return shown.alias("i").join(clicked.alias("c"), expr(RANGE), "leftOuter")


IDS = ("impression_id", "click_id")
QUERIES: dict[str, Build] = {
    "inner": join("inner", RANGE),
    "left_outer": join("leftOuter", RANGE),
    "right_outer": join("rightOuter", RANGE),
    "full_outer": join("fullOuter", RANGE),
    "left_semi": join("leftSemi", RANGE),
    "strict": join("inner", RANGE.replace(">=", ">").replace("<=", "<")),
    "open_end": join("inner", f"{KEYS} AND c.click_time >= i.impression_time"),
    "no_bound": join("inner", KEYS),
    "times_left_out": selected(join("inner", KEYS), *IDS),
    "time_left_out_on_the_left": selected(join("inner", KEYS), *IDS, "click_time"),
    "ends_of_windows": selected(in_windows("inner", "i.w.end >= c.w.end"), *IDS),
    "ids_of_a_range": selected(join("inner", RANGE), *IDS),
    "ids_of_a_semi_join": selected(join("leftSemi", RANGE), "impression_id"),
    "ids_of_windows": selected(in_windows("leftOuter", "i.w = c.w"), *IDS),
    "equal_times": join("leftOuter", f"{KEYS} AND c.click_time = i.impression_time"),
    "equal_times_one_watermark": join("leftOuter", f"{KEYS} AND c.click_time = i.impression_time", left=None),
    "watermark_on_the_right": join("leftOuter", RANGE, left=None),
    "watermark_on_the_left": join("inner", RANGE, right=None),
    "no_watermark": join("inner", RANGE, left=None, right=None),
    "long_delays": join("inner", RANGE, left="1 month 2 days", right="90 minutes"),
    "months": join("inner", RANGE.replace("20 SECONDS", "1 MONTH")),
    "sub_millisecond": join("inner", RANGE.replace("20 SECONDS", "1500 MICROSECONDS")),
    "days_to_seconds": join(
        "inner", RANGE.replace("INTERVAL 20 SECONDS", "INTERVAL '1 02:03:04.5' DAY TO SECOND")
    ),
    "calendar": join("inner", RANGE.replace("INTERVAL 20 SECONDS", "make_interval(0, 0, 0, 1, 2, 3, 4.5)")),
    "difference": join(
        "inner",
        f"{KEYS} AND c.click_time - i.impression_time BETWEEN INTERVAL '0' SECOND AND INTERVAL '20' SECOND",
    ),
    "function": join("inner", f"{KEYS} AND date_trunc('second', c.click_time) >= i.impression_time"),
    "either": join("inner", f"{KEYS} AND (c.click_time >= i.impression_time OR c.price > 3)"),
    "null_safe": join("inner", RANGE.replace("i.user_id =", "i.user_id <=>")),
    "computed_key": join("inner", RANGE.replace("i.ad_id = c.ad_id", "upper(i.ad_id) = lower(c.ad_id)")),
    "one_key": join("inner", f"i.user_id = c.user_id AND {WITHIN}"),
    "conditions": join("leftOuter", f"{RANGE} AND i.price < c.price AND i.price > 0 AND c.price <= 7"),
    "text_filter": join("leftOuter", f"{RANGE} AND i.user_id = 'x (y) AND z' AND i.price != 5"),
    "window": in_windows("leftOuter", "i.w = c.w"),
    "window_order": in_windows("inner", "i.w.end >= c.w.end"),
    "filters": filtered,
    "texts": texts,
    "by_function": by_function,
    "read_by_function": read_by_function,
    "key_filtered": key_filtered(observed=False),
    "key_filtered_and_inferred": key_filtered(observed=True),
    "null_event_time": null_time,
    "renamed": renamed,
    "arrival_time": arrival_time,
    "other_column": other_column,
    "clicks_first": clicks_first,
    "deduplicated": deduplicated,
    "counted": counted,
    "two_joins": two_joins,
    "nested": nested,
}


def explain(session: SparkSession, name: str) -> str:
    """A plan with its columns numbered as they appear, and no ids of the day."""
    with redirect_stdout(StringIO()) as printed:
        QUERIES[name](session).explain()
    return without_ids(printed.getvalue())


def without_ids(plan: str) -> str:
    plan = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "00000000-0000-0000-0000-000000000000", plan)
    plan = re.sub(r"numPartitions = \d+", "numPartitions = 2", plan)
    plan = re.sub(r"(hashpartitioning\(.*), \d+\), REQ", r"\1, 2), REQ", plan)
    numbers: dict[str, int] = {}
    plan = re.sub(r"#(\d+)", lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", plan)
    plan = re.sub(r"\[plan_id=\d+\]", "[plan_id=0]", plan)
    return "\n".join(line.rstrip() for line in plan.strip().splitlines()) + "\n"


def main() -> None:
    session = SparkSession.builder.remote(sys.argv[1]).create()
    try:
        session.conf.set("spark.sql.debug.maxToStringFields", 100_000)
        for name in QUERIES:
            (RECORDED / f"{name}.txt").write_text(explain(session, name))
    finally:
        session.stop()


if __name__ == "__main__":
    main()
