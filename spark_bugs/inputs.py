"""The two inputs that all of these joins have: an id, a key ``k`` and an event time on each side, delays of 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from tidemark import Output, Side, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEFT = Side("lefts", "left_id", ("k",), "left_time", 0)
RIGHT = Side("rights", "right_id", ("k",), "right_time", 0)
LEFT_SCHEMA = "left_id STRING, k STRING, left_time TIMESTAMP"
RIGHT_SCHEMA = "right_id STRING, k STRING, right_time TIMESTAMP"
LEFT_COLUMNS = ("l.left_id", "l.left_partition", "l.left_offset", "l.left_time")
RIGHT_COLUMNS = ("r.right_id", "r.right_partition", "r.right_offset", "r.right_time")
LEFT_REF, RIGHT_REF = ("left_partition", "left_offset"), ("right_partition", "right_offset")
PAIRS = Output("left_id", "right_id", LEFT_REF, RIGHT_REF)
WITHIN_A_SECOND = (
    "l.left_time BETWEEN r.right_time - INTERVAL 1 SECOND AND r.right_time + INTERVAL 1 SECOND AND l.k = r.k"
)


def read(lefts: DataFrame, rights: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both inputs, without watermarks."""
    return (
        read_json(lefts, "left", LEFT_SCHEMA, "left_time"),
        read_json(rights, "right", RIGHT_SCHEMA, "right_time"),
    )


def join(left: DataFrame, right: DataFrame, condition: str, how: str) -> DataFrame:
    """Join and take the columns of both sides, or of the left one where ``how`` has no others."""
    columns = LEFT_COLUMNS if how == "leftSemi" else (*LEFT_COLUMNS, *RIGHT_COLUMNS)
    return left.alias("l").join(right.alias("r"), expr(condition), how).select(*columns)


def join_watermarked(left: DataFrame, right: DataFrame, condition: str, how: str) -> DataFrame:
    """Join, with a watermark on each side."""
    return join(
        left.withWatermark("left_time", "0 seconds"), right.withWatermark("right_time", "0 seconds"), condition, how
    )  # fmt: skip


def join_within_a_second(lefts: DataFrame, rights: DataFrame, how: str) -> DataFrame:
    """Equal keys, at most a second apart, a watermark on each side."""
    return join_watermarked(*read(lefts, rights), WITHIN_A_SECOND, how)


def join_priced(lefts: DataFrame, rights: DataFrame, condition: str) -> DataFrame:
    """Left outer, of left rows that have a price, a watermark on each side."""
    left = read_json(lefts, "left", f"{LEFT_SCHEMA}, price BIGINT", "left_time")
    return join_watermarked(
        left, read_json(rights, "right", RIGHT_SCHEMA, "right_time"), condition, "leftOuter"
    )
