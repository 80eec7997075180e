"""How a pipeline reads Kafka records with JSON values: what the judge assumes, as a DataFrame transformation.

Free of PySpark until :func:`read_json` is called. A pipeline of somebody else imports it as ``tidemark.read_json``;
only Spark's own functions are used, so nothing of this package is needed on executors. ``tidemark.formats.events`` has
the same rules in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_json(records: DataFrame, name: str, schema: str, time: str) -> DataFrame:
    """The fields of ``schema`` from each record's JSON value, with ``{name}_partition`` and ``{name}_offset``.

    ``records`` are those of Spark's Kafka source; ``schema`` is DDL (``"click_id STRING, click_time TIMESTAMP"``);
    ``time`` names the event time in it. A record that is not JSON, or has no event time, is dropped here, below the
    watermark: it neither stops the query nor moves the watermark. How many there were is in each batch's progress, as
    ``observedMetrics.{name}``.
    """
    from pyspark.sql.functions import col, count, from_json, lit, when

    parsed = records.select(
        from_json(col("value").cast("string"), schema).alias("event"),
        col("partition").alias(f"{name}_partition"),
        col("offset").alias(f"{name}_offset"),
    ).select("event.*", f"{name}_partition", f"{name}_offset")
    unreadable = count(when(col(time).isNull(), 1)).alias("unreadable")
    every = count(lit(1)).alias("records")  # Spark 3.5 observes no count of *
    return parsed.observe(name, every, unreadable).where(col(time).isNotNull())
