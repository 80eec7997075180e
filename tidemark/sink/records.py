"""Converts Arrow batches, with the columns of Spark's own Kafka sink, to Kafka records. Free of Spark and Kafka.

``value`` is required; ``key``, ``headers``, ``topic`` and ``partition`` are optional. The sink adds :data:`KEYS`
itself: a 64-bit hash of the key expressions. The fingerprint of a partition is the sum of these hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.errors import SinkRefused

KEYS = "__keys"
TEXT = ("string", "binary")
HEADERS = "array<struct<key:string,value:binary>>"
COLUMNS: dict[str, tuple[str, ...]] = {
    "value": TEXT,
    "key": TEXT,
    "headers": (HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    KEYS: ("bigint",),
}

Record = tuple[str, Any, Any, int, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition (-1: chosen by the key), headers."""


def check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    """Raise ``SinkRefused`` unless the data frame's columns (name -> Spark's short type name) can be written."""
    for name, kind in columns.items():
        if name not in COLUMNS:
            raise SinkRefused(
                f"column {name!r} is not a field of a Kafka record",
                hint="select value, and optionally key, headers, topic, partition; put other columns into "
                "value, for example "
                "with to_json",
            )
        if kind not in COLUMNS[name]:
            raise SinkRefused(
                f"column {name!r} has type {kind}", hint=f"cast it to {' or '.join(COLUMNS[name])}"
            )
    if "value" not in columns:
        raise SinkRefused(
            "the data frame has no column 'value'", hint="select a STRING or BINARY column as value"
        )
    if topic is None and "topic" not in columns:
        raise SinkRefused(
            "no output topic is set", hint="set the option topic, or add a column 'topic' to the data frame"
        )


class KeySum:
    """The fingerprint of a partition's keys: number of rows and sum of the key hashes, independent of row order."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self.rows += batch.num_rows
        if KEYS in batch.schema.names:
            halves = batch.column(KEYS).view(
                pa.uint64()
            )  # sums of halves cannot overflow: nothing has to wrap
            high = pc.sum(pc.shift_right(halves, pa.scalar(32, pa.uint64()))).as_py() or 0
            low = pc.sum(pc.bit_wise_and(halves, pa.scalar(0xFFFFFFFF, pa.uint64()))).as_py() or 0
            self._sum = (self._sum + (high << 32) + low) % 2**64

    def __str__(self) -> str:
        return f"{self._sum:016x}"


def records(
    batch: pa.RecordBatch, topic: str | None, stamp: list[tuple[str, bytes | None]]
) -> Iterator[Record]:
    """The rows of a batch as records. ``stamp`` has headers that are added to every record.

    Raises:
        SinkRefused: a row has no topic.
    """
    columns = {name: _plain(batch, name) for name in batch.schema.names if name != KEYS}
    nothing = [None] * batch.num_rows
    topics = [topic] * batch.num_rows if topic else columns["topic"]
    rows = zip(
        topics,
        columns["value"],
        columns.get("key", nothing),
        columns.get("partition", nothing),
        columns.get("headers", nothing),
        strict=True,
    )
    for name, value, key, partition, pairs in rows:
        if name is None:
            raise SinkRefused(
                f"a row has no topic: value {value!r:.100}",
                detail="the option topic is not set, and the row's column 'topic' is NULL",
                hint="set the column, or filter such rows out; after a restart the query continues where it stopped",
            )
        headers = [(pair["key"], pair["value"]) for pair in pairs or ()] + stamp
        yield name, value, key, -1 if partition is None else partition, headers or None


def plain(batch: pa.RecordBatch, topic: str | None) -> tuple[list[Any], list[Any]] | None:
    """Fast path: values and keys, if the records have no other fields; otherwise ``None``."""
    if topic is None or {"headers", "partition", "topic"} & set(batch.schema.names):
        return None
    keys = _plain(batch, "key") if "key" in batch.schema.names else [None] * batch.num_rows
    return _plain(batch, "value"), keys


def _plain(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    if name in ("key", "value"):  # avoids decoding strings; the cast is free
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        column = column.cast(pa.large_binary() if large else pa.binary())
    listed: list[Any] = column.to_pylist()
    return listed
