"""Builds a join from its contract alone: ``python -m pipelines CONTRACT.json`` runs it.

The contract is translated literally into the DataFrame API: filters of a side before its watermark, conditions in the
join, ``where`` on the joined row. Fields are read as the contract says, else ids and keys as STRING, and what is
compared as BIGINT, keys among them.
The output has the columns that the contract names and no others, with one exception: a join without a time bound also
outputs ``left_time`` and ``right_time``. Spark prunes columns that nothing reads before the join; without the time
column the join has no watermark, and would drop no late rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from pipelines.side_columns import PLACES, parsed
from tidemark.formats.contract import Contract, Literal, Side, Term
from tidemark.formats.contract_files import join_of_file
from tidemark.formats.field_values import literal_of
from tidemark.formats.record_fields import BIGINT, DECIMAL, Field
from tidemark.formats.time_forms import ISO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

LEFT, RIGHT = "l", "r"
"""The prefix of a side's column names."""


def read_contract(path: str) -> SimpleNamespace:
    """The pipeline of a contract in a JSON file: ``CONTRACT`` and ``build``, and ``COLUMNS`` for its state."""
    return pipeline_of(join_of_file(Path(path)))


def pipeline_of(contract: Contract) -> SimpleNamespace:
    """The pipeline that a contract describes."""
    return SimpleNamespace(
        CONTRACT=contract,
        COLUMNS=as_columns(contract),
        build=lambda left, right: joined(contract, left, right),
    )


def joined(contract: Contract, left: DataFrame, right: DataFrame) -> DataFrame:
    """The output rows of the join of two Kafka streams of JSON records."""
    fields = contract.values
    lefts = side_rows(left, LEFT, contract.left, fields[0], contract.bound.window_ms)
    rights = side_rows(right, RIGHT, contract.right, fields[1], contract.bound.window_ms)
    rows = lefts.join(rights, expr(" AND ".join(_conditions(contract))), contract.kind.how)
    for term in contract.where:
        rows = rows.where(_term(contract, term))
    return rows.selectExpr(*_output(contract))


def as_columns(contract: Contract) -> Contract:
    """The contract with its fields renamed to the columns of the join's state."""
    sides = [_in_state(prefix, side) for prefix, side in ((LEFT, contract.left), (RIGHT, contract.right))]
    refs = [(f"{prefix}_partition", f"{prefix}_offset") for prefix in (LEFT, RIGHT)]
    output = replace(contract.output, left_ref=refs[0], right_ref=refs[1])
    return replace(contract, left=sides[0], right=sides[1], output=output)


def _in_state(prefix: str, side: Side) -> Side:
    keys = tuple(f"{prefix}_key{at}" for at in range(len(side.keys)))
    return replace(side, keys=keys, time=f"{prefix}_time", time_format=ISO, time_zone="UTC")


def side_rows(
    records: DataFrame, prefix: str, side: Side, fields: Mapping[str, Field], window_ms: int | None
) -> DataFrame:
    """A side's rows: ``id``, ``key0`` …, ``time`` or ``window``, what is compared, ``partition``, ``offset``, prefixed.

    ``fields`` are those of the side by name, id and keys among them.
    """
    time = f"{prefix}_time"
    columns = {f"{prefix}_id": fields[side.id], time: side.time_field}
    columns |= {f"{prefix}_{_column(side, name)}": field for name, field in fields.items() if name != side.id}
    if side.id in side.keys:
        columns[f"{prefix}_{_column(side, side.id)}"] = fields[side.id]
    rows = parsed(records, side, columns, time)
    rows = rows.withColumnsRenamed({name: f"{prefix}_{name}" for name in PLACES})
    if not side.keeps_null_event_time:
        rows = rows.where(f"{time} IS NOT NULL")
    for what in side.filters:
        value = _literal(what.value, fields[what.field])
        rows = rows.where(f"`{prefix}_{_column(side, what.field)}` {what.op} {value}")
    if side.watermark_delay_ms is not None:
        rows = rows.withWatermark(time, f"{side.watermark_delay_ms} milliseconds")
    if window_ms is None:
        return rows
    # A side may have one event time column only: Spark rejects a join of two.
    others = [f"`{name}`" for name in rows.columns if name != time]
    return rows.selectExpr(f"window({time}, '{window_ms} milliseconds') AS {prefix}_window", *others)


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


def _column(side: Side, name: str) -> str:
    """The column of what a contract names, without the prefix."""
    return f"key{side.keys.index(name)}" if name in side.keys else f"value_{name}".replace("`", "_")


def _term(contract: Contract, term: Term) -> str:
    values = contract.values
    sides = ((LEFT, contract.left, term.left), (RIGHT, contract.right, term.right))
    compared = next(values[at][name] for at, name in enumerate((term.left, term.right)) if name is not None)
    left, right = (
        _literal(term.value, compared) if name is None else f"`{prefix}_{_column(side, name)}`"
        for prefix, side, name in sides
    )
    return f"{left} {term.op} {right}"


def _literal(value: Literal | None, field: Field) -> str:
    """A value of the contract in SQL, as one of the type of what it is compared with."""
    kind, text = field.made, str(value).replace("\\", "\\\\").replace("'", "\\'")
    if kind.kind == BIGINT:
        return text
    if kind.kind == DECIMAL:
        return f"{literal_of(value, kind):f}BD" if value is not None else "NULL"
    return f"CAST('{text}' AS {kind})"


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
