"""Queries that are changed between two lives: what Spark does with each, and what an audit says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.foreign_query import ForeignSpark
from tests.e2e.own_broker import own_broker
from tests.upgrades.changed import CHANGES, PARTITIONS, Changed, run_changes, run_on_other_executors
from tidemark.campaigns.state_stores import HDFS
from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS, ROCKSDB
from tidemark.preflight import Effect
from tidemark.sparkfiles.checkpoint import STATE_FORMAT, STATE_PROVIDER

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> dict[str, Changed]:
    folder = tmp_path_factory.mktemp("changed")
    with own_broker(folder / "broker") as broker:
        return run_changes(broker.bootstrap, folder / "queries", ForeignSpark.of(Path(sys.executable)))


@pytest.mark.parametrize("name", ["cores", "moved", "copied", "sink"])
def test_other_cores_a_moved_checkpoint_and_new_partitions_of_topics_change_no_row(changed, name):
    assert (changed[name].verdict, changed[name].findings, changed[name].refused) == ("VALID", {}, "")


def test_rows_go_to_the_new_partitions_of_the_output_too(changed):
    assert changed["sink"].partitions == ((0,), (0, 1, 2))


DEFECTS = {str(JoinKind.LEFT_SEMI): {LEFT_SEMI_LOSES_SAME_BATCH_ROWS}}
"""Join -> the known defects that it may show on this Spark."""


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_another_number_of_executors_changes_no_row_of_any_join(tmp_path, before, after):
    spark = ForeignSpark.of(Path(sys.executable))
    with own_broker(tmp_path / "broker") as broker:
        queries = run_on_other_executors(broker.bootstrap, tmp_path / "queries", spark, before, after)
    assert set(queries) == set(map(str, JoinKind))
    for name, query in queries.items():
        assert query.executors == ({before}, {after}), name
        assert query.holds, (name, query)
        assert set(query.defects) <= DEFECTS.get(name, set()), name


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("provider", {STATE_PROVIDER: HDFS}),
        ("back", {STATE_PROVIDER: ROCKSDB}),
        ("format", {STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "2"}),
        ("partitions", {PARTITIONS: "2"}),
    ],
)
def test_spark_keeps_the_store_the_format_and_the_partitions_that_the_checkpoint_names(changed, name, kept):
    assert kept.items() <= changed[name].kept.items()
    assert (changed[name].verdict, changed[name].refused) == ("VALID", "")


@pytest.mark.parametrize(
    ("name", "part"),
    [("column", "VALUE"), ("semi", "VALUE"), ("both", "VALUE"), ("keys", "KEY"), ("equal", "KEY")],
)
def test_other_columns_than_those_of_the_state_are_refused_by_spark(changed, name, part):
    assert changed[name].refused.startswith(f"[STATE_STORE_{part}_SCHEMA_NOT_COMPATIBLE]")


def test_another_topic_is_refused_by_spark(changed):
    assert changed["topic"].refused.startswith("Some data may have been lost")


def test_rows_come_again_after_a_backup_is_restored(changed):
    assert (changed["restored"].verdict, changed["restored"].findings) == ("UNKNOWN", {})
    assert "rows came again" in changed["restored"].said


def test_rows_that_come_again_in_other_batches_after_a_backup_is_restored_are_findings(changed):
    one = changed["recut"]
    assert (one.refused, one.verdict) == ("", "INVALID")
    assert "duplicate_rows" in one.findings  # in the same batch none is, as "restored" shows


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("delay", "wrong_watermarks"),
        ("sooner", "wrong_watermarks"),
        ("wider", "lost_rows"),
        ("narrower", "phantom_rows"),
        ("filter", "phantom_rows"),
        ("kind", "phantom_rows"),
        ("key", "lost_rows"),
    ],
)
def test_a_changed_join_is_what_neither_contract_says(changed, name, found):
    one = changed[name]
    assert (one.refused, one.verdict, one.by_old) == ("", "INVALID", "INVALID")
    assert found in one.findings


UNTOLD = {
    "column": "no contract names the column",
    "recut": "no contract names a backup, nor the size of a batch",
}
"""What two contracts do not say."""


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in UNTOLD])
def test_what_becomes_of_a_changed_query_is_known_from_its_contracts_and_settings(changed, name):
    one = changed[name]
    seen = (
        Effect.REFUSED if one.refused
        else Effect.KEPT if name in ("provider", "back", "format", "partitions")
        else None if one.findings == {}
        else {"VALID": Effect.SINCE, "INVALID": Effect.WRONG}[one.since]
    )  # fmt: skip

    assert one.foretold == ([] if seen is None else [str(seen)])
