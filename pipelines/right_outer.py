"""Every impression with its clicks of the next 20 seconds, or with NULL; the clicks are the left input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Bound, Contract, JoinKind, Output, Side, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="right_outer",
    kind=JoinKind.RIGHT_OUTER,
    left=Side("clicks", "click_id", ("user_id", "ad_id"), "click_time", 20_000),
    right=Side("impressions", "impression_id", ("user_id", "ad_id"), "impression_time", 10_000),
    bound=Bound(lower_ms=0, upper_ms=20_000),
    output=Output(
        "click_id",
        "impression_id",
        ("click_partition", "click_offset"),
        ("impression_partition", "impression_offset"),
    ),
)


def build(clicks: DataFrame, impressions: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    clicked = read_json(clicks, "click", CLICK, "click_time").withWatermark("click_time", "20 seconds")
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time")
    soon = expr("""
        c.user_id = i.user_id AND c.ad_id = i.ad_id AND
        c.click_time BETWEEN i.impression_time AND i.impression_time + INTERVAL 20 SECONDS
    """)
    joined = clicked.alias("c").join(
        shown.withWatermark("impression_time", "10 seconds").alias("i"), soon, "rightOuter"
    )
    return joined.drop("user_id", "ad_id")
