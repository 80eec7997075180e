"""The two inputs of these joins: how many rows each key has in each 10 seconds, counted on either side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, window

from spark_bugs.inputs import read
from tidemark import Aggregate, Bound, Chain, Field, Join, JoinKind, Source, Term, Value, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_MS = 10_000


def contract(name: str, kind: JoinKind, output: tuple[str, ...]) -> Chain:
    """Counts of the same key and window, where the left has no fewer rows than the right; known by their keys."""
    sides = [
        Aggregate(
            Window(Source(topic, time, (Field(key, "k"),), 0, (key,)), in_window, WINDOW_MS),
            (key,), (Value(rows, "count"),),
        )
        for topic, time, key, in_window, rows in (
            ("lefts", "left_time", "left_id", "left_window", "left_rows"),
            ("rights", "right_time", "right_id", "right_window", "right_rows"),
        )
    ]  # fmt: skip
    return Chain(
        name=name,
        last=Join(
            kind, sides[0], sides[1], (("left_id", "right_id"),), Bound(equal=True), "left_window",
            (Term(">=", "left_rows", "right_rows"),),
        ),
        output=output,
    )  # fmt: skip


def join(lefts: DataFrame, rights: DataFrame, how: str) -> DataFrame:
    """The counts of both inputs, joined."""
    left, right = read(lefts, rights)
    return _counts(left, "left").join(
        _counts(right, "right"),
        (col("left_id") == col("right_id"))
        & (col("left_window") == col("right_window"))
        & (col("left_rows") >= col("right_rows")),
        how,
    )


def _counts(rows: DataFrame, side: str) -> DataFrame:
    time = f"{side}_time"
    keyed = rows.where("k IS NOT NULL").select(col("k").alias(f"{side}_id"), time)
    in_window = window(time, f"{WINDOW_MS} milliseconds").alias(f"{side}_window")
    return (
        keyed.withWatermark(time, "0 seconds")
        .groupBy(f"{side}_id", in_window)
        .agg(count("*").alias(f"{side}_rows"))
    )
