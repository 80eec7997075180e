"""Every impression with at least one click within 20 seconds, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Bound, Contract, JoinKind, Output, Side, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="left_semi",
    kind=JoinKind.LEFT_SEMI,
    left=Side("impressions", "impression_id", ("user_id", "ad_id"), "impression_time", 10_000),
    right=Side("clicks", "click_id", ("user_id", "ad_id"), "click_time", 20_000),
    bound=Bound(lower_ms=-20_000, upper_ms=0),
    output=Output("impression_id", left_ref=("impression_partition", "impression_offset")),
)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time")
    clicked = read_json(clicks, "click", CLICK, "click_time")
    return (
        shown.withWatermark("impression_time", "10 seconds")
        .alias("i")
        .join(
            clicked.withWatermark("click_time", "20 seconds").alias("c"),
            expr(
                """
                i.user_id = c.user_id AND i.ad_id = c.ad_id AND
                c.click_time >= i.impression_time AND
                c.click_time <= i.impression_time + INTERVAL 20 SECONDS
                """
            ),
            "leftSemi",
        )
        .select(
            "i.impression_id",
            "i.impression_partition",
            "i.impression_offset",
            "i.impression_time",
            "i.campaign_id",
        )
    )
