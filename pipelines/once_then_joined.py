"""Every impression with its clicks of the next 20 seconds, or with NULL, after both inputs were deduplicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Bound, Chain, Deduplicate, Field, Join, JoinKind, Source, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSIONS = Source(
    "impressions",
    "impression_time",
    (Field("impression_id"), Field("user_id"), Field("ad_id")),
    10_000,
    ("user_id", "ad_id"),
)
CLICKS = Source(
    "clicks",
    "click_time",
    (Field("click_id"), Field("clicker", "user_id"), Field("clicked_ad", "ad_id")),
    20_000,
    ("clicker", "clicked_ad"),
)

CONTRACT = Chain(
    name="once_then_joined",
    last=Join(
        JoinKind.LEFT_OUTER,
        Deduplicate(IMPRESSIONS, ("impression_id",), within_watermark=True),
        Deduplicate(CLICKS, ("click_id",), within_watermark=True),
        keys=(("user_id", "clicker"), ("ad_id", "clicked_ad")),
        bound=Bound(lower_ms=-20_000, upper_ms=0),
    ),
    output=("impression_id", "impression_time", "click_id", "click_time"),
)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Deduplicate two Kafka streams of JSON records, and join them."""
    has_keys = "user_id IS NOT NULL AND ad_id IS NOT NULL"
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time").where(has_keys)
    clicked = read_json(clicks, "click", CLICK, "click_time").where(has_keys)
    shown_once = shown.withWatermark("impression_time", "10 seconds").dropDuplicatesWithinWatermark(
        ["impression_id"]
    )
    clicked_once = clicked.withWatermark("click_time", "20 seconds").dropDuplicatesWithinWatermark(
        ["click_id"]
    )
    soon = expr(
        """
        i.user_id = c.user_id AND i.ad_id = c.ad_id AND
        c.click_time BETWEEN i.impression_time AND i.impression_time + INTERVAL 20 SECONDS
        """
    )
    joined = shown_once.alias("i").join(clicked_once.alias("c"), soon, "leftOuter")
    return joined.select("i.impression_id", "i.impression_time", "c.click_id", "c.click_time")
