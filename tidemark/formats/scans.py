"""The large files of evidence as tables of SQL, and single records of them by their numbers.

A scan is the text of a table function of DuckDB, for JSON Lines and for Parquet. Columns are those of a record: of a
trace ``topic partition value value_base64``, of the output ``partition offset value key headers timestamp_ms``,
headers as JSON. The header of a trace has no ``topic``. A scan does not see what the readers of these files refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, filterfalse
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec

from tidemark.formats.jsonlines import open_lines
from tidemark.formats.record_files import is_parquet, pick_parquet

_TRACE = {"topic": "VARCHAR", "partition": "BIGINT", "value": "VARCHAR", "value_base64": "VARCHAR"}
_OUTPUT = {
    "partition": "BIGINT",
    "offset": "BIGINT",
    "value": "VARCHAR",
    "key": "VARCHAR",
    "headers": "VARCHAR",
    "timestamp_ms": "BIGINT",
}
_HEADERS = (
    "cast(to_json(list_transform(headers, lambda h: json_array(h.name, case when h.value_bytes is null"
    " then to_json(h.value) else json_object('base64', to_base64(h.value_bytes)) end))) as varchar)"
)
_FROM_PARQUET = {
    "trace": "topic, partition, value, to_base64(value_bytes) as value_base64",
    "output": f'partition, "offset", value, key, {_HEADERS} as headers, timestamp_ms',
}


_is_no_line = methodcaller("isspace")


def scan_of(path: Path, name: str) -> str:
    """What stands behind ``from`` to scan a file of this name (``trace``, ``flush`` or ``output``)."""
    kind = "output" if name == "output" else "trace"
    quoted = "'" + str(path.resolve()).replace("'", "''") + "'"
    if is_parquet(path):
        return f"(select {_FROM_PARQUET[kind]} from read_parquet({quoted}))"
    known = _OUTPUT if kind == "output" else _TRACE
    columns = ", ".join(f"'{column}': '{type_}'" for column, type_ in known.items())
    return f"read_json({quoted}, format = 'newline_delimited', columns = {{{columns}}})"


def pick(path: Path, kind: type[Any], asked: bytes) -> Iterator[Any]:
    """The records of a file, in order, of which ``asked`` has a 1 at the record's number, counted from 0.

    A number is that of a row of a scan: the header of a trace in JSON Lines is number 0, in Parquet there is none. The
    numbers behind the end of ``asked`` are not asked for.
    """
    if is_parquet(path):
        yield from pick_parquet(path, kind, asked)
        return
    with open_lines(path) as file:
        yield from map(msgspec.json.Decoder(kind).decode, compress(filterfalse(_is_no_line, file), asked))
