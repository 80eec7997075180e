"""Tables of DuckDB in parts, each of the rows of some keys: a statement needs the memory of a part, not of a run.

Free of I/O. DuckDB spills what it groups, joins and sorts, but not a window over all rows. A table in parts is a table
for each of them, ``NAME_of_0`` and so on, and a view of all. Relations of single keys are made part by part: meanwhile
the name means the part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import duckdb

from tidemark.oracle.sql.join_rules import Select
from tidemark.oracle.sql.relation_tables import DuckDBTables, Share, make_tables


class PartTables(DuckDBTables):
    """Tables of one DuckDB connection, large ones in as many parts as there are shares."""

    def __init__(self, sql: duckdb.DuckDBPyConnection, parts: int) -> None:
        super().__init__(sql)
        self.shares: Sequence[Share] = [partial(_is_in, number, parts) for number in range(parts)]
        self._in_parts: dict[str, int] = {}

    def share_number(self, *columns: str) -> str:
        """The number of the share that a row is in, as an expression over columns, to be kept in a table."""
        return f"cast({_number_of(len(self.shares), *columns)} as integer)"

    def make_share(self, name: str, number: int, text: str) -> str:
        """Make the share of a table, the first one first. The name of that part of the table."""
        if len(self.shares) == 1:
            self._make(name, text)
            return name
        self._make(_part(name, number), text)
        self._join(name, number + 1)
        return _part(name, number)

    def make_in_order(self, name: str, text: str) -> None:
        """Make the table of a ``select``, whose rows keep their order."""
        self.sql.execute("set preserve_insertion_order = true")
        super().make(name, text)

    def make(self, name: str, text: str) -> None:
        """Make the table of a ``select``, in the place of one of this name; of one in parts each part."""
        parts = self._in_parts.get(name, 0)
        for number in range(parts):
            self._show(name, _part(name, number))
            self._make("made", text)
            self.sql.execute(
                f"drop table {_part(name, number)}; alter table made rename to {_part(name, number)}"
            )
        if parts:
            self._join(name, parts)
        else:
            self._make(name, text)

    def _make(self, name: str, text: str) -> None:
        """Make one table; the order of rows, which a limit asks for, takes memory that a long join lacks."""
        is_ordered = " limit " in text
        self.sql.execute(f"set preserve_insertion_order = {str(is_ordered).lower()}")
        super().make(name, text)

    def drop(self, name: str) -> None:
        """Forget a table."""
        parts = self._in_parts.pop(name, 0)
        if not parts:
            super().drop(name)
            return
        self.sql.execute(f"drop view {name}")
        for number in range(parts):
            super().drop(_part(name, number))

    def make_relations(self, found: Sequence[Select], reader: str) -> None:
        """Make the relations, those of single keys in as many parts as ``records`` has; keep what ``reader`` reads."""
        if "records" not in self._in_parts:
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
        sources = [name for name in self._in_parts if name in re.findall(r"\w+", texts)]
        spent = [name for name in sources if name not in rest and name not in given]
        kept, parts = [one.name for one in group if one.name in rest], self._in_parts["records"]
        for number in range(parts):
            for name in sources:
                self._show(name, _part(name, number))
            make_tables(self, group, later)
            for name in kept:
                self.sql.execute(f"alter table {name} rename to {_part(name, number)}")
            for name in spent:
                self.sql.execute(f"drop view {name}; drop table {_part(name, number)}")
        for name in spent:
            del self._in_parts[name]
        for name in {*sources, *kept}.difference(spent):
            self._join(name, parts)

    def _show(self, name: str, table: str) -> None:
        self.sql.execute(f"create or replace temp view {name} as from {table}")

    def _join(self, name: str, parts: int) -> None:
        """Let a name mean all parts."""
        self._in_parts[name] = parts
        self._show(name, " union all from ".join(_part(name, number) for number in range(parts)))


def _is_in(number: int, parts: int, *columns: str) -> str:
    """Whether a row is in a share. Columns of tables that are joined are of one type: others have other hashes."""
    return f"{_number_of(parts, *columns)} = {number}" if parts > 1 else "true"


def _number_of(parts: int, *columns: str) -> str:
    return f"hash({', '.join(columns)}) % {parts}"


def _part(name: str, number: int) -> str:
    return f"{name}_of_{number}"
