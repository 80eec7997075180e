"""Impressions with their clicks of the next 20 seconds; both unmatched impressions and unmatched clicks with NULL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines import left_outer
from tidemark import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTRACT = replace(left_outer.CONTRACT, name="full_outer", kind=JoinKind.FULL_OUTER)


def build(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    return left_outer.build(impressions, clicks, how="fullOuter")
