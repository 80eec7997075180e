"""Tables of DuckDB in parts, each of the rows of some keys: a statement needs the memory of a part, not of a run.

Free of I/O. DuckDB spills what it groups, joins and sorts, but not a window over all rows. A table in parts is a table
for each of them, ``NAME_of_0`` and so on, and a view of all. Relations of single keys are made part by part: meanwhile
the name means the part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import duckdb

from tidemark.oracle.large.engine import count_repeated
from tidemark.oracle.sql.interruptible import execute
from tidemark.oracle.sql.join_rules import Select
from tidemark.oracle.sql.relation_tables import DuckDBTables, make_tables


class PartTables(DuckDBTables):
    """Tables of one DuckDB connection, large ones in so many parts.

    ``piece_rows``: so many rows of a file are read at a time, before they are in parts.
    """

    def __init__(self, sql: duckdb.DuckDBPyConnection, parts: int, piece_rows: int) -> None:
        super().__init__(sql)
        self.parts = parts
        self.piece_rows = piece_rows
        self._in_parts: set[str] = set()
        self._begun: set[str] = set()

    def part_of(self, *columns: str) -> str:
        """The number of the part that a row is in, as an expression over its key; others' types have other hashes."""
        return f"cast(hash({', '.join(columns)}) % {self.parts} as smallint)"

    def append(self, name: str, text: str) -> None:
        """Append the rows of a ``select`` to a table that is in parts by its column ``in_part``; make it first."""
        if self.parts == 1:
            self._append(name, text)
            return
        self._make("appended", text)
        for number in range(self.parts):
            self._append(_part(name, number), f"select * from appended where in_part = {number}")
        super().drop("appended")
        self._join(name)

    def _append(self, name: str, text: str) -> None:
        """Append to one table."""
        if name in self._begun:
            self.sql.execute("set preserve_insertion_order = false")
            execute(self.sql, f"insert into {name} {text}")
        else:
            self._begun.add(name)
            self._make(name, text)

    def make_in_order(self, name: str, text: str) -> None:
        """Make the table of a ``select``, whose rows keep their order."""
        self.sql.execute("set preserve_insertion_order = true")
        super().make(name, text)

    def make(self, name: str, text: str) -> None:
        """Make the table of a ``select``, in the place of one of this name; of one in parts each part."""
        if name not in self._in_parts:
            self._make(name, text)
            return
        for number in range(self.parts):
            self._show(name, _part(name, number))
            self._make("made", text)
            self.sql.execute(
                f"drop table {_part(name, number)}; alter table made rename to {_part(name, number)}"
            )
        self._join(name)

    def _make(self, name: str, text: str) -> None:
        """Make one table; the order of rows, which a limit asks for, takes memory that a long join lacks."""
        is_ordered = " limit " in text
        self.sql.execute(f"set preserve_insertion_order = {str(is_ordered).lower()}")
        super().make(name, text)

    def drop(self, name: str) -> None:
        """Forget a table."""
        if name not in self._in_parts:
            super().drop(name)
            self._begun.discard(name)
            return
        self._in_parts.remove(name)
        self.sql.execute(f"drop view {name}")
        for number in range(self.parts):
            super().drop(_part(name, number))
            self._begun.discard(_part(name, number))

    def drop_columns(self, name: str, columns: Sequence[str]) -> None:
        """Forget columns of a table, and free their memory."""
        is_in_parts = name in self._in_parts
        for table in [_part(name, number) for number in range(self.parts)] if is_in_parts else [name]:
            for column in columns:
                self.sql.execute(f"alter table {table} drop column {column}")
        if is_in_parts:
            self._join(name)

    def repeated(self, columns: str, text: str) -> int:
        """How many rows of a ``select`` have the values of an earlier one in these columns.

        In parts: equal values have equal hashes. Hashes that come again are looked for part by part, and only the rows
        that have one of them are compared.
        """
        if self.parts == 1:
            return count_repeated(self, columns, text)
        self._make("hashes", f"select hash({columns}) as hashed from ({text}) given")
        found = 0
        for number in range(self.parts):
            self._make(
                "repeated_hashes",
                f"select hashed from hashes where hashed % {self.parts} = {number}"
                " group by hashed having count(*) > 1",
            )
            if self.rows("from repeated_hashes limit 1"):
                like = f"from ({text}) given semi join repeated_hashes r on r.hashed = hash({columns})"
                found += count_repeated(self, columns, f"select * {like}")
        for name in ("hashes", "repeated_hashes"):
            super().drop(name)
        return found

    def make_relations(self, found: Sequence[Select], reader: str) -> None:
        """Make relations, those of single keys part by part; keep what ``reader`` reads."""
        if self.parts == 1:
            make_tables(self, found, reader)
            return
        given = set(self._in_parts)
        groups = [list(group) for _, group in groupby(found, key=lambda one: one.of_all)]
        for number, group in enumerate(groups):
            later = " ".join([*(one.text for after in groups[number + 1 :] for one in after), reader])
            if group[0].of_all:
                make_tables(self, group, later)
            else:
                self._make_in_parts(group, later, given)

    def _make_in_parts(self, group: Sequence[Select], later: str, given: set[str]) -> None:
        """Make relations of single keys part by part; keep those that are read later, and what was ``given``."""
        texts, rest = " ".join(one.text for one in group), set(re.findall(r"\w+", later))
        sources = sorted(self._in_parts.intersection(re.findall(r"\w+", texts)))
        spent = [name for name in sources if name not in rest and name not in given]
        kept = [one.name for one in group if one.name in rest]
        for number in range(self.parts):
            for name in sources:
                self._show(name, _part(name, number))
            make_tables(self, group, later)
            for name in kept:
                self.sql.execute(f"alter table {name} rename to {_part(name, number)}")
            for name in spent:
                self.sql.execute(f"drop view {name}; drop table {_part(name, number)}")
        self._in_parts.difference_update(spent)
        for name in {*sources, *kept}.difference(spent):
            self._join(name)

    def _show(self, name: str, table: str) -> None:
        self.sql.execute(f"create or replace temp view {name} as from {table}")

    def _join(self, name: str) -> None:
        """Let a name mean all parts."""
        self._in_parts.add(name)
        self._show(name, " union all from ".join(_part(name, number) for number in range(self.parts)))


def _part(name: str, number: int) -> str:
    return f"{name}_of_{number}"
