"""The columns of the records of a run in Parquet: those of the trace, of the output, and of the state.

A record is the same in both formats: its fields are the columns. Text is ``VARCHAR``; bytes that are not valid UTF-8
(``value_base64`` in JSON) are in a column of their own, ``value_bytes``. ``line`` is the record as it was written in
the JSON Lines file that was converted, if tidemark would write it in another way, and NULL otherwise: what is made of
a Parquet file is the same, byte by byte. It is there, too, for a record with ``transaction`` or ``absent``, which are
no columns: few traces have them. ``tidemark.formats.evidence`` has the columns of each file.

Needs pyarrow: imported where a Parquet file is read or written.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tidemark.formats.evidence import OutputRecord, StateRow
from tidemark.formats.parquet import BLOCK_ROWS, Columns, RowReader, RowWriter
from tidemark.formats.record_files import END_KEY, HEADER_KEY, BrokenParquet
from tidemark.formats.trace import Base64, HeaderValue, Record

_BESIDE_COLUMNS = re.compile('"(?:transaction|absent)"').search
"""Whether a line may have fields that are no columns."""

Header = tuple[str, str | None, bytes | None]
"""A header as a row has it: name, value, and the value's bytes if they are not valid UTF-8."""


@dataclass(frozen=True)
class Layout:
    """Columns, and how a kind of record becomes a row of them, and a block of rows records."""

    kind: type[Any]
    columns: Columns
    row: Callable[[Any], tuple[Any, ...]]
    records: Callable[[Sequence[list[Any]]], list[Any]]


def read_rows(path: Path, kind: type[Any]) -> Iterator[list[Any]]:
    """The records of a Parquet file in blocks; raises ``BrokenParquet`` and ``OSError``."""
    layout = LAYOUTS[kind]
    with RowReader(path, layout.columns) as reader:
        for lists in reader.blocks():
            yield layout.records(lists)


def pick_rows(path: Path, kind: type[Any], asked: bytes) -> Iterator[Any]:
    """The records of the rows for which ``asked`` has a 1; raises ``BrokenParquet`` and ``OSError``."""
    layout = LAYOUTS[kind]
    with RowReader(path, layout.columns) as reader:
        for lists in reader.blocks(asked):
            yield from layout.records(lists)


def read_metadata(path: Path, kind: type[Any]) -> dict[str, str]:
    """The key/value pairs of a Parquet file; raises ``BrokenParquet`` and ``OSError``."""
    with RowReader(path, LAYOUTS[kind].columns) as reader:
        return reader.metadata


def read_lines(path: Path, kind: type[Any]) -> Iterator[bytes]:
    """The JSON Lines file that says the same as a Parquet file, in pieces: its header and its records.

    Raises ``BrokenParquet``, also for a record that is not what its ``line`` says, and ``OSError``.
    """
    layout, encode = LAYOUTS[kind], msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(kind).decode
    number, before = 0, b""
    with RowReader(path, layout.columns) as reader:
        if HEADER_KEY in reader.metadata:
            yield reader.metadata[HEADER_KEY].encode()
            before = b"\n"
        for lists in reader.blocks():
            pieces = []
            for record, line in zip(layout.records(lists), lists[-1], strict=True):
                number += 1
                if line is None:
                    pieces.append(encode(record))
                    continue
                try:
                    is_same = layout.row(decode(line)) == layout.row(record)
                except (ValueError, RecursionError) as error:
                    raise BrokenParquet(f"record {number}: its line is no record: {error}") from error
                if not is_same:
                    raise BrokenParquet(f"record {number} is not what its line says")
                pieces.append(line.encode())
            yield (before if pieces else b"") + b"\n".join(pieces)
            before = b"\n" if number else before
        yield reader.metadata.get(END_KEY, "\n").encode()


def write_rows(writer: RowWriter, kind: type[Any], blocks: Iterable[Sequence[tuple[Any, str | None]]]) -> int:
    """Write blocks of records, each with its ``line`` or ``None``; returns their number.

    Raises ``OSError``, and ``BrokenParquet`` for a record that does not fit into the columns.
    """
    to_row, count = LAYOUTS[kind].row, 0
    for block in blocks:
        for first in range(0, len(block), BLOCK_ROWS):
            some = block[first : first + BLOCK_ROWS]
            rows = [(*to_row(record), line or _line_beside(record)) for record, line in some]
            writer.write([list(column) for column in zip(*rows, strict=True)])
            count += len(rows)
    return count


def _trace_row(record: Record) -> tuple[Any, ...]:
    return (
        record.topic, record.partition, record.key, record.value, _header_rows(record.headers),
        record.arrival_ms, record.timestamp_ms, record.event_ms, record.slice,
        _decoded(record.key_base64), _decoded(record.value_base64),
    )  # fmt: skip


