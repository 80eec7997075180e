"""Every impression once, even if its producer sent it several times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.schemas import IMPRESSION
from tidemark import Chain, Deduplicate, Field, Source, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSIONS = Source(
    "impressions",
    time="impression_time",
    fields=(Field("impression_id"), Field("user_id"), Field("ad_id"), Field("campaign_id")),
    watermark_delay_ms=10_000,
)

CONTRACT = Chain(
    name="impressions_once",
    last=Deduplicate(IMPRESSIONS, ("impression_id",), within_watermark=True),
    output=("impression_id", "user_id", "ad_id", "campaign_id", "impression_time"),
)


def build(impressions: DataFrame) -> DataFrame:
    """Deduplicate a Kafka stream of JSON records."""
    shown = read_json(impressions, "impression", IMPRESSION, "impression_time")
    once = shown.withWatermark("impression_time", "10 seconds").dropDuplicatesWithinWatermark(
        ["impression_id"]
    )
    return once.select("impression_id", "user_id", "ad_id", "campaign_id", "impression_time")
