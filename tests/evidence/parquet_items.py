"""Records as JSON values into Parquet files, and out of them, without tidemark's own reader and writer.

A value that does not fit into its column makes a column of text of it, as a program with another idea of the format
would; a field that there is no column for gets one.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tidemark.formats.evidence import STORED, TRACES
from tidemark.formats.parquet import TYPES
from tidemark.formats.record_columns import LAYOUTS
from tidemark.formats.record_files import HEADER_KEY

BINARY = {"key_base64": "key_bytes", "value_base64": "value_bytes"}
DEFAULTS: dict[str, dict[str, Any]] = {
    "trace": {"partition": 0, "headers": [], "slice": 0},
    "flush": {"partition": 0, "headers": [], "slice": 0},
    "output": {"headers": [], "timestamp_ms": 0},
    "state": {},
}
"""Fields that JSON leaves out."""


def write_items(path: Path, name: str, texts: list[str], items: list[Any]) -> None:
    """Write the records of a file, of a trace with its header first; ``texts`` are the same as lines."""
    metadata = {HEADER_KEY: texts[0].rstrip("\n")} if name in TRACES and texts else {}
    rows = [_row(name, item) for item in items[name in TRACES :]]
    kinds = {column: kind.rstrip("?") for column, kind in LAYOUTS[STORED[name]].columns.items()}
    columns = [*kinds, *dict.fromkeys(key for row in rows for key in row if key not in kinds)]
    arrays = [
        _array([row.get(column) for row in rows], TYPES.get(kinds.get(column, ""))) for column in columns
    ]
    table = pa.table(dict(zip(columns, arrays, strict=True)))
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)


def read_items(path: Path, name: str) -> list[Any]:
    """The records of a file as JSON has them; raises ``OSError`` and ``ValueError``."""
    if not path.is_file():
        raise OSError("no file")
    try:
        file = pq.ParquetFile(path)
        header = (file.metadata.metadata or {}).get(HEADER_KEY.encode(), b"null")
        rows = file.read().to_pylist()
    except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(str(error)) from error
    return [*([json.loads(header)] if name in TRACES else []), *(_item(name, row) for row in rows)]


COLUMN_CHANGES = (
    "removed",
    "renamed",
    "retyped",
    "exchanged",
    "emptied",
    "added",
    "sorted",
    "of fewer rows",
    "regrouped",
)
"""What :func:`change_columns` does; the file is sound Parquet before and after."""


def change_columns(rng: Random, path: Path, change: str) -> None:
    """Write a Parquet file anew with other columns, or other rows."""
    file = pq.ParquetFile(path)
    table, metadata = file.read(), file.metadata.metadata or {}
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    groups = None
    if change == "removed":
        table = table.remove_column(at)
    elif change == "renamed":
        table = table.rename_columns([f"{one}s" if one == name else one for one in table.column_names])
    elif change == "retyped":
        table = table.set_column(
            at, name, pa.array([str(value.as_py()) for value in column], pa.large_binary())
        )
    elif change == "exchanged":
        other = rng.choice([one for one in table.column_names if table[one].type == column.type])
        names = {name: other, other: name}
        table = table.rename_columns([names.get(one, one) for one in table.column_names])
    elif change == "emptied":
        table = table.set_column(at, name, pa.nulls(len(table), column.type))
    elif change == "added":
        table = table.append_column("more", column)
    elif change == "sorted":
        table = table.sort_by(
            [(rng.choice(["partition", "batch", "line"] if name == "headers" else [name]), "descending")]
        )
    elif change == "of fewer rows":
        table = table.slice(rng.randrange(len(table) + 1))
    else:
        groups = rng.choice([1, 7, len(table) + 1])
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table, row_group_size=groups)
        writer.add_key_value_metadata(
            {key: value for key, value in metadata.items() if key != b"ARROW:schema"}
        )


def _row(name: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        return {"line": json.dumps(item)}
    row = DEFAULTS[name] | item
    for field, column in BINARY.items():
        if field in row and name in TRACES:
            text = row.pop(field)
            try:
                row[column] = base64.b64decode(text, validate=True)
            except (TypeError, ValueError):
                row[column] = text
    if "headers" in row:
        row["headers"] = _header_rows(row["headers"])
    if name == "state" and "ref" in row:
        ref = row.pop("ref")
        fits = isinstance(ref, list) and len(ref) == 2
        row["ref_partition"], row["ref_offset"] = ref if fits else (ref, None)
    return row


def _header_rows(headers: Any) -> Any:
    try:
        return [
            {
                "name": name,
                "value": None if isinstance(value, dict) else value,
                "value_bytes": base64.b64decode(value["base64"]) if isinstance(value, dict) else None,
            }
            for name, value in headers
        ]
    except (TypeError, ValueError, KeyError):
        return headers


def _array(values: list[Any], kind: Any) -> Any:
    """A column of a type or, if a value does not fit (or there is none), a column of text."""
    if kind is not None:
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # it is a column of text then
    return pa.array(
        [None if value is None else json.dumps(value, default=str) for value in values], pa.string()
    )


def _item(name: str, row: dict[str, Any]) -> dict[str, Any]:
    row = dict(row)
    if isinstance(row.get("headers"), list):
        row["headers"] = [_header(one) for one in row["headers"]]
    if name == "state":
        partition, offset = row.pop("ref_partition", None), row.pop("ref_offset", None)
        row["ref"] = None if partition is None and offset is None else [partition, offset]
        return {key: value for key, value in row.items() if value is not None or key != "line"}
    for field, column in BINARY.items():
        if isinstance(row.get(column), bytes):
            row[field] = base64.b64encode(row.pop(column)).decode()
    defaults = DEFAULTS[name]
    kept = {key: value for key, value in row.items() if value is not None}
    return {key: value for key, value in kept.items() if key not in defaults or value != defaults[key]}


def _header(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    raw = row.get("value_bytes")
    return [row.get("name"), row.get("value") if raw is None else {"base64": base64.b64encode(raw).decode()}]
