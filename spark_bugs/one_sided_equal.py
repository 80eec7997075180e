"""Every left row, with the right rows of its key and its very time; only the right side has a watermark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, join, read
from tidemark import Bound, Contract, JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="one_sided_equal",
    kind=JoinKind.LEFT_OUTER,
    left=replace(LEFT, watermark_delay_ms=None),
    right=RIGHT,
    bound=Bound(equal=True),
    output=PAIRS,
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    left, right = read(lefts, rights)
    condition = "l.k = r.k AND l.left_time = r.right_time"
    return join(left, right.withWatermark("right_time", "0 seconds"), condition, "leftOuter")
