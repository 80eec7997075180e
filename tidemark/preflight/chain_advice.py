"""Unsafe chains that Spark accepts, by what the chain says; its plan is not read.

Free of I/O. ``tidemark.preflight.join_lints`` says the same of a single join.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.formats.chain import Aggregate, Chain, Join
from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.known_defects import UNUSED_SIDE_HOLDS_THE_WATERMARK, has_defect
from tidemark.oracle.spark.outer_join_elimination import optimized
from tidemark.preflight.join_lints import Advice, loses_semi_rows


def advise_chain(described: Chain, spark_version: str) -> Iterator[Advice]:
    """What is unsafe in it."""
    holds = has_defect({"spark": spark_version}, UNUSED_SIDE_HOLDS_THE_WATERMARK)
    for source in optimized(described).unread if holds else ():
        if source.watermark_delay_ms is not None:
            yield Advice(
                "side_not_read",
                f"nothing of {source.topic} is needed behind an outer join, so the optimizer takes the join out and"
                " does not read it, but its watermark is waited for: under the policy min nothing is ever written",
                f"write a column that comes from {source.topic}, or leave the join out",
            )
    joins = (
        [step for step in described.steps if isinstance(step, Join)] if loses_semi_rows(spark_version) else []
    )
    for step in joins:
        if step.kind is JoinKind.LEFT_SEMI and isinstance(step.left, Aggregate):
            yield Advice(
                "semi_rows_lost",
                "since 4.2.0 a left semi join of windowed aggregates gives nothing: both sides come in the batch that"
                " evicts them, and the right one is not kept",
                "run it on Spark 4.1, or as an inner join whose rows are deduplicated by the left id",
            )
