"""Reads the state of a join from its checkpoint, with Spark's state data source.

Each row of the state becomes a line of JSON (``state.jsonl`` in ``tidemark/formats/evidence.py``). The optimizer
decides which columns the state has: a column is found by its name in the contract, and is NULL if the state lacks it.

Stores (Spark 4.2): ``SIDE-keyWithIndexToValue`` in state formats 1 to 3, ``SIDE-keyWithTsToValues`` in format 4; the
last column of both is ``matched``. From format 3 on, all of them share one store, so ``state-metadata`` does not
tell them apart.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import array, col, lit, struct, to_json, unix_micros
from pyspark.sql.types import StructType, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidemark.formats.contract import Contract, Side

OPERATOR = "symmetricHashJoin"
FIRST_WITH_READER = 4
"""The first major version of Spark with the state data source."""
FIRST_BY_TIME = 4
"""The first state format whose rows are ordered by time."""


class StateProblem(Exception):
    """The query does not have exactly one join with a state, or this Spark cannot read it."""


def write_state(session: SparkSession, checkpoint: str, contract: Contract, wanted: dict[str, Any]) -> int:
    """Write the rows of the state after each of ``wanted["batches"]`` to the file ``wanted["path"]``.

    ``wanted["format"]`` is the join's state format. ``wanted["until_us"]``, if it is there, leaves out the rows with a
    later time. Returns the number of rows. Raises ``StateProblem``, and Spark's errors.
    """
    if int(session.version.partition(".")[0]) < FIRST_WITH_READER:
        raise StateProblem(f"Spark {session.version} has no data source that reads a state")
    operator = _operator(session, checkpoint)
    kind = "keyWithTsToValues" if wanted["format"] >= FIRST_BY_TIME else "keyWithIndexToValue"
    refs = contract.output.left_ref, contract.output.right_ref
    window = contract.bound.window_ms is not None
    parts: list[DataFrame] = []
    known: dict[str, Column] = {}
    for batch in wanted["batches"]:
        for name, side, ref in zip(("left", "right"), (contract.left, contract.right), refs, strict=True):
            source = session.read.format("statestore").option("operatorId", operator).option("batchId", batch)
            rows = source.option("storeName", f"{name}-{kind}").load(checkpoint)
            if name not in known:  # the same after every batch; reading the schema takes an analysis by Spark
                known[name] = _line(rows.schema["value"].dataType, side, ref, window=window)
            line = rows.withColumns({"batch": lit(batch), "side": lit(name)}).select(
                known[name].alias("line")
            )
            if (until_us := wanted.get("until_us")) is not None:
                line = line.where(col("line.time_us").isNull() | (col("line.time_us") <= lit(until_us)))
            parts.append(line.select(to_json("line", {"ignoreNullFields": "false"})))
    lines = reduce(lambda some, more: some.union(more), parts).collect() if parts else []
    part = Path(f"{wanted['path']}.part")
    part.write_text("".join(f"{line}\n" for (line,) in lines))
    part.replace(wanted["path"])
    return len(lines)


def _operator(session: SparkSession, checkpoint: str) -> int:
    """The id of the only join in the plan."""
    stores = session.read.format("state-metadata").load(checkpoint)
    of_partitions = stores.where(col("operatorName") == OPERATOR).select("operatorId").collect()
    joins = {int(row[0]) for row in of_partitions}
    if len(joins) != 1:
        raise StateProblem(
            f"the query has {len(joins)} joins with a state; only that of one join can be read"
        )
    return joins.pop()


def _line(value: DataType, side: Side, ref: Sequence[str] | None, *, window: bool) -> Column:
    """A line for a row of the state, from its column ``value`` (of this type), ``batch`` and ``side``."""
    names = set(value.names) if isinstance(value, StructType) else set()
    keys = side.keys if names.issuperset(side.keys) else ()
    places = ref if ref is not None and names.issuperset(ref) else ()
    matched = _field("matched") if "matched" in names else lit(None)
    return struct(
        "batch",
        "side",
        _list(keys, "string").alias("key"),
        _time(value, side.time, window=window).cast("bigint").alias("time_us"),
        _list(places, "bigint").alias("ref"),
        matched.cast("boolean").alias("matched"),
    )


def _field(name: str) -> Column:
    return col(f"value.`{name}`")


def _list(names: Sequence[str], kind: str) -> Column:
    """These fields as an array, or NULL without any."""
    every = [_field(name).cast(kind) for name in names]
    return array(*every) if every else lit(None).cast(f"array<{kind}>")


def _time(value: Any, time: str, *, window: bool) -> Column:
    """The event time, or the end of the only window, in microseconds since the epoch; NULL if the state lacks it."""
    fields = value.fields if isinstance(value, StructType) else []
    if window:
        ends = [
            field.name
            for field in fields
            if isinstance(field.dataType, StructType) and field.dataType.names == ["start", "end"]
        ]
        return unix_micros(col(f"value.`{ends[0]}`.end")) if len(ends) == 1 else lit(None)
    is_there = any(field.name == time and isinstance(field.dataType, TimestampType) for field in fields)
    return unix_micros(_field(time)) if is_there else lit(None)
