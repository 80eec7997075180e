"""The large files of evidence as tables of SQL, and single records of them by their places.

A scan is what stands behind ``from`` in DuckDB, for JSON Lines and for Parquet. A trace has the columns ``topic`` (NULL
for the header of a trace), ``partition`` and ``value`` (NULL if it is no text). The output of a query has
``partition``, ``value`` and ``batch``, the batch as text where the headers begin with this query and a batch, and have
neither of them again. The state has ``batch side key time_us part position matched``, the place of a row being its
``ref``.
A scan does not see what the readers of these files refuse.
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

_COLUMNS = {
    "trace": "topic: 'VARCHAR', partition: 'BIGINT', value: 'VARCHAR'",
    "output": "partition: 'BIGINT', value: 'VARCHAR', headers: 'VARCHAR'",
    "state": "batch: 'BIGINT', side: 'VARCHAR', key: 'VARCHAR[]', time_us: 'BIGINT', ref: 'BIGINT[]',"
    " matched: 'BOOLEAN'",
}
_HEADERS_OF_THE_SINK, _MOST_HEADERS = 4, 8
"""A record with more headers than this is not looked at."""


_is_no_line = methodcaller("isspace")


def text_of(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def scan_of(path: Path, name: str, query: str = "", rows: range | None = None) -> str:
    """The scan of a file of this name: ``trace``, ``flush``, ``state``, or the ``output`` of a query.

    The id of the query has no quotes. ``rows``: only those of these numbers, counted from 0; of Parquet only.
    """
    quoted = text_of(str(path.resolve()))
    kind = "trace" if name == "flush" else name
    if is_parquet(path):
        scan, batch, ref = f"read_parquet({quoted})", _batch_of_list(query), ("ref_partition", "ref_offset")
        if rows is not None:
            numbered = f"read_parquet({quoted}, file_row_number = true)"
            scan = f"(from {numbered} where file_row_number between {rows.start} and {rows.stop - 1})"
    else:
        scan = f"read_json({quoted}, format = 'newline_delimited', columns = {{{_COLUMNS[kind]}}})"
        batch, ref = _batch_of_text(query), ("ref[1]", "ref[2]")
    if kind == "output":
        return f"(select partition, value, {batch} as batch from {scan})"
    if kind == "state":
        places = f"{ref[0]} as part, {ref[1]} as position"
        return f"(select batch, side, key, time_us, {places}, matched from {scan})"
    return scan


def scans_in_pieces(path: Path, name: str, rows: int, query: str = "") -> list[str]:
    """The scans of a file (:func:`scan_of`) piece by piece, in order, each of about so many rows.

    JSON Lines are one piece: a reader of lines would read all those before a piece. A piece of Parquet is of whole row
    groups, the others of which are not read. Raises ``BrokenParquet`` and ``OSError``.
    """
    if not is_parquet(path):
        return [scan_of(path, name, query)]
    from tidemark.formats.parquet import GROUP_ROWS, count_rows

    count, step = count_rows(path), max(rows // GROUP_ROWS, 1) * GROUP_ROWS
    firsts = range(0, max(count, 1), step)
    return [scan_of(path, name, query, range(first, first + step)) for first in firsts]


def _batch_of_text(query: str) -> str:
    """The batch of headers that are JSON: ``[["query","…"],["batch","…"],…]``."""
    begin = f'[["query","{query}"],["batch","'
    rest = f"substr(headers, {len(begin) + 1})"
    again = " or ".join(f"contains({rest}, '[\"{name}\",')" for name in ("query", "batch"))
    led = f"starts_with(headers, {text_of(begin)})"
    return f"case when {led} and not ({again}) then split_part({rest}, '\"', 1) end"


def _batch_of_list(query: str) -> str:
    """The batch of headers that are a list of names and values."""
    led = f"headers[1].name = 'query' and headers[1].value = {text_of(query)} and headers[2].name = 'batch'"
    again = (
        f"case when len(headers) <= {_HEADERS_OF_THE_SINK} then {_names_again(_HEADERS_OF_THE_SINK)}"
        f" else {_names_again(_MOST_HEADERS)} end"
    )
    return f"case when {led} and len(headers) <= {_MOST_HEADERS} and not {again} then headers[2].value end"


def _names_again(headers: int) -> str:
    """Whether a header behind the first two has one of their names; each that is looked at costs as much as a field."""
    names = (f"coalesce(headers[{at}].name in ('query', 'batch'), false)" for at in range(3, headers + 1))
    return f"({' or '.join(names)})"


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
