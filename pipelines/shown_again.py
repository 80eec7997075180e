"""Every click with the user's impressions in the minute after it, or NULL: a join whose left input is a join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.schemas import CLICK, IMPRESSION
from tidemark import Bound, Chain, Field, Join, JoinKind, Source, read_json

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
AGAIN = Source(
    "impressions",
    "next_time",
    (Field("next_id", "impression_id"), Field("viewer", "user_id"), Field("next_ad", "ad_id")),
    10_000,
    ("viewer", "next_ad"),
    time_column="impression_time",
)

CLICKED = Join(
    JoinKind.INNER,
    IMPRESSIONS,
    CLICKS,
    keys=(("user_id", "clicker"), ("ad_id", "clicked_ad")),
    bound=Bound(lower_ms=-20_000, upper_ms=0),
    time="click_time",
)

CONTRACT = Chain(
    name="shown_again",
    last=Join(
        JoinKind.LEFT_OUTER,
        CLICKED,
        AGAIN,
        keys=(("user_id", "viewer"),),
        bound=Bound(lower_ms=-60_000, upper_ms=0, upper_strict=True),
    ),
    output=("impression_id", "click_id", "click_time", "next_id", "next_time"),
)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records, and join the result with the first stream again."""
    has_keys = "user_id IS NOT NULL AND ad_id IS NOT NULL"
    shown = (
        read_json(impressions, "impression", IMPRESSION, "impression_time")
        .where(has_keys)
        .withWatermark("impression_time", "10 seconds")
    )
    clicked = read_json(clicks, "click", CLICK, "click_time").where(has_keys)
    soon = expr(
        """
        i.user_id = c.user_id AND i.ad_id = c.ad_id AND
        c.click_time BETWEEN i.impression_time AND i.impression_time + INTERVAL 20 SECONDS
        """
    )
    clicks_of_impressions = (
        shown.alias("i")
        .join(clicked.withWatermark("click_time", "20 seconds").alias("c"), soon, "inner")
        .select("i.impression_id", "i.user_id", "c.click_id", "c.click_time")
    )
    following = shown.selectExpr(
        "impression_id AS next_id", "user_id AS viewer", "impression_time AS next_time"
    )
    then = expr("user_id = viewer AND next_time > click_time AND next_time <= click_time + INTERVAL 1 MINUTE")
    joined = clicks_of_impressions.join(following, then, "leftOuter")
    return joined.select("impression_id", "click_id", "click_time", "next_id", "next_time")
