"""Parquet files of records: columns, read and written in blocks. A file is written completely or not at all.

This module knows columns and their types, not what they mean: ``record_columns`` defines that. It needs pyarrow, which
is heavy, so callers import this module only when they read or write a Parquet file.

A file is read and written a row group at a time. Each page has a checksum, which is verified when it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from os.path import lexists
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from tidemark.atomic_files import unfinished_path
from tidemark.formats.record_files import BrokenParquet

GROUP_ROWS, GROUP_BYTES = 65_536, 32 << 20
"""Most rows, and about the most bytes of text, of a row group. Calibration: a trace of the generator has 29 MB in one
row group, of which 2.7 MB are left in the file; reader and writer hold one row group."""

BLOCK_ROWS = 8_192
"""Rows that are made into objects at once."""
PICKING = 2
"""So many row groups are read at once, if a few rows are wanted of each."""

_HEADER = pa.struct([("name", pa.string()), ("value", pa.string()), ("value_bytes", pa.binary())])
TYPES: dict[str, Any] = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "BLOB": pa.binary(),
    "VARCHAR[]": pa.list_(pa.string()),
    "HEADER[]": pa.list_(_HEADER),
}
"""Types of columns, by the names that SQL has for them; a ``HEADER`` is ``STRUCT(name VARCHAR, value VARCHAR,
value_bytes BLOB)``."""

Columns = Mapping[str, str]
"""Name of each column -> its type; ``?`` behind a type: the file may have a NULL there."""
OPTIONAL_COLUMN = "line"
"""The column that a file may lack: all of it is NULL then."""


class RowReader:
    """An open Parquet file of these columns. ``count`` is its number of rows, ``metadata`` its own key/value pairs.

    A context manager. Raises ``BrokenParquet``, also while it is read, and ``OSError`` for what is no regular file.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        if lexists(path) and not path.is_file():
            raise OSError(f"{str(path)!r} is no regular file")
        self._columns = columns
        with _explained(), path.open("rb"):  # so that a file that is missing is named by the system
            self._path = path
            self._file = self._opened()
            try:
                self._check_schema()
                about = self._file.metadata
                self.count = int(about.num_rows)
                pairs = about.metadata or {}
                self.metadata = {name.decode(): value.decode() for name, value in pairs.items()}
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> RowReader:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _opened(self, metadata: Any = None) -> Any:
        return pq.ParquetFile(
            self._path, page_checksum_verification=True, memory_map=False, metadata=metadata
        )

    def blocks(self, asked: bytes | None = None) -> Iterator[list[list[Any]]]:
        """The rows in blocks: for each column, in order, a list of its values.

        ``asked`` has a 1 for each row that is wanted, and a 0 for the others up to the last one that is.
        """
        batches, number = self._batches() if asked is None else self._picked(asked), 0
        while True:
            with _explained():
                found = next(batches, None)
                if found is None:
                    break
                rows, batch = found
                number += rows
                lists = [self._values(batch, name, kind) for name, kind in self._columns.items()]
            yield lists
        if number != self.count:
            raise BrokenParquet(f"it has {number:,} rows; its metadata says {self.count:,}")

    def _batches(self) -> Iterator[tuple[int, Any]]:
        """The rows in batches, and how many they are, one row group after the other.

        Over all row groups, pyarrow keeps what it has read.
        """
        for group in range(self._file.num_row_groups):
            for batch in self._file.iter_batches(BLOCK_ROWS, row_groups=[group], use_threads=False):
                yield batch.num_rows, batch

    def _picked(self, asked: bytes) -> Iterator[tuple[int, Any]]:
        """The rows that are wanted of each row group, and how many it has; row groups are read side by side."""
        with ThreadPoolExecutor(PICKING, thread_name_prefix="parquet") as pool:
            reading: deque[Future[tuple[int, Any]]] = deque()
            first = 0
            for group in range(self._file.num_row_groups):
                rows = self._file.metadata.row_group(group).num_rows
                if not rows:
                    continue
                if len(reading) == PICKING:
                    yield reading.popleft().result()
                reading.append(pool.submit(self._wanted, group, asked[first : first + rows]))
                first += rows
            while reading:
                yield reading.popleft().result()

    def _wanted(self, group: int, asked: bytes) -> tuple[int, Any]:
        """The rows of a row group that are wanted; in a thread of its own, and so with a file of its own."""
        wanted, rows = [], 0
        with self._opened(self._file.metadata) as file:
            for batch in file.iter_batches(GROUP_ROWS, row_groups=[group], use_threads=False):
                wanted.append(batch.take(_places(asked[rows : rows + batch.num_rows])))
                rows += batch.num_rows
        return rows, pa.concat_batches(wanted)

    def _values(self, batch: Any, name: str, kind: str) -> list[Any]:
        if name == OPTIONAL_COLUMN and name not in batch.schema.names:
            return [None] * batch.num_rows
        column = batch.column(name)
        if column.null_count and not kind.endswith("?"):
            raise BrokenParquet(f"its column {name!r} has a NULL")
        return _READ[kind.rstrip("?")](column)

    def _check_schema(self) -> None:
        """Nullability, order and names of list elements do not matter: they differ between programs that write."""
        schema = self._file.schema_arrow
        if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
            raise BrokenParquet(f"it has two columns {twice!r}")
        there = {field.name: _spelled(field.type) for field in schema}
        wanted = {name: _spelled(TYPES[kind.rstrip("?")]) for name, kind in self._columns.items()}
        there.setdefault(OPTIONAL_COLUMN, wanted.get(OPTIONAL_COLUMN, ""))
        for name, kind in wanted.items():
            if name not in there:
                raise BrokenParquet(f"it has no column {name!r}")
            if there[name] != kind:
                raise BrokenParquet(f"its column {name!r} is of type {there[name]}, not {kind}")
        if strange := there.keys() - wanted.keys() - {OPTIONAL_COLUMN}:
            raise BrokenParquet(f"it has an unknown column {min(strange)!r}")


