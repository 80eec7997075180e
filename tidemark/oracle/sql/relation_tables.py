"""Tables of a SQL engine, made of relations one after the other; and DuckDB as that engine.

Free of I/O. A table is made of a ``select`` over earlier ones, and dropped once no later one reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import duckdb

from tidemark.oracle.sql.interruptible import execute, interruptible
from tidemark.oracle.sql.join_inputs import Columns
from tidemark.oracle.sql.join_rules import DUCKDB, Select

Rows = list[tuple[Any, ...]]


class Tables(Protocol):
    """What an engine does with tables.

    ``each_number`` is the one word in which engines differ (``join_relations``); ``bucket_us`` divides long windows
    among many machines, and costs one machine twice the time (``join_rules``).
    """

    each_number: str
    bucket_us: int | None

    def make(self, name: str, text: str) -> None:
        """Make the table of a ``select``, in the place of one of this name."""

    def drop(self, name: str) -> None:
        """Forget a table."""

    def register(self, name: str, columns: Columns) -> None:
        """Make a small table of columns."""

    def rows(self, text: str) -> Rows:
        """The rows of a query, all of them."""


class DuckDBTables:
    """Tables of one DuckDB connection."""

    each_number = DUCKDB
    bucket_us: int | None = None

    def __init__(self, sql: duckdb.DuckDBPyConnection) -> None:
        self.sql = sql

    def make(self, name: str, text: str) -> None:
        """Make the table of a ``select``, in the place of one of this name."""
        execute(self.sql, f"create or replace temp table {name} as {text}")

    def drop(self, name: str) -> None:
        """Forget a table."""
        self.sql.execute(f"drop table {name}")

    def register(self, name: str, columns: Columns) -> None:
        """Make a view of columns."""
        self.sql.register(name, columns)

    def rows(self, text: str) -> Rows:
        """The rows of a query, all of them."""
        return interruptible(self.sql, lambda: self.sql.execute(text).fetchall())


def make_tables(tables: Tables, found: Sequence[Select], reader: str, made: Sequence[str] = ()) -> None:
    """A table for each relation, for as long as a later one, or ``reader``, reads it.

    ``made`` are tables that are there, and are dropped, too, once none of them reads one.
    """
    there = list(made)
    for number, relation in enumerate(found):
        tables.make(relation.name, relation.text)
        there.append(relation.name)
        rest = set(re.findall(r"\w+", " ".join([*(later.text for later in found[number + 1 :]), reader])))
        for name in [name for name in there if name not in rest]:
            tables.drop(name)
            there.remove(name)
