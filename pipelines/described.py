"""Builds a join from its contract alone: ``python -m pipelines CONTRACT.json`` runs it.

The contract is translated literally into the DataFrame API: filters of a side before its watermark, conditions in the
join, ``where`` on the joined row. Ids and keys are read as STRING, fields in comparisons as BIGINT, keys among them.
The output has the columns that the contract names and no others, with one exception: a join without a time bound also
outputs ``left_time`` and ``right_time``. Spark prunes columns that nothing reads before the join; without the time
column the join has no watermark, and would drop no late rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pyspark.sql.functions import col, expr, from_json

from tidemark.errors import UsageError
from tidemark.formats.contract import Contract, JoinKind, Side, Term

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

HOW = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT_OUTER: "leftOuter",
    JoinKind.RIGHT_OUTER: "rightOuter",
    JoinKind.FULL_OUTER: "fullOuter",
    JoinKind.LEFT_SEMI: "leftSemi",
}
LEFT, RIGHT = "l", "r"
"""The prefix of a side's column names."""


def read_contract(path: str) -> SimpleNamespace:
    """The pipeline of a contract in a JSON file: ``CONTRACT`` and ``build``, and ``COLUMNS`` for its state."""
    try:
        described = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path!r} is not a contract",
            detail=str(error),
            hint="`python -m pipelines NAME --describe` prints one",
        ) from error
    return pipeline_of(Contract.from_json(described))


def pipeline_of(contract: Contract) -> SimpleNamespace:
    """The pipeline that a contract describes."""
    return SimpleNamespace(
        CONTRACT=contract,
        COLUMNS=as_columns(contract),
        build=lambda left, right: joined(contract, left, right),
    )


def joined(contract: Contract, left: DataFrame, right: DataFrame) -> DataFrame:
    """The output rows of the join of two Kafka streams of JSON records."""
    numbers = _compared(contract)
    lefts = side_rows(left, LEFT, contract.left, numbers[0], contract.bound.window_ms)
    rights = side_rows(right, RIGHT, contract.right, numbers[1], contract.bound.window_ms)
    rows = lefts.join(rights, expr(" AND ".join(_conditions(contract))), HOW[contract.kind])
    for term in contract.where:
        rows = rows.where(_term(contract, term))
    return rows.selectExpr(*_output(contract))


def as_columns(contract: Contract) -> Contract:
    """The contract with its fields renamed to the columns of the join's state."""
    sides = [
        replace(side, keys=tuple(f"{prefix}_key{at}" for at in range(len(side.keys))), time=f"{prefix}_time")
        for prefix, side in ((LEFT, contract.left), (RIGHT, contract.right))
    ]
    refs = [(f"{prefix}_partition", f"{prefix}_offset") for prefix in (LEFT, RIGHT)]
    output = replace(contract.output, left_ref=refs[0], right_ref=refs[1])
    return replace(contract, left=sides[0], right=sides[1], output=output)


def side_rows(
    records: DataFrame, prefix: str, side: Side, numbers: Iterable[str], window_ms: int | None
) -> DataFrame:
    """A side's rows: ``id``, ``key0`` …, ``time`` or ``window``, the numbers, ``partition``, ``offset``, prefixed."""
    columns = _columns(side)
    types = dict.fromkeys(columns, "STRING") | {side.time: "TIMESTAMP"} | dict.fromkeys(numbers, "BIGINT")
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    parsed = records.select(
        from_json(col("value").cast("string"), schema).alias("event"),
        col("partition").alias(f"{prefix}_partition"),
        col("offset").alias(f"{prefix}_offset"),
    ).select(
        *(col(f"event.`{name}`").alias(f"{prefix}_{columns.get(name, name)}") for name in types),
        f"{prefix}_partition",
        f"{prefix}_offset",
    )
    time = f"{prefix}_time"
    if not side.keeps_null_event_time:
        parsed = parsed.where(f"{time} IS NOT NULL")
    for what in side.filters:
        parsed = parsed.where(f"`{prefix}_{columns.get(what.field, what.field)}` {what.op} {what.value}")
    if side.watermark_delay_ms is not None:
        parsed = parsed.withWatermark(time, f"{side.watermark_delay_ms} milliseconds")
    if window_ms is None:
        return parsed
    # A side may have one event time column only: Spark rejects a join of two.
    others = [name for name in parsed.columns if name != time]
    return parsed.selectExpr(f"window({time}, '{window_ms} milliseconds') AS {prefix}_window", *others)


def _conditions(contract: Contract) -> list[str]:
    bound, time = contract.bound, "window" if contract.bound.window_ms else "time"
    left, right = f"{LEFT}_{time}", f"{RIGHT}_{time}"
    conditions = [f"{LEFT}_key{at} = {RIGHT}_key{at}" for at in range(len(contract.left.keys))]
    if bound.equal:
        conditions.append(f"{left} = {right}")
    ends = ((bound.lower_ms, ">", bound.lower_strict), (bound.upper_ms, "<", bound.upper_strict))
    for end_ms, op, strict in ends:
        if end_ms is not None:
            away = "" if bound.window_ms else f" + INTERVAL '{end_ms / 1000:.3f}' SECOND"
            conditions.append(f"{left} {op}{'' if strict else '='} {right}{away}")
    return conditions + [_term(contract, term) for term in contract.condition]


def _columns(side: Side) -> dict[str, str]:
    """The fields of a side that have columns of another name."""
    return {side.id: "id", side.time: "time"} | {name: f"key{at}" for at, name in enumerate(side.keys)}


def _term(contract: Contract, term: Term) -> str:
    def operand(prefix: str, side: Side, field: str | None) -> str:
        return str(term.value) if field is None else f"`{prefix}_{_columns(side).get(field, field)}`"

    left, right = operand(LEFT, contract.left, term.left), operand(RIGHT, contract.right, term.right)
    return f"{left} {term.op} {right}"


def _compared(contract: Contract) -> tuple[list[str], list[str]]:
    """The fields of each side that filters and conditions compare, and the keys that are equal to one of them."""
    terms, keys = [*contract.condition, *contract.where], (contract.left.keys, contract.right.keys)
    read = [term.left for term in terms], [term.right for term in terms]
    found = [
        [*(what.field for what in side.filters), *filter(None, fields)]
        for side, fields in zip((contract.left, contract.right), read, strict=True)
    ]
    for own, other in zip(*keys, strict=True):
        if own in found[0] or other in found[1]:
            found[0].append(own)
            found[1].append(other)
    return list(dict.fromkeys(found[0])), list(dict.fromkeys(found[1]))


def _output(contract: Contract) -> list[str]:
    output = contract.output
    named = {f"{LEFT}_id": output.left_id}
    named |= zip((f"{LEFT}_partition", f"{LEFT}_offset"), output.left_ref or (), strict=False)
    if output.right_id is not None:
        named[f"{RIGHT}_id"] = output.right_id
        named |= zip((f"{RIGHT}_partition", f"{RIGHT}_offset"), output.right_ref or (), strict=False)
    if contract.bound.is_open:  # an inner join: Spark rejects other kinds without a bound
        time = "time" if contract.bound.window_ms is None else "window"
        named |= {f"{LEFT}_{time}": "left_time", f"{RIGHT}_{time}": "right_time"}
    return [f"`{column}` AS `{name}`" for column, name in named.items()]