class RowWriter:
    """Writes a Parquet file, which has its name only once the ``with`` block has ended without an error.

    ``metadata`` may be added to until then.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self.metadata: dict[str, str] = {}
        self._path = path
        self._columns = columns
        self._part = unfinished_path(path)
        self._schema = pa.schema([(name, TYPES[kind.rstrip("?")]) for name, kind in columns.items()])
        self._group: list[Any] = []
        self._rows = self._bytes = 0
        try:
            self._writer = pq.ParquetWriter(
                self._part, self._schema, compression="zstd", compression_level=3,
                write_page_checksum=True, store_schema=False,
            )  # fmt: skip
        except BaseException:
            self._part.unlink(missing_ok=True)
            raise

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        try:
            if kind is None:
                self._end_group()
                self._writer.add_key_value_metadata(self.metadata)
                self._writer.close()
                self._part.replace(self._path)
        finally:
            try:
                self._writer.close()
            except OSError:
                pass  # the disk is full, which is being raised
            self._part.unlink(missing_ok=True)

    def write(self, lists: Sequence[list[Any]]) -> None:
        """Write rows: for each column a list of its values, all of one length.

        Raises ``OSError``, and ``BrokenParquet`` for a value that does not fit into its column.
        """
        try:
            arrays = [
                _WRITE[kind.rstrip("?")](values)
                for values, kind in zip(lists, self._columns.values(), strict=True)
            ]
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise BrokenParquet(f"a value does not fit into its column: {error}") from error
        self.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def write_batch(self, batch: Any) -> None:
        """Write rows that Arrow has in its own form, as another program made them; raises as :meth:`write`."""
        try:
            batch = batch.cast(self._schema)
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise BrokenParquet(f"the columns are others: {error}") from error
        self._group.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._end_group()

    def _end_group(self) -> None:
        if self._group:
            table = pa.Table.from_batches(self._group)
            self._writer.write_table(table, row_group_size=self._rows)
        self._group, self._rows, self._bytes = [], 0, 0


def count_rows(path: Path) -> int:
    """The number of rows that a Parquet file has, whatever its columns; raises ``BrokenParquet`` and ``OSError``."""
    if lexists(path) and not path.is_file():
        raise OSError(f"{str(path)!r} is no regular file")
    with _explained(), path.open("rb"), pq.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def _explained() -> Iterator[None]:
    """What pyarrow raises for a file that it cannot read, as ``BrokenParquet``; an error of the system stays one."""
    try:
        yield
    except BrokenParquet:
        raise
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise BrokenParquet(f"it cannot be read as Parquet: {_first_line(error)}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise BrokenParquet(f"it cannot be read as Parquet: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n", maxsplit=1)[0]


def _spelled(kind: Any) -> str:
    """A type as SQL spells it, so that those of two programs can be compared."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_spelled(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{field.name} {_spelled(field.type)}' for field in kind)})"
    return next((name for name, known in TYPES.items() if known.equals(kind)), str(kind))


