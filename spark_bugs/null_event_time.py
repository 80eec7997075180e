"""Every left row, with the right rows of its key at most a second apart; a left row need not have a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.functions import col, from_json

from spark_bugs.inputs import LEFT, LEFT_SCHEMA, PAIRS, RIGHT, RIGHT_SCHEMA, WITHIN_A_SECOND, join
from tidemark import Bound, Contract, JoinKind, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="null_event_time",
    kind=JoinKind.LEFT_OUTER,
    left=replace(LEFT, keeps_null_event_time=True),
    right=RIGHT,
    bound=Bound(-1_000, 1_000),
    output=PAIRS,
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    parsed = lefts.select(
        from_json(col("value").cast("string"), LEFT_SCHEMA).alias("event"),
        col("partition").alias("left_partition"),
        col("offset").alias("left_offset"),
    ).select("event.*", "left_partition", "left_offset")
    left = parsed.where(col("left_id").isNotNull()).withWatermark("left_time", "0 seconds")
    right = read_json(rights, "right", RIGHT_SCHEMA, "right_time").withWatermark("right_time", "0 seconds")
    return join(left, right, WITHIN_A_SECOND, "leftOuter")
