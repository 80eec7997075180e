"""Tables in parts: what is made of them, one part at a time, is what is made of all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

from tidemark.oracle.large.duckdb_engine import parts_of
from tidemark.oracle.large.part_tables import PartTables
from tidemark.oracle.sql.join_rules import Select

RELATIONS = [
    Select("doubled", "select key, 2 * key as twice from records"),
    Select("greatest", "select max(twice) as twice from doubled", of_all=True),
    Select("short", "select d.key, g.twice - d.twice as missing from doubled d cross join greatest g"),
    Select("kept", "select key from short where missing > 0"),
]


@contextmanager
def tables_in(parts: int) -> Iterator[PartTables]:
    with duckdb.connect(":memory:") as sql:
        yield PartTables(sql, parts, 1_000)


@pytest.fixture
def tables() -> Iterator[PartTables]:
    with tables_in(2) as tables:
        tables.append("records", "select range as key, range as in_part from range(2)")
        yield tables


def names(tables: PartTables) -> set[str]:
    return {name for (name,) in tables.rows("select table_name from information_schema.tables")}


@pytest.mark.parametrize("parts", [1, 3])
def test_relations_are_the_same_in_any_number_of_parts(parts: int) -> None:
    with tables_in(parts) as tables:
        for first in (0, 4):
            text = f"select range as key from range({first}, {first + 4 + first // 2})"
            tables.append("records", f"select key, {tables.part_of('key')} as in_part from ({text})")

        tables.make_relations(RELATIONS, "kept greatest")

        assert sorted(tables.rows("from kept")) == [(key,) for key in range(9)]
        assert tables.rows("from greatest") == [(18,)]
        assert sorted(tables.rows("select key from records")) == [(key,) for key in range(10)]
        wanted = {"kept", "greatest", "records"}
        if parts > 1:
            wanted |= {f"{name}_of_{part}" for name in ("kept", "records") for part in range(parts)}
        assert names(tables) == wanted


def test_a_table_in_parts_is_made_again_part_by_part(tables: PartTables) -> None:
    tables.make("records", "select key, count(*) over () as many from records")

    assert sorted(tables.rows("from records")) == [(0, 1), (1, 1)]


def test_all_parts_of_a_table_are_dropped(tables: PartTables) -> None:
    tables.drop("records")

    assert names(tables) == set()


@pytest.mark.parametrize(
    ("limit", "records", "parts"),
    [("400MB", 300_000, 1), ("1 GB", 4_999_999, 1), ("1GB", 5_000_001, 2), ("2500MB", 100_000_000, 9)],
)
def test_a_run_is_joined_in_more_parts_the_less_memory_there_is(limit: str, records: int, parts: int) -> None:
    assert parts_of(limit, records) == parts


def test_rows_are_appended_to_the_part_that_they_name(tables: PartTables) -> None:
    tables.append("records", "select 10 + range as key, range % 2 as in_part from range(3)")

    assert sorted(tables.rows("from records")) == [(0, 0), (1, 1), (10, 0), (11, 1), (12, 0)]
    assert sorted(tables.rows("from records_of_0")) == [(0, 0), (10, 0), (12, 0)]


def test_a_table_that_was_dropped_begins_anew(tables: PartTables) -> None:
    tables.drop("records")
    tables.append("records", "select 7 as key, 1 as in_part")

    assert tables.rows("from records") == [(7, 1)]


@pytest.mark.parametrize("parts", [1, 2])
def test_columns_are_dropped_of_all_parts(parts: int) -> None:
    with tables_in(parts) as tables:
        tables.append("records", f"select range as key, 1 as spent, range % {parts} as in_part from range(2)")

        tables.drop_columns("records", ["spent"])
        tables.make_relations([Select("kept", "select * from records")], "kept")

        assert sorted(tables.rows("select * from kept")) == [(key, key % parts) for key in range(2)]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("rows", "repeated"), [(0, 0), (40, 0), (41, 1), (100, 60)])
def test_repeated_values_are_counted_over_all_parts(parts: int, rows: int, repeated: int) -> None:
    with tables_in(parts) as tables:
        text = f"select range % 2 as side, 'id-' || range % 40 as id, range % {parts} as in_part from range({rows})"
        tables.append("records", text)
        before = names(tables)

        assert tables.repeated("side, id", "select side, id from records") == repeated
        assert names(tables) == before


def test_values_are_repeated_only_where_all_columns_are_equal() -> None:
    with tables_in(2) as tables:
        given = "(values (0, 'a'), (1, 'a'), (0, 'b'), (0, 'a')) given(side, id)"
        tables.append("records", f"select *, 0 as in_part from {given}")

        assert tables.repeated("side, id", "select side, id from records") == 1
