"""The relations of the SQL oracle give the same on DuckDB and on Spark: each one, of the same input."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from tests.support.tiers import every_day
from tests.unit.oracle.test_any_contract import Drawn
from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import BOUNDS, flush_of, generate_records, make_contract
from tidemark.formats.contract import JoinKind, Term
from tidemark.oracle.input.history import History, read_history
from tidemark.oracle.sql.join_answer import rules_of
from tidemark.oracle.sql.join_inputs import input_tables
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import DUCKDB, SPARK

pytestmark = [pytest.mark.e2e]

FORMAT_BY_TIME = 4
BUCKET_US = 7_000_000


@pytest.fixture(scope="module")
def quoting(session):
    """The session, in which double quotes are of names, as in the standard."""
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    return session


def history_of(kind: JoinKind, form: int) -> History:
    """A run with late rows, NULL keys, restarts, conditions and keys of many rows."""
    rng = random.Random(f"{kind} {form}")
    contract = make_contract("both engines", kind, BOUNDS[kind][form % len(BOUNDS[kind])])
    if form == FORMAT_BY_TIME:
        contract = replace(contract, condition=(Term("<", left="n", right="n"),))
    records = generate_records(rng, contract, slices=4, rows=(15, 25))
    run = Drawn(Case("both engines", contract, records, flush_of(contract)), restarts={2}, form=form)
    return read_history(run)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [pytest.param(2, marks=pytest.mark.long), FORMAT_BY_TIME])
@pytest.mark.parametrize("kind", every_day(JoinKind, (JoinKind.FULL_OUTER, JoinKind.LEFT_SEMI)))
def test_each_relation_gives_the_same_on_both_engines(kind, form, quoting, monkeypatch):
    monkeypatch.setattr("tidemark.oracle.sql.join_answer.FEW_ROWS", 0)
    monkeypatch.setattr("tidemark.oracle.sql.join_answer.POPULAR", 3)
    history = history_of(kind, form)
    rules = replace(rules_of(history), bucket_us=BUCKET_US if form == FORMAT_BY_TIME else None)
    rows = 0
    with duckdb.connect(":memory:") as database:
        for name, columns in input_tables(history).items():
            database.register("columns", columns)
            database.execute(f"create table {name} as from columns")
            view(quoting, name, database.table(name).to_arrow_table())
        for ours, theirs in zip(relations(rules, DUCKDB), relations(rules, SPARK), strict=True):
            database.execute(f"create table {ours.name} as {ours.text}")
            wanted = database.table(ours.name).to_arrow_table()

            found = quoting.sql(theirs.text).toArrow()

            assert found.column_names == wanted.column_names, ours.name
            assert in_order(found) == in_order(wanted), ours.name
            view(quoting, ours.name, wanted)
            rows += len(wanted)
    assert rows > 200


def view(session, name: str, table: pa.Table) -> None:
    """Let Spark see a table under its name."""
    session.createDataFrame(table).createOrReplaceTempView(name)


def in_order(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows of a table, numbers as numbers of any size."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row])
