"""The large files of evidence as tables of SQL: the text of a scan by DuckDB, for JSON Lines and for Parquet.

Free of I/O: it gives text. Columns are those of a record: of a trace ``topic partition value value_base64``, of the
output ``partition offset value key headers timestamp_ms``, headers as JSON. The header of a trace has no ``topic``.
A scan does not see what the readers of these files refuse.
"""

from __future__ import annotations

from pathlib import Path

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


def scan_of(path: Path, name: str) -> str:
    """What stands behind ``from`` to scan a file of this name (``trace``, ``flush`` or ``output``)."""
    kind = "output" if name == "output" else "trace"
    quoted = "'" + str(path.resolve()).replace("'", "''") + "'"
    if path.suffix == ".parquet":
        return f"(select {_FROM_PARQUET[kind]} from read_parquet({quoted}))"
    known = _OUTPUT if kind == "output" else _TRACE
    columns = ", ".join(f"'{column}': '{type_}'" for column, type_ in known.items())
    return f"read_json({quoted}, format = 'newline_delimited', columns = {{{columns}}})"
