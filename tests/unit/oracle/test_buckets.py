"""Rows leave the state in the same batches, whether their times are in buckets or not."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from tests.support.tiers import every_day
from tests.unit.oracle.test_large import drawn
from tidemark.oracle.input.history import read_history
from tidemark.oracle.sql.join_answer import rules_of
from tidemark.oracle.sql.join_inputs import input_tables
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import DUCKDB, JoinRules
from tidemark.oracle.sql.relation_tables import DuckDBTables

pytestmark = [pytest.mark.not_smoke]


@pytest.mark.parametrize("bucket_us", every_day([1, 999_999, 7_000_000, 3_600_000_000], [1, 7_000_000]))
def test_a_row_leaves_in_the_same_batch_whatever_the_buckets(bucket_us: int) -> None:
    rows = 0
    for seed in range(20):
        history = read_history(drawn(seed))  # type: ignore[arg-type]
        rules = replace(rules_of(history), popular=16)
        columns = input_tables(history)
        wanted = endings(rules, columns)

        assert endings(replace(rules, bucket_us=bucket_us), columns) == wanted, seed

        rows += len(wanted)
    assert rows > 200


def endings(rules: JoinRules, columns: dict[str, object]) -> list[tuple[object, ...]]:
    with duckdb.connect(":memory:") as database:
        tables = DuckDBTables(database)
        for name, of in columns.items():
            tables.register(name, of)  # type: ignore[arg-type]
        for name, text, _ in relations(rules, DUCKDB):
            tables.make(name, text)
            if name == "endings":
                break
        return sorted(tables.rows("select row, ending from endings"))
