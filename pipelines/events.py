"""What all bundled pipelines do with a Kafka record before they join it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, from_json, when

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPRESSION = (
    "impression_id STRING, user_id STRING, ad_id STRING, campaign_id STRING, impression_time TIMESTAMP"
)
CLICK = "click_id STRING, user_id STRING, ad_id STRING, click_time TIMESTAMP"


def read_json(records: DataFrame, name: str, schema: str, time: str) -> DataFrame:
    """The fields of ``schema`` from each record's JSON value, with ``{name}_partition`` and ``{name}_offset``.

    A record that is not JSON, or has no event time, is dropped here, below the watermark: it neither stops the query
    nor moves the watermark. How many there were is in each batch's progress, as ``observedMetrics.{name}``.
    """
    parsed = records.select(
        from_json(col("value").cast("string"), schema).alias("event"),
        col("partition").alias(f"{name}_partition"),
        col("offset").alias(f"{name}_offset"),
    ).select("event.*", f"{name}_partition", f"{name}_offset")
    unreadable = count(when(col(time).isNull(), 1)).alias("unreadable")
    return parsed.observe(name, count("*").alias("records"), unreadable).where(col(time).isNotNull())
