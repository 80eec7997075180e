"""Every left row, with the right rows of its key at most a second apart; only the right side has a watermark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, WITHIN_A_SECOND, join, read
from tidemark import Bound, Contract, JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="one_sided_range",
    kind=JoinKind.LEFT_OUTER,
    left=replace(LEFT, watermark_delay_ms=None),
    right=RIGHT,
    bound=Bound(-1_000, 1_000),
    output=PAIRS,
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    left, right = read(lefts, rights)
    return join(left, right.withWatermark("right_time", "0 seconds"), WITHIN_A_SECOND, "leftOuter")
