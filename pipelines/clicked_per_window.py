"""Per ad and 10 seconds, the number of clicks that follow an impression: an aggregation after a join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, expr, window

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Aggregate, Bound, Chain, Field, Join, JoinKind, Source, Value, Window, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSIONS = Source(
    "impressions", "impression_time", (Field("user_id"), Field("ad_id")), 10_000, ("user_id", "ad_id")
)
CLICKS = Source(
    "clicks",
    "click_time",
    (Field("clicker", "user_id"), Field("clicked_ad", "ad_id")),
    20_000,
    ("clicker", "clicked_ad"),
)

JOINED = Join(
    JoinKind.INNER,
    IMPRESSIONS,
    CLICKS,
    keys=(("user_id", "clicker"), ("ad_id", "clicked_ad")),
    bound=Bound(lower_ms=-20_000, upper_ms=0),
    time="click_time",
)

CONTRACT = Chain(
    name="clicked_per_window",
    last=Aggregate(Window(JOINED, "window_end", 10_000), ("ad_id",), (Value("clicks", "count"),)),
    output=("ad_id", "window_end", "clicks"),
)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records, and count the joined rows per window."""
    has_keys = "user_id IS NOT NULL AND ad_id IS NOT NULL"
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time").where(has_keys)
    clicked = read_json(clicks, "click", CLICK, "click_time").where(has_keys)
    soon = expr(
        """
        i.user_id = c.user_id AND i.ad_id = c.ad_id AND
        c.click_time BETWEEN i.impression_time AND i.impression_time + INTERVAL 20 SECONDS
        """
    )
    joined = (
        shown.withWatermark("impression_time", "10 seconds")
        .alias("i")
        .join(clicked.withWatermark("click_time", "20 seconds").alias("c"), soon, "inner")
        .select("i.ad_id", "c.click_time")
    )
    counted = joined.groupBy("ad_id", window("click_time", "10 seconds").alias("in")).agg(
        count("*").alias("clicks")
    )
    return counted.select("ad_id", col("in.end").alias("window_end"), "clicks")
