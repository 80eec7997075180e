"""The number of clicks per user and 10 seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, window

from pipelines.schemas import CLICK
from tidemark import Aggregate, Chain, Field, Source, Value, Window, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLICKS = Source(
    "clicks",
    time="click_time",
    fields=(Field("user_id"),),
    watermark_delay_ms=20_000,
    required=("user_id",),
)

CONTRACT = Chain(
    name="clicks_per_window",
    last=Aggregate(Window(CLICKS, "window_end", 10_000), ("user_id",), (Value("clicks", "count"),)),
    output=("user_id", "window_end", "clicks"),
)


def build(clicks: DataFrame) -> DataFrame:
    """Count a Kafka stream of JSON records per window."""
    clicked = read_json(clicks, "click", CLICK, "click_time").where("user_id IS NOT NULL")
    counted = (
        clicked.withWatermark("click_time", "20 seconds")
        .groupBy("user_id", window("click_time", "10 seconds").alias("in"))
        .agg(count("*").alias("clicks"))
    )
    return counted.select("user_id", col("in.end").alias("window_end"), "clicks")
