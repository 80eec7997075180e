"""Every count of the left with the count of the right for its key and window, if that is no greater."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.same_window import contract, join
from tidemark import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = contract("same_window_inner", JoinKind.INNER, ("left_id", "left_rows", "right_id"))


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Count two Kafka streams of JSON records, and join the counts."""
    return join(lefts, rights, "inner").select("left_id", "left_rows", "right_id")