def _trace_records(lists: Sequence[list[Any]]) -> list[Record]:
    (
        topics,
        partitions,
        keys,
        values,
        headers,
        arrivals,
        timestamps,
        events,
        slices,
        raw_keys,
        raw_values,
        lines,
    ) = lists
    records = [
        Record(
            topic=topic, partition=partition, key=key, value=value, headers=header and _headers(header),
            arrival_ms=arrival, timestamp_ms=timestamp, event_ms=event, slice=number,
            key_base64=raw_key if raw_key is None else base64.b64encode(raw_key).decode(),
            value_base64=raw_value if raw_value is None else base64.b64encode(raw_value).decode(),
        )
        for topic, partition, key, value, header, arrival, timestamp, event, number, raw_key, raw_value
        in zip(topics, partitions, keys, values, headers, arrivals, timestamps, events, slices, raw_keys, raw_values,
               strict=True)
    ]  # fmt: skip
    for at, line in enumerate(lines):
        if line is not None and _BESIDE_COLUMNS(line):
            records[at] = _of_line(line, records[at])
    return records


def _of_line(line: str, columns: Record) -> Record:
    """The record of a line, of which the columns do not say everything."""
    try:
        record = msgspec.json.decode(line, type=Record)
        is_same = _trace_row(record) == _trace_row(columns)
    except (ValueError, RecursionError) as error:
        raise BrokenParquet(f"a line is no record: {error}") from error
    if not is_same:
        raise BrokenParquet("a record is not what its line says")
    return record


def _line_beside(record: Any) -> str | None:
    """The line of a record of which the columns do not say everything."""
    if not isinstance(record, Record) or record.is_plain:
        return None
    return msgspec.json.encode(record).decode()


def _output_row(record: OutputRecord) -> tuple[Any, ...]:
    headers = _header_rows(record.headers)
    return record.partition, record.offset, record.key, record.value, headers, record.timestamp_ms


def _output_records(lists: Sequence[list[Any]]) -> list[OutputRecord]:
    return [
        OutputRecord(
            partition=partition, offset=offset, key=key, value=value, headers=header and _headers(header),
            timestamp_ms=timestamp,
        )
        for partition, offset, key, value, header, timestamp in zip(*lists[:-1], strict=True)
    ]  # fmt: skip


def _state_row(row: StateRow) -> tuple[Any, ...]:
    partition, offset = (None, None) if row.ref is None else row.ref
    return row.batch, row.side, row.key, row.time_us, partition, offset, row.matched


def _state_records(lists: Sequence[list[Any]]) -> list[StateRow]:
    return [
        StateRow(batch=batch, side=_side(side), key=None if key is None else tuple(key), time_us=time_us,
                 ref=_ref(partition, offset), matched=matched)
        for batch, side, key, time_us, partition, offset, matched in zip(*lists[:-1], strict=True)
    ]  # fmt: skip


def _side(name: str) -> Any:
    if name not in ("left", "right"):
        raise BrokenParquet(f"side is {name[:40]!r}, which is neither left nor right")
    return name


def _ref(partition: int | None, offset: int | None) -> tuple[int, int] | None:
    if partition is None or offset is None:
        if partition is not offset:
            raise BrokenParquet("of ref_partition and ref_offset one is NULL")
        return None
    return partition, offset


def _header_rows(headers: Sequence[tuple[str, HeaderValue]]) -> list[Header]:
    return [
        (name, None, value.base64) if isinstance(value, Base64) else (name, value, None)
        for name, value in headers
    ]


def _headers(rows: Sequence[Header]) -> list[tuple[str, HeaderValue]]:
    return [(name, value if raw is None else _raw(value, raw)) for name, value, raw in rows]


def _raw(value: str | None, raw: bytes) -> Base64:
    if value is not None:
        raise BrokenParquet("a header has both a value and value_bytes")
    return Base64(raw)


def _decoded(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text)
    except binascii.Error as error:
        raise BrokenParquet(f"{text[:40]!r} is no base64" if text else "") from error


TRACE: Columns = {
    "topic": "VARCHAR", "partition": "BIGINT", "key": "VARCHAR?", "value": "VARCHAR?", "headers": "HEADER[]",
    "arrival_ms": "BIGINT", "timestamp_ms": "BIGINT?", "event_ms": "BIGINT?", "slice": "BIGINT",
    "key_bytes": "BLOB?", "value_bytes": "BLOB?", "line": "VARCHAR?",
}  # fmt: skip
OUTPUT: Columns = {
    "partition": "BIGINT", "offset": "BIGINT", "key": "VARCHAR?", "value": "VARCHAR?", "headers": "HEADER[]",
    "timestamp_ms": "BIGINT", "line": "VARCHAR?",
}  # fmt: skip
STATE: Columns = {
    "batch": "BIGINT", "side": "VARCHAR", "key": "VARCHAR[]?", "time_us": "BIGINT?", "ref_partition": "BIGINT?",
    "ref_offset": "BIGINT?", "matched": "BOOLEAN?", "line": "VARCHAR?",
}  # fmt: skip
LAYOUTS: dict[type[Any], Layout] = {
    Record: Layout(Record, TRACE, _trace_row, _trace_records),
    OutputRecord: Layout(OutputRecord, OUTPUT, _output_row, _output_records),
    StateRow: Layout(StateRow, STATE, _state_row, _state_records),
}
"""The layout of each kind of record."""
