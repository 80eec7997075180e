"""The rows of a Parquet file as JSON texts, as Spark's ``to_json`` writes a row, with these differences.

A TIMESTAMP keeps its microseconds, if it has any (``to_json`` cuts it to milliseconds), and is in UTC whatever the time
zone of the query was. As there, a NULL field is left out, a DATE and a TIMESTAMP are texts, a DECIMAL is a number,
BINARY is in Base64, a map is an object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from tidemark.errors import BrokenTable
from tidemark.formats.events import write_time
from tidemark.formats.time_forms import EPOCH
from tidemark.sparkfiles.table_files import TableFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS = 4096
"""Rows that are in memory at a time."""
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder(decimal_format="number").encode


def read_rows(file: TableFile) -> Iterator[tuple[int, str]]:
    """The number and the value of each row that counts; raises ``BrokenTable``."""
    with _opened(file) as parquet:
        yield from _read(file, parquet)


def count_rows(file: TableFile) -> int:
    """The number of rows in the file, those that do not count included; raises ``BrokenTable``."""
    with _opened(file) as parquet:
        return int(parquet.metadata.num_rows)


@contextmanager
def _opened(file: TableFile) -> Iterator[pq.ParquetFile]:
    """The file, open; what goes wrong with it in the block is ``BrokenTable``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A time of the year 9999 does not fit into 64 bits of nanoseconds, which is what INT96 is read into otherwise.
        with pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as parquet:
            yield parquet
    except (OSError, pa.ArrowException, OverflowError, ValueError) as error:
        raise BrokenTable(
            f"the data file {str(file.path)!r} cannot be read as Parquet",
            detail=str(error).partition("\n")[0],
            hint="a table of the file sink must be in Parquet; a file that was cut while it was copied: copy it again",
        ) from error


def _read(file: TableFile, parquet: pq.ParquetFile) -> Iterator[tuple[int, str]]:
    instants = _instants(parquet)
    there = [name for name in parquet.schema_arrow.names if file.renamed is None or name in file.renamed]
    names = [name if file.renamed is None else file.renamed[name] for name in there]
    kept, number = file.kept, 0
    for batch in parquet.iter_batches(batch_size=ROWS, columns=None if file.renamed is None else there):
        columns = [_values(batch.column(name), is_instant=name in instants) for name in there]
        # A file may have rows and no column of its own.
        rows = zip(*columns, strict=True) if columns else (() for _ in range(batch.num_rows))
        for values in rows:
            if kept is None or number >= len(kept) or kept[number]:
                row = {name: value for name, value in zip(names, values, strict=True) if value is not None}
                row.update((name, value) for name, value in file.columns.items() if value is not None)
                yield number, _encode(row).decode()
            number += 1


def _instants(parquet: pq.ParquetFile) -> set[str]:
    """Columns in INT96: it has no zone of its own, and Spark writes nothing but TIMESTAMP in it."""
    leaves = (parquet.schema.column(index) for index in range(len(parquet.schema)))
    return {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}


def _values(column: pa.Array, *, is_instant: bool) -> list[Any]:
    """The values of a column as JSON has them."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        zone = "Z" if is_instant or kind.tz is not None else ""
        # By way of microseconds: Python's datetime ends with the year 9999.
        whole = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_pylist()
        return [None if one is None else _time(one, zone) for one in whole]
    if pa.types.is_float32(kind):
        # The shortest text that is the same FLOAT: 0.1, where the DOUBLE of the same value is 0.10000000149011612.
        column = column.cast(pa.string()).cast(pa.float64())
    elif pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    return [json_value(one, is_instant=is_instant) for one in column.to_pylist()]


def _time(time_us: int, zone: str) -> str:
    text = write_time(time_us)
    return text if zone else text.removesuffix("Z")


def json_value(value: Any, *, is_instant: bool = False) -> Any:
    """A value of Arrow as JSON has it, at any depth."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return _time((moment - EPOCH) // _MICROSECOND, "Z" if is_instant or value.tzinfo else "")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        fields = {name: json_value(one, is_instant=is_instant) for name, one in value.items()}
        return {name: one for name, one in fields.items() if one is not None}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):  # a map
            return {str(key): json_value(one, is_instant=is_instant) for key, one in value}
        return [json_value(one, is_instant=is_instant) for one in value]
    return value
