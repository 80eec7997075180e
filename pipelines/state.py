"""Reads the state of a join from its checkpoint, with Spark's state data source.

Each row of the state becomes a line of JSON (``state.jsonl`` in ``tidemark/formats/evidence.py``). The optimizer
decides which columns the state has: a column is found by its name in the contract, and is NULL if the state lacks it.

Stores (Spark 4.2): ``SIDE-keyWithIndexToValue`` in state formats 1 to 3, ``SIDE-keyWithTsToValues`` in format 4; the
last column of both is ``matched``. Beside them are ``SIDE-keyToNumValues``, which counts the rows of each key, and in
format 4 ``SIDE-tsWithKey``, which has an entry for each row of a key and time, in the order of times. A key without
rows is in neither. From format 3 on, all of them share one store, so ``state-metadata`` does not tell them apart.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import array, col, lit, struct, to_json, unix_micros
from pyspark.sql.types import StructType, TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidemark.formats.contract import Contract, Side

OPERATOR = "symmetricHashJoin"
FIRST_WITH_READER = 4
"""The first major version of Spark with the state data source."""
TO_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
"""Of a time in a key: Spark writes milliseconds if it is not told otherwise, and two keys would be one."""
FIRST_BY_TIME = 4
"""The first state format whose rows are ordered by time."""


class StateProblem(Exception):
    """The query does not have exactly one join with a state (a chain: none at all), or this Spark cannot read it."""


def has_reader(session: SparkSession) -> None:
    """Raise ``StateProblem`` for a Spark that cannot read a state."""
    if int(session.version.partition(".")[0]) < FIRST_WITH_READER:
        raise StateProblem(f"Spark {session.version} has no data source that reads a state")


def rows_store(form: int) -> str:
    """The name, without that of the side, of the store that has the rows of a join in a state format."""
    return "keyWithTsToValues" if form >= FIRST_BY_TIME else "keyWithIndexToValue"


def write_state(session: SparkSession, checkpoint: str, contract: Contract, wanted: dict[str, Any]) -> int:
    """Write the rows of the state after each of ``wanted["batches"]`` to the file ``wanted["path"]``.

    ``wanted["format"]`` is the join's state format. ``wanted["until_us"]``, if it is there, leaves out the rows with a
    later time. ``wanted["keys_path"]``, if it is there, is the file for the keys (``state_keys.jsonl``). Returns the
    number of rows. Raises ``StateProblem``, and Spark's errors.
    """
    has_reader(session)
    stores = _Stores(session, checkpoint, _operator(session, checkpoint), wanted["format"])
    refs = contract.output.left_ref, contract.output.right_ref
    window = contract.bound.window_ms is not None
    parts: list[DataFrame] = []
    known: dict[str, tuple[Column, Column]] = {}
    for batch in wanted["batches"]:
        for name, side, ref in zip(("left", "right"), (contract.left, contract.right), refs, strict=True):
            rows = stores.read(batch, name, stores.rows)
            if name not in known:  # the same after every batch; reading the schema takes an analysis by Spark
                known[name] = (
                    _line(rows.schema["value"].dataType, side, ref, window=window),
                    _key(rows.schema["key"].dataType),
                )
            line, key = known[name]
            found = rows.select(key.alias("state_key"), "batch", "side", line.alias("line"))
            if (until_us := wanted.get("until_us")) is not None:
                found = found.where(col("line.time_us").isNull() | (col("line.time_us") <= lit(until_us)))
            text = to_json("line", {"ignoreNullFields": "false"})
            parts.append(found.select("batch", "side", "state_key", text, lit(None).cast("bigint")))
            if "keys_path" in wanted:
                counted = stores.read(batch, name, stores.keys).select(
                    "batch", "side", key, lit(None).cast("string"), stores.count
                )
                parts.append(counted)
    found_parts = reduce(lambda some, more: some.union(more), parts).collect() if parts else []
    lines = [line for *_, line, _ in found_parts if line is not None]
    write_lines(wanted["path"], lines)
    if "keys_path" in wanted:
        write_lines(wanted["keys_path"], map(json.dumps, state_keys(found_parts, contract)))
    return len(lines)


class _Stores:
    """The stores of a join: ``rows`` has its rows, ``keys`` its keys, with what ``count`` says of each."""

    def __init__(self, session: SparkSession, checkpoint: str, operator: int, form: int) -> None:
        self._source = session.read.format("statestore").option("operatorId", operator)
        self._checkpoint = checkpoint
        by_time = form >= FIRST_BY_TIME
        self.rows, self.keys = rows_store(form), "tsWithKey" if by_time else "keyToNumValues"
        self.count = lit(1).cast("bigint") if by_time else col("value.value")

    def read(self, batch: int, side: str, store: str) -> DataFrame:
        """A store of a side after a batch, with ``batch`` and ``side`` as columns."""
        source = self._source.option("batchId", batch).option("storeName", f"{side}-{store}")
        return source.load(self._checkpoint).withColumns({"batch": lit(batch), "side": lit(side)})


def state_keys(found: Iterable[Sequence[Any]], contract: Contract) -> Iterator[dict[str, Any]]:
    """The lines of ``state_keys.jsonl``, of what was read: batch, side, key of the state, row or ``None``, count.

    A key is named by its rows, because the key of the state may have the event time or the window in it, and has its
    parts in the order of the query's condition. A key without rows is named by its parts.
    """
    rows: dict[tuple[int, str, str], tuple[Any, set[int | None]]] = {}
    counts: dict[tuple[int, str, str], int] = {}
    for batch, side, state_key, line, count in found:
        place = batch, side, state_key
        if line is None:
            counts[place] = counts.get(place, 0) + count
        else:
            row = json.loads(line)
            rows.setdefault(place, (row["key"], set()))[1].add(row["time_us"])
    for place, count in counts.items():
        batch, side, state_key = place
        key, times = rows.get(place) or _named(json.loads(state_key), len(contract.left.keys))
        time_us = next(iter(times)) if len(times) == 1 else None
        yield {"batch": batch, "side": side, "key": key, "time_us": time_us, "count": count}


def _named(parts: dict[str, Any], keys: int) -> tuple[list[str | None] | None, set[int | None]]:
    """Key and time of a key of the state, as far as its parts tell them."""
    time_us = parts.pop("__event_time", None)
    texts = [part if part is None else str(part) for part in parts.values() if not isinstance(part, dict)]
    return (texts if len(texts) == len(parts) == keys else None), {time_us}


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write a file, whole or not at all."""
    part = Path(f"{path}.part")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(path)


def _key(key: DataType) -> Column:
    """The text of a key of the state, which is the same in all stores; the index of a row is no part of it."""
    names = [name for name in key.names if name != "index"] if isinstance(key, StructType) else []
    options = {
        "ignoreNullFields": "false",
        "timestampFormat": TO_MICROSECONDS,
        "timestampNTZFormat": TO_MICROSECONDS,
    }
    return to_json(struct(*[col(f"key.`{name}`") for name in names]), options)


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
