"""Every left row, with the right rows of its key from a second before it on, if its price is above 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_bugs.inputs import LEFT, PAIRS, RIGHT, join_priced
from tidemark import Bound, Contract, JoinKind, Term

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = Contract(
    name="condition_range",
    kind=JoinKind.LEFT_OUTER,
    left=LEFT,
    right=RIGHT,
    bound=Bound(None, 1_000),
    output=PAIRS,
    condition=(Term(">", left="price", value=5),),
)


def build(lefts: DataFrame, rights: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return join_priced(
        lefts, rights, "l.left_time <= r.right_time + INTERVAL 1 SECOND AND l.k = r.k AND l.price > 5"
    )
