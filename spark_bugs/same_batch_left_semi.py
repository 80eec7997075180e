"""Every left row that has a right row of its key at most a second apart, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, LEFT_REF, RIGHT, join_within_a_second
from tidemark import Bound, Contract, JoinKind, Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="same_batch_left_semi",
    kind=JoinKind.LEFT_SEMI,
    left=LEFT,
    right=RIGHT,
    bound=Bound(-1_000, 1_000),
    output=Output("left_id", left_ref=LEFT_REF),
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return join_within_a_second(lefts, rights, "leftSemi")