def _places(asked: bytes) -> Any:
    """Where there is a 1. Calibration: to take few rows by their places is 100 times as fast as to filter them."""
    return pc.indices_nonzero(pa.Array.from_buffers(pa.uint8(), len(asked), [None, pa.py_buffer(asked)]))


def _plain(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _objects(column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    values: list[Any] = column.to_pylist()
    return values


def _numbers(column: Any) -> list[Any]:
    return _objects(column) if column.null_count else _from_buffer(column, "q")


def _from_buffer(column: Any, code: str) -> list[int]:
    """The numbers of a column without NULLs. They are taken from its memory: ``to_numpy`` would import pandas."""
    if not len(column):
        return []
    numbers = memoryview(column.buffers()[1]).cast("B").cast(code)  # type: ignore[call-overload]
    found: list[int] = numbers[column.offset : column.offset + len(column)].tolist()
    return found


def _sublists(column: Any, items: Sequence[Any]) -> list[Any]:
    """The lists of a column, of which ``items`` are the flattened elements; ``None`` for NULL."""
    starts = _from_buffer(column.offsets, "i")
    first = starts[0]
    found: list[Any] = [items[one - first : other - first] for one, other in pairwise(starts)]
    if column.null_count:
        found = [one if valid else None for one, valid in zip(found, _plain(column.is_valid()), strict=True)]
    return found


def _elements(column: Any) -> Any:
    """The flattened elements of a column of lists, those of NULL lists included."""
    offsets = column.offsets
    first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    return column.values.slice(first, last - first)


def _read_texts(column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    return _sublists(column, _objects(_elements(column)))


def _read_headers(column: Any) -> list[Any]:
    """Each list of headers as a list of ``(name, value, value_bytes)``."""
    elements = _elements(column)
    if not len(elements):
        return [[] for _ in range(len(column))]
    if elements.null_count:
        raise BrokenParquet("a header is NULL")
    names, values, raw = (_objects(elements.field(name)) for name in ("name", "value", "value_bytes"))
    if any(name is None for name in names):
        raise BrokenParquet("a header has no name")
    return _sublists(column, list(zip(names, values, raw, strict=True)))


def _lists(values: Sequence[Any]) -> tuple[list[int | None], list[Any]]:
    """Offsets and flattened elements of lists, ``None`` being a NULL, as Arrow has them."""
    offsets: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(flat))
        flat += value or ()
    return [*offsets, len(flat)], flat


def _write_texts(values: Sequence[Any]) -> Any:
    offsets, flat = _lists(values)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, pa.string()))


def _write_headers(values: Sequence[Any]) -> Any:
    offsets, flat = _lists(values)
    parts = zip(*flat, strict=True) if flat else ([], [], [])
    arrays = [pa.array(list(part), field.type) for part, field in zip(parts, _HEADER, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


_READ: dict[str, Callable[[Any], list[Any]]] = {
    "VARCHAR": _objects,
    "BIGINT": _numbers,
    "BOOLEAN": _objects,
    "BLOB": _objects,
    "VARCHAR[]": _read_texts,
    "HEADER[]": _read_headers,
}
_WRITE: dict[str, Callable[[Sequence[Any]], Any]] = {
    "VARCHAR": lambda values: pa.array(values, pa.string()),
    "BIGINT": lambda values: pa.array(values, pa.int64()),
    "BOOLEAN": lambda values: pa.array(values, pa.bool_()),
    "BLOB": lambda values: pa.array(values, pa.binary()),
    "VARCHAR[]": _write_texts,
    "HEADER[]": _write_headers,
}
