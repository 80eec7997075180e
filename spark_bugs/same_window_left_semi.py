"""Every count of the left that has a count of the right for its key and window that is no greater."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.same_window import contract, join
from tidemark import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = contract("same_window_left_semi", JoinKind.LEFT_SEMI, ("left_id", "left_rows"))


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Count two Kafka streams of JSON records, and join the counts."""
    return join(lefts, rights, "leftSemi").select("left_id", "left_rows")
