"""The first hundred impressions that the query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.schemas import IMPRESSION
from tidemark import Chain, Field, Limit, Source, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSIONS = Source(
    "impressions", "impression_time", (Field("impression_id"), Field("user_id"), Field("ad_id"))
)

CONTRACT = Chain(
    name="first_impressions",
    last=Limit(IMPRESSIONS, 100),
    output=("impression_id", "user_id", "ad_id", "impression_time"),
)


def build(impressions: DataFrame) -> DataFrame:
    """Take the first hundred records of a Kafka stream of JSON records."""
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time")
    return shown.select("impression_id", "user_id", "ad_id", "impression_time").limit(100)
