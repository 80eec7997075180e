"""Per ad and 10 seconds, the number of impressions and the number of clicks, or NULL without clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, window

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Aggregate, Bound, Chain, Field, Join, JoinKind, Source, Value, Window, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSIONS = Source("impressions", "impression_time", (Field("ad_id"),), 10_000, ("ad_id",))
CLICKS = Source("clicks", "click_time", (Field("clicked_ad", "ad_id"),), 20_000, ("clicked_ad",))

CONTRACT = Chain(
    name="windows_joined",
    last=Join(
        JoinKind.LEFT_OUTER,
        Aggregate(Window(IMPRESSIONS, "window_end", 10_000), ("ad_id",), (Value("shown", "count"),)),
        Aggregate(Window(CLICKS, "clicked_until", 10_000), ("clicked_ad",), (Value("clicked", "count"),)),
        keys=(("ad_id", "clicked_ad"),),
        bound=Bound(equal=True),
    ),
    output=("ad_id", "window_end", "shown", "clicked"),
)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Count two Kafka streams of JSON records, and join the counts."""
    shown = _per_window(
        read_json(impressions, "impression", IMPRESSION, "impression_time")
        .where("ad_id IS NOT NULL")
        .withWatermark("impression_time", "10 seconds"),
        "impression_time",
        "shown",
    )
    clicked = _per_window(
        read_json(clicks, "click", CLICK, "click_time")
        .where("ad_id IS NOT NULL")
        .withWatermark("click_time", "20 seconds"),
        "click_time",
        "clicked",
    )
    joined = shown.join(clicked, ["ad_id", "in"], "leftOuter")
    return joined.select("ad_id", col("in.end").alias("window_end"), "shown", "clicked")


def _per_window(events: DataFrame, time: str, name: str) -> DataFrame:
    return events.groupBy("ad_id", window(time, "10 seconds").alias("in")).agg(count("*").alias(name))
