"""The output of a query as a table: Parquet files of Spark's file sink, or Delta; row by row as output records.

Reads files, and never writes. ``open_table(folder)`` says what belongs to the table, ``OutputTable.records`` reads it.

* *Which files count*: those that the table's log names (``file_sink_log``, ``delta_log``). A file that lies in the
  folder and is not named is of an attempt that failed, or was deleted.
* *Headers*: ``batch`` is the batch of the file, ``query`` the id of the query. What is not known is left out: a row
  whose batch is not known has no header ``batch``. No file of the file sink names its query: the caller does.
* *Place*: ``partition`` is the number of the file in ``OutputTable.files``, ``offset`` the number of the row in its
  file, both from 0. ``OutputTable.place`` writes a place for a message, ``FILE:ROW``. A row has the same number
  whatever other rows of its file were deleted.
* *Value*: the row as JSON (``table_rows``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from tidemark.errors import BrokenTable
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import OutputRecord
from tidemark.sparkfiles.delta_log import read_delta_files
from tidemark.sparkfiles.file_sink_log import read_sink_files
from tidemark.sparkfiles.table_files import DELTA_LOG, SINK_LOG, TableFile, TableFiles
from tidemark.sparkfiles.table_rows import count_rows, read_rows

TableKind = Literal["parquet", "delta"]
KINDS: dict[TableKind, str] = {
    "parquet": "Parquet files of Spark's file sink",
    "delta": "files of a Delta table",
}
NAMED_FILES = 20
"""So many files are named for a report."""


@dataclass(frozen=True)
class OutputTable:
    """A table that a query wrote.

    ``removals`` has a sentence for each reason why rows that were written are no longer in it: a row that is missing
    shows nothing then. ``notes`` says what its log cannot tell.
    """

    kind: TableKind
    folder: Path
    files: tuple[TableFile, ...]
    removals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def knows_batches(self) -> bool:
        """Whether the batch of each row is known."""
        return all(file.batch is not None for file in self.files)

    @property
    def delivery(self) -> Delivery:
        """What its log promises. The file sink's has each batch once, and so has Delta's if it says every batch."""
        is_once = self.kind == "parquet" or self.knows_batches
        return Delivery.EXACTLY_ONCE if is_once else Delivery.AT_LEAST_ONCE

    @property
    def most_rows(self) -> int:
        """At most so many rows are in it: rows that were deleted from a file are counted. Raises ``BrokenTable``."""
        return sum(map(count_rows, self.files))

    def told_in(self, about: AuditedQuery) -> AuditedQuery:
        """What is known of an audited query, with what this table is, what its log says is gone, or cannot say."""
        return msgspec.structs.replace(
            about,
            output_table=str(self.folder),
            output_removals=list(self.removals),
            output_notes=[f"{self.folder} has {KINDS[self.kind]}: {len(self.files):,}", *self.notes],
        )

    def named_files(self) -> list[str]:
        """Which file is which partition, for the first ones."""
        named = [
            f"partition {number} is the file {file.name}"
            for number, file in enumerate(self.files[:NAMED_FILES])
        ]
        left = len(self.files) - NAMED_FILES
        return [
            *named,
            *([f"{left:,} more files follow, in the order of the table's log"] if left > 0 else []),
        ]

    def judged_records(self, query: str | None) -> Iterator[OutputRecord]:
        """The rows as they are judged: if the batch of one is not known, none has headers."""
        for record in self.records(query):
            yield record if self.knows_batches else msgspec.structs.replace(record, headers=[])

    def records(self, query: str | None = None) -> Iterator[OutputRecord]:
        """Each row of the table, file after file. ``query`` is the id of the query, where a file names none.

        Raises ``BrokenTable`` for a file that cannot be read.
        """
        for number, file in enumerate(self.files):
            named = query if file.query is None and self.kind == "parquet" else file.query
            headers = [] if named is None else [("query", named)]
            if file.batch is not None:
                headers.append(("batch", str(file.batch)))
            for row, value in read_rows(file):
                yield OutputRecord(partition=number, offset=row, value=value, headers=[*headers])

    def place(self, partition: int, offset: int) -> str:
        """Where a record is, for a message: its file, from the table's folder on, and its row."""
        return f"{self.files[partition].name}:{offset}"


def output_kind(folder: Path) -> TableKind:
    """What wrote the table in a folder, by its log; raises ``BrokenTable`` where there is none, or are two."""
    if not folder.is_dir():
        what = "is a file, and no table" if folder.exists() else "does not exist"
        raise BrokenTable(f"{str(folder)!r} {what}", hint="name the folder that the query writes")
    has_sink_log, has_delta_log = (folder / SINK_LOG).is_dir(), (folder / DELTA_LOG).is_dir()
    if has_sink_log and has_delta_log:
        raise BrokenTable(
            f"{str(folder)!r} is two tables in one folder",
            detail=f"it has {SINK_LOG} of Spark's file sink, and {DELTA_LOG} of Delta",
            hint="a query's output is one of them; let each query write a folder of its own",
        )
    if has_delta_log:
        return "delta"
    if has_sink_log:
        return "parquet"
    raise BrokenTable(
        f"{str(folder)!r} was not written by a streaming file sink, nor by Delta",
        detail=f"it has neither {SINK_LOG} nor {DELTA_LOG}: rows of failed attempts cannot be told from the others",
        hint="name the folder that was given to start(), not a folder below it; a copy must include the log",
    )


def open_table(folder: Path) -> OutputTable:
    """The table in a folder, as its log says now. Raises ``BrokenTable``; ``UsageError`` without Delta's reader."""
    kind = output_kind(folder)
    found: TableFiles = read_delta_files(folder) if kind == "delta" else read_sink_files(folder)
    return OutputTable(kind, folder, tuple(found.files), tuple(found.removals), tuple(found.notes))


def read_parquet_sink(folder: Path, query: str | None = None) -> Iterator[OutputRecord]:
    """The rows that Spark's file sink wrote to a folder in Parquet, with the headers of ``query`` and their batch."""
    return _open_as("parquet", folder).records(query)


def read_delta(folder: Path) -> Iterator[OutputRecord]:
    """The rows of a Delta table; those that a query committed have its id (``txn.appId``) and their batch."""
    return _open_as("delta", folder).records()


def _open_as(kind: TableKind, folder: Path) -> OutputTable:
    table = open_table(folder)
    if table.kind != kind:
        raise BrokenTable(
            f"{str(folder)!r} is no {kind} output",
            detail=f"its log is that of {table.kind} output",
            hint="name the folder of the other table; open_table reads either kind",
        )
    return table
