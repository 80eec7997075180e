"""A chain as a query of classic Spark: what its description says, said in PySpark."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from tidemark.formats import chain
from tidemark.formats.contract import Bound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOW = {
    "inner": "inner", "left_outer": "leftOuter", "right_outer": "rightOuter", "full_outer": "fullOuter",
    "left_semi": "leftSemi",
}  # fmt: skip


def query(described: chain.Chain, records: DataFrame) -> DataFrame:
    """The rows of a chain, times and windows' ends as microseconds; ``records`` have all topics in them."""
    rows, windows = _rows(described.last, records)
    types = chain.types_of(described.last)
    return rows.select(
        *[
            f.unix_micros(f.col(f"{name}.end") if name in windows else f.col(name)).alias(name)
            if types[name] == chain.TIME
            else f.col(name)
            for name in described.output
        ]
    )


def _rows(step: chain.Step, records: DataFrame) -> tuple[DataFrame, set[str]]:
    """The rows of a step, and which of its fields are windows."""
    if isinstance(step, chain.Source):
        return _source(step, records), set()
    if isinstance(step, chain.Join):
        return _join(step, records)
    rows, windows = _rows(step.input, records)
    match step:
        case chain.Window():
            time = chain.time_of(step.input)
            at = f.window_time(time) if time in windows else f.col(time)
            new = f.window(at, f"{step.window_ms} milliseconds").alias(step.name)
            others = [name for name in rows.columns if name != time]
            return rows.select(*others, new), (windows - {time}) | {step.name}
        case chain.Aggregate():
            values = [
                (f.count("*") if one.field is None else getattr(f, one.function)(one.field)).alias(one.name)
                for one in step.values
            ]
            return rows.groupBy(*step.keys, chain.time_of(step.input)).agg(*values), windows
        case chain.Where():
            return rows.where(
                " and ".join(f"{one.field} {one.op} {one.value}" for one in step.filters)
            ), windows
        case chain.Deduplicate():
            keys = list(step.keys)
            once = (
                rows.dropDuplicatesWithinWatermark(keys)
                if step.within_watermark
                else rows.dropDuplicates(keys)
            )
            return once, windows
        case chain.Limit():
            return rows.limit(step.rows), windows
    raise AssertionError(step)


def _source(step: chain.Source, records: DataFrame) -> DataFrame:
    fields = [
        f.col(field.column or field.name).cast(str(field.read_as)).alias(field.name) for field in step.fields
    ]
    rows = records.where(f.col("topic") == step.topic).select(
        *fields, f.timestamp_micros(step.time_column or step.time).alias(step.time)
    )
    kept = [f.col(name).isNotNull() for name in step.required]
    kept += [f.expr(f"{one.field} {one.op} {one.value}") for one in step.filters]
    rows = rows.where(reduce(and_, kept)) if kept else rows
    if step.watermark_delay_ms is None:
        return rows
    return rows.withWatermark(step.time, f"{step.watermark_delay_ms} milliseconds")


def _join(step: chain.Join, records: DataFrame) -> tuple[DataFrame, set[str]]:
    (left, in_left), (right, in_right) = _rows(step.left, records), _rows(step.right, records)
    condition = _bound(step.bound, chain.time_of(step.left), chain.time_of(step.right))
    condition += [f.col(one) == f.col(other) for one, other in step.keys]
    condition += [f.expr(f"{one.left} {one.op} {one.right}") for one in step.conditions]
    joined = left.join(right, reduce(and_, condition), HOW[str(step.kind)])
    windows = in_left | in_right
    for time in (chain.time_of(step.left), chain.time_of(step.right)):
        if step.time not in (None, time) and time in joined.columns:  # an event time no longer
            if time in windows:
                plain = f.struct(f.col(f"{time}.start").alias("start"), f.col(f"{time}.end").alias("end"))
                plain = f.when(f.col(time).isNotNull(), plain)
            else:
                plain = f.timestamp_micros(f.unix_micros(time))
            joined = joined.withColumn(time, plain)
    return joined, windows


def _bound(bound: Bound, left: str, right: str) -> list[Column]:
    said = []
    if bound.equal:
        said.append(f.col(left) == f.col(right))
    if bound.lower_ms is not None:
        said.append(
            f.expr(f"{left} {'>' if bound.lower_strict else '>='} {right} {_interval(bound.lower_ms)}")
        )
    if bound.upper_ms is not None:
        said.append(
            f.expr(f"{left} {'<' if bound.upper_strict else '<='} {right} {_interval(bound.upper_ms)}")
        )
    return said


def _interval(shift_ms: int) -> str:
    return f"{'-' if shift_ms < 0 else '+'} interval {abs(shift_ms)} milliseconds"
