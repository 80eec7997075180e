"""Every left row, with the right rows of its key at most a second apart, if its price is above 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, WITHIN_A_SECOND, join_priced
from tidemark import Bound, Contract, JoinKind, Term

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="condition_bound",
    kind=JoinKind.LEFT_OUTER,
    left=LEFT,
    right=RIGHT,
    bound=Bound(-1_000, 1_000),
    output=PAIRS,
    condition=(Term(">", left="price", value=5),),
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return join_priced(lefts, rights, f"{WITHIN_A_SECOND} AND l.price > 5")
