"""Ctrl-C while DuckDB works: the statement ends at once, and what is raised is Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import duckdb
import pytest

from tidemark.oracle.sql.interruptible import interruptible
from tidemark.oracle.sql.join_rules import Select
from tidemark.oracle.sql.relation_tables import DuckDBTables, make_tables

ENDLESS = "select count(*) as n from range(1_000_000_000_000) where hash(range) % 7 = 3"
"""A query of an hour."""


@pytest.fixture
def sql() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": 2}) as connection:
        yield connection


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C after a fifth of a second."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_statement_and_its_result_are_interrupted_and_the_connection_is_of_use_afterwards(sql, ctrl_c):
    with pytest.raises(KeyboardInterrupt):
        interruptible(sql, lambda: sql.execute(ENDLESS).fetchnumpy())

    assert sql.execute("select 7").fetchall() == [(7,)]


def test_the_tables_of_an_answer_are_interrupted(sql, ctrl_c):
    with pytest.raises(KeyboardInterrupt):
        make_tables(DuckDBTables(sql), [Select("found", ENDLESS)], "found")


def test_an_error_of_the_statement_is_raised_as_it_is(sql):
    with pytest.raises(duckdb.CatalogException, match="no_such_table"):
        interruptible(sql, lambda: sql.execute("select * from no_such_table"))
