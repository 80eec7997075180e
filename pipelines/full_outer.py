"""Impressions and clicks of the next 20 seconds, and each alone, with NULL, once no partner can come any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.events import CLICK, IMPRESSION, read_json
from pipelines.left_outer import CONTRACT as LEFT_OUTER
from tidemark.contract import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = replace(LEFT_OUTER, name="full_outer", kind=JoinKind.FULL_OUTER)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time")
    clicked = read_json(clicks, "click", CLICK, "click_time").withWatermark("click_time", "20 seconds")
    soon = expr("""
        i.user_id = c.user_id AND i.ad_id = c.ad_id AND
        c.click_time BETWEEN i.impression_time AND i.impression_time + INTERVAL 20 SECONDS
    """)
    joined = (
        shown.withWatermark("impression_time", "10 seconds")
        .alias("i")
        .join(clicked.alias("c"), soon, "fullOuter")
    )
    return joined.drop("user_id", "ad_id")
