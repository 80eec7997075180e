"""What a reduction runs on: an engine of SQL that reads the evidence of a large run.

Free of I/O. The statements of a reduction are one text for all engines. An engine has stages of its own for what is no
portable SQL: it reads values of JSON into tables, and fetches the records that are handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidemark.formats.evidence import InputRecord, OutputRecord, StateRow
from tidemark.oracle.input.history import Evidence, History
from tidemark.oracle.sql.join_rules import Select
from tidemark.oracle.sql.relation_tables import Tables


class LargeEvidence(Evidence, Protocol):
    """Evidence in files that an engine can read."""

    def scan(self, name: str, query: str = "") -> str | None:
        """A file as a table of DuckDB (``tidemark.formats.scans``): ``trace``, ``flush``, ``state``, or the ``output``
        of a query.

        ``None`` if there is none, or nothing shows that the file is as a run wrote it.
        """

    def pick(self, name: str, asked: bytes) -> Iterator[Any]:
        """The records of such a file, in order, of which ``asked`` has a 1 at the place of their row of the scan."""

    def file(self, name: str) -> Path:
        """The path of a file."""


class Engine(Tables, Protocol):
    """The tables of one run.

    A record is known by its number in the trace, sentinels last; an output record by its place in the output.
    """

    parts: int
    """In so many parts, each of the rows of some keys, is what is too large to be joined at once."""

    def make_records(self) -> None:
        """Make ``parsed``, ``keys``, ``records`` and ``absent``; ``tidemark.oracle.large.record_tables`` says their
        columns.
        """

    def drop_columns(self, name: str, columns: Sequence[str]) -> None:
        """Forget columns of a table that nothing reads any more, where that frees memory."""

    def make_relations(self, found: Sequence[Select], reader: str) -> None:
        """Make the tables of relations, those of single keys part by part; those stay that ``reader`` reads."""

    def repeated(self, columns: str, text: str) -> int:
        """How many rows of a ``select`` have the values of an earlier one in these columns (:func:`count_repeated`)."""

    def make_came(self) -> None:
        """Make ``came`` (``tidemark.oracle.large.output`` has its columns)."""

    def make_state(self) -> None:
        """Make ``state_rows`` (``tidemark.oracle.large.state_rows`` has its columns)."""

    def inputs(self, chosen: str) -> list[InputRecord]:
        """The records of a ``select`` of ``n`` and ``position``, in order."""

    def outputs(self, chosen: str) -> list[OutputRecord]:
        """The output records of a ``select`` of ``o``, in order."""

    def state(self, chosen: str) -> list[StateRow]:
        """The rows of the state of a ``select`` of ``s``, in order."""


@dataclass(frozen=True)
class LargeRun:
    """A run that is to be reduced: its evidence, a history without rows, and how many input records there are."""

    evidence: LargeEvidence
    history: History
    records: int


OpenEngine = Callable[[LargeRun], AbstractContextManager[Engine]]
"""Opens an engine for one run. What the engine lacks is a ``TestbedError``, also inside of the block."""


def key_names(history: History) -> list[str]:
    """The columns of ``keys`` that have the fields of the key."""
    return [f"k{number}" for number in range(len(history.contract.left.keys))]


def count_repeated(tables: Tables, columns: str, text: str) -> int:
    """How many rows of a ``select`` have the values of an earlier one in these columns, counted all at once."""
    of_values = f"select count(*) as many from ({text}) given group by {columns}"
    ((found,),) = tables.rows(f"select coalesce(sum(many - 1), 0) from ({of_values}) of_values")
    return int(found)
