"""What is in a table: its data files, where they lie now, and what is known of each.

A path in a log is a URI of the machine that wrote it (``file:///data/out/dt=2026-01-01/part-0.parquet``,
``s3a://bucket/…``), and the table may have been copied since. A file is found by the end of its path: its name, behind
the folders of partition columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidemark.errors import BrokenTable
from tidemark.formats.field_types import LONG

SINK_LOG = "_spark_metadata"
DELTA_LOG = "_delta_log"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
GONE = (
    "it was deleted after it was written (VACUUM, a retention rule of the storage), or the copy of the table is "
    "incomplete"
)
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_is_number = re.compile(r"-?[1-9]\d{0,18}|0", re.ASCII).fullmatch


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A data file.

    ``name`` is its path from the table's folder on. ``columns`` are those whose values are not in the file, as values
    of JSON. ``renamed`` has the column for each column of the file, where they differ; others are left out then.
    ``kept`` says of each row whether it still counts, where some were deleted.
    """

    path: Path
    name: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    query: str | None = None
    renamed: Mapping[str, str] | None = None
    kept: Sequence[bool] | None = None


@dataclass(kw_only=True)
class TableFiles:
    """The files of a table in their order, and what is to be said of them (see ``OutputTable``)."""

    files: list[TableFile] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def path_parts(uri: str) -> list[str]:
    """The names in the path of a URI, decoded."""
    return [unquote(part) for part in _SCHEME.sub("", uri).split("/") if part]


def find_file(folder: Path, uri: str) -> Path | None:
    """The data file that a log names by a URI, below the table's folder; ``None`` if it is not there."""
    *folders, name = path_parts(uri) or [""]
    depth = 0
    while depth < len(folders) and "=" in folders[-1 - depth]:
        depth += 1
    # The table's own folder may be named like a partition column: the longest end of the path that exists is the file.
    for start in range(len(folders) - depth, len(folders) + 1):
        path = folder.joinpath(*folders[start:], name)
        if path.is_file():
            return path
    return None


def gone(folder: Path, log: str, uri: str) -> BrokenTable:
    """The error for a file that the log names and that is not there."""
    return BrokenTable(
        f"the data file {path_parts(uri)[-1]!r} of {str(folder)!r} is gone",
        detail=f"{log} names it; {GONE}",
        hint="audit a table whose files are all there: before files are deleted, or from a whole copy",
    )


def partition_columns(names: Sequence[str]) -> dict[str, Any]:
    """The partition columns in the folders above a file, as Spark reads them where it matters: numbers as numbers.

    The type of a partition column is nowhere. A text like ``007`` is no number here, so that no id changes.
    """
    columns: dict[str, Any] = {}
    for name in names:
        column, equals, text = name.partition("=")
        if equals:
            columns[unquote(column)] = _partition_value(unquote(text))
    return columns


def _partition_value(text: str) -> Any:
    if text == NULL_PARTITION:
        return None
    return int(text) if _is_number(text) and int(text) in LONG else text
