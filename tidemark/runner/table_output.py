"""A table as the output of a query of the user's own: whether it was written, when it is complete, and what is in it.

The folder is the run's own and is not there before the query starts, so all that is in it was written by this run.
Spark's file sink and Delta's sink write the log of the table before the batch is committed in the checkpoint: once the
last planned batch is committed, the table has all rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidemark.errors import PipelineFailed
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.delta_log import has_commits
from tidemark.sparkfiles.file_sink_log import last_batch
from tidemark.sparkfiles.output_tables import OutputTable, open_table, output_kind
from tidemark.sparkfiles.table_files import DELTA_LOG
from tidemark.waiting import wait_until

COMPLETE_S = 60.0
"""Calibration: a batch that was planned after the flush is committed within 2 s."""


@dataclass(frozen=True)
class TableFolder:
    """The folder that a query may write in the place of its topic.

    ``is_asked``: the job was told of this folder, and of no topic.
    """

    path: Path
    checkpoint: Checkpoint
    is_asked: bool = False

    def is_written(self, records: int) -> bool:
        """Whether the output is in this folder; ``records`` are in the topic.

        Files of a first batch that Delta has not committed are nothing. Raises ``PipelineFailed`` if rows were written
        to both.
        """
        delta = self.path / DELTA_LOG
        if (
            not self.path.is_dir()
            or not any(self.path.iterdir())
            or (delta.is_dir() and not has_commits(delta))
        ):
            return False
        if records:
            raise PipelineFailed(
                "the query wrote both to its topic and to its table, and one output is judged",
                detail=f"the topic has {records:,} records; the folder has {', '.join(self._names())}",
                hint="write to io.output, or to io.table; other tables and topics may be of any other name",
            )
        return True

    def await_complete(self, check: Callable[[], object]) -> None:
        """Wait until each planned batch is committed, and has its log where Spark's file sink wrote the table.

        ``check`` raises if the query has ended. Raises ``DeadlineExceeded``; ``BrokenTable`` for what is no table.
        """
        has_sink_log = output_kind(self.path) == "parquet"

        def is_complete() -> bool:
            committed = self.checkpoint.committed()
            if self.checkpoint.running() is not None or not committed:
                return False
            return not has_sink_log or last_batch(self.path) >= committed[-1]

        wait_until(is_complete, COMPLETE_S, self._state, unless=check)

    def read(self, query: str | None) -> OutputTable:
        """The table as its log says now; raises ``BrokenTable``, and ``UsageError`` without Delta's reader."""
        table = open_table(self.path)
        return table if table.kind == "parquet" else _named(table, query, self.checkpoint.planned())

    def _state(self) -> str:
        planned, committed = self.checkpoint.planned(), self.checkpoint.committed()
        logged = f", the table's log {last_batch(self.path)}" if output_kind(self.path) == "parquet" else ""
        return (
            "the table to be complete: the last batch that is planned is "
            f"{planned[-1] if planned else 'none'}, committed {committed[-1] if committed else 'none'}{logged}"
        )

    def _names(self) -> list[str]:
        names = sorted(path.name for path in self.path.iterdir())
        return [*names[:3], *(["…"] if names[3:] else [])]


def _named(table: OutputTable, query: str | None, planned: Sequence[int]) -> OutputTable:
    """The table with its rows given to the query, where ``foreachBatch`` named another (``txnAppId``).

    The folder is this run's own. So a single other name is this query's, if its numbers are batches of this query; with
    several names, or other numbers, no row has a batch.
    """
    names = {file.query for file in table.files if file.query is not None}
    if query is None or not names or query in names:
        return table
    said = f"its log names {' and '.join(map(repr, sorted(names)))} (txnAppId), and not the query"
    if len(names) == 1 and all(
        file.batch is None or 0 <= file.batch <= max(planned, default=-1) for file in table.files
    ):
        files = tuple(replace(file, query=query) for file in table.files)
        note = f"{said}: no other query has this folder, so txnVersion is taken for the batch"
    else:
        files = tuple(replace(file, query=None, batch=None) for file in table.files)
        note = f"{said}, and not the batches of one: it is judged without batches"
    return replace(table, files=files, notes=(*table.notes, note))
