"""Two joins that go on under a newer Spark, of the table of ``python -m tests.upgrades``: one stopped, one killed."""

from __future__ import annotations

import pytest

from tests.e2e.own_broker import own_broker
from tests.upgrades.__main__ import spark_of
from tests.upgrades.cells import Group
from tests.upgrades.running import run_group
from tidemark.formats.contract import JoinKind


@pytest.mark.long
def test_the_rows_of_a_join_are_right_over_an_upgrade_from_the_oldest_spark_to_the_newest(tmp_path):
    cells = ((JoinKind.LEFT_SEMI, "HDFS, 2", "stopped"), (JoinKind.FULL_OUTER, "RocksDB, 2", "killed"))

    with own_broker(tmp_path / "broker") as broker:
        outcome = run_group(Group("3.5.7", "4.3.0", cells), broker.bootstrap, tmp_path / "runs", spark_of)

    assert not outcome.problem, outcome.problem
    assert [cell.said for cell in outcome.cells] == ["VALID", "VALID"], outcome.cells
    assert all(cell.carried > 0 for cell in outcome.cells)
    stopped, killed = outcome.cells
    assert (stopped.both, stopped.again) == (None, 0)
    assert killed.both is not None
    assert killed.again > 0
