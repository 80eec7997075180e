"""Pairs of equal keys at most a second apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, join_within_a_second
from tidemark import Bound, Contract, JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="same_batch_inner",
    kind=JoinKind.INNER,
    left=LEFT,
    right=RIGHT,
    bound=Bound(-1_000, 1_000),
    output=PAIRS,
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return join_within_a_second(lefts, rights, "inner")
