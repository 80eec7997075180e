"""Left outer: every left row with the right rows of its key that are 10 to 20 seconds older."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, join_watermarked, read
from tidemark import Bound, Contract, JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="evicted_early",
    kind=JoinKind.LEFT_OUTER,
    left=LEFT,
    right=RIGHT,
    bound=Bound(10_000, 20_000),
    output=PAIRS,
)
AFTER = "l.left_time BETWEEN r.right_time + INTERVAL 10 SECONDS AND r.right_time + INTERVAL 20 SECONDS AND l.k = r.k"


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return join_watermarked(*read(lefts, rights), AFTER, "leftOuter")
