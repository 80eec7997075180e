"""Every count of the left, joined to the counts of the right, of which nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.same_window import contract, join
from tidemark import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = contract("unused_side", JoinKind.LEFT_OUTER, ("left_id", "left_rows"))


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Count two Kafka streams of JSON records, and join the counts."""
    return join(lefts, rights, "leftOuter").select("left_id", "left_rows")
