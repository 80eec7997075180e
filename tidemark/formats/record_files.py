"""Files of records by their names, whatever they are stored as: JSON Lines (plain, or ``.zst``) or Parquet.

Light: what needs pyarrow is imported once a Parquet file is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from os.path import lexists
from pathlib import Path
from typing import Any

import msgspec

from tidemark.formats import jsonlines

PARQUET = ".parquet"
"""How the name of a Parquet file ends."""
JSON_LINES = (".jsonl", ".jsonl.zst")
"""How the name of a file of JSON Lines ends."""

HEADER_KEY, DIGEST_KEY, END_KEY = "tidemark_trace", "tidemark_jsonl_sha256", "tidemark_jsonl_end"
"""Keys of a Parquet file's metadata: the header of a trace, as a line of JSON; the SHA-256 of the JSON Lines file that
says the same; and what that has after its last record, if that is not the end of a line."""


class BrokenParquet(ValueError):
    """A file that is no Parquet file, is damaged, or does not have the columns that it should have."""


def is_parquet(path: Path) -> bool:
    """Whether a path is that of a Parquet file, by its name."""
    return path.suffix == PARQUET


def count_records(path: Path) -> int:
    """The number of lines that are not blank, or of rows.

    Raises ``OSError``, ``zstandard.ZstdError`` and ``BrokenParquet``.
    """
    if not is_parquet(path):
        return jsonlines.count_records(path)
    from tidemark.formats.parquet import count_rows

    return count_rows(path)


def paths_of(folder: Path, name: str, *, may_be_parquet: bool = True) -> list[Path]:
    """The paths of the files of this stem that are there; that of ``NAME.jsonl`` if none is."""
    endings = (*JSON_LINES, PARQUET) if may_be_parquet else JSON_LINES
    paths = [folder / f"{name}{ending}" for ending in endings]
    return [path for path in paths if lexists(path)] or paths[:1]


def read_records(path: Path, kind: type[Any]) -> Iterator[list[Any]]:
    """The records of a file in blocks, of a file of JSON Lines without a header.

    Raises ``OSError``, ``BrokenParquet``, ``zstandard.ZstdError``, and ``msgspec.DecodeError`` after all records before
    the line that cannot be decoded.
    """
    if is_parquet(path):
        yield from read_parquet(path, kind)
        return
    with jsonlines.open_lines(path) as file:
        yield from jsonlines.read_blocks(file, msgspec.json.Decoder(kind))


def parquet_metadata(path: Path, kind: type[Any]) -> dict[str, str]:
    """The key/value pairs of a Parquet file of this kind of record; raises ``OSError`` and ``BrokenParquet``."""
    from tidemark.formats.record_columns import read_metadata

    return read_metadata(path, kind)


def read_parquet(path: Path, kind: type[Any]) -> Iterator[list[Any]]:
    """The records of a Parquet file in blocks; raises ``OSError`` and ``BrokenParquet``."""
    from tidemark.formats.record_columns import read_rows

    return read_rows(path, kind)


def pick_parquet(path: Path, kind: type[Any], asked: bytes) -> Iterator[Any]:
    """The records of a Parquet file of which ``asked`` has a 1 at the row's number, counted from 0.

    Raises ``OSError`` and ``BrokenParquet``.
    """
    from tidemark.formats.record_columns import pick_rows

    return pick_rows(path, kind, asked)


def lines_digest(path: Path, kind: type[Any]) -> str:
    """The SHA-256 of the JSON Lines file that says the same as a Parquet file, made of its records.

    Raises ``OSError`` and ``BrokenParquet``.
    """
    from tidemark.formats.record_columns import read_lines

    digest = hashlib.sha256()
    for piece in read_lines(path, kind):
        digest.update(piece)
    return digest.hexdigest()
