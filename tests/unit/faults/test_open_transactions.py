"""When rows, or a ledger entry, lie in an open transaction; and where there is no such point, or no snapshot."""

from __future__ import annotations

import random
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.campaigns.soak import SoakOptions, run_options
from tidemark.campaigns.soak_faults import can_be_drawn, schedule
from tidemark.errors import UsageError
from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch
from tidemark.faults.sink_progress import _LedgerProgress
from tidemark.formats.faults import LINK_FAULTS, OF_TRANSACTION, SINK_STEPS, CommitPoint
from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.runner import RunOptions
from tidemark.runner.one_run import _must_be_possible
from tidemark.runner.possible_faults import SNAPSHOTS_OFTEN
from tidemark.sparkfiles.checkpoint import CHANGELOG, STATE_FORMAT, STATE_PROVIDER
from tidemark.stack import StackSpec

QUERY = "0" * 8 + "-0000" * 3 + "-" + "0" * 12
BEFORE = {0: 5, 1: 5}
ON_ROCKSDB = f"{STATE_PROVIDER}={ROCKSDB}"


class Ledger:
    """Sink partitions whose entry is pending; no committed entry."""

    def __init__(self, pending):
        self.pending = pending

    def is_pending(self, group, timeout_s):
        return int(group.rpartition(".")[2]) in self.pending

    def look_up(self, group, timeout_s, *, stable):
        return None


def progress_of(stable, ends, pending):
    checkpoint = SimpleNamespace(query_id=lambda: QUERY, partitions=lambda _batch: 2)
    made = object.__new__(_LedgerProgress)
    made.ends, made._stable, made._checkpoint = lambda: ends, lambda: lambda: stable, checkpoint
    made._reader = Ledger(pending)
    return made


@pytest.mark.parametrize(
    ("stable", "ends", "pending", "shown"),
    [
        ({0: 5, 1: 5}, {0: 5, 1: 5}, [], []),
        ({0: 5, 1: 5}, {0: 7, 1: 5}, [], [CommitPoint.ROWS_SENT]),
        ({0: 5, 1: 8}, {0: 7, 1: 8}, [1], [CommitPoint.ROWS_SENT, CommitPoint.ENTRY_SENT]),
        ({0: 9, 1: 8}, {0: 9, 1: 8}, [0], [CommitPoint.ENTRY_SENT]),  # its rows are on their way
        ({0: 3, 1: 5}, {0: 7, 1: 5}, [], []),  # of a transaction that was open before the batch
    ],
)
def test_rows_are_open_behind_the_last_stable_offset_and_an_entry_while_it_is_pending(
    stable, ends, pending, shown
):
    progress = progress_of(stable, ends, pending)
    found = {point: progress.in_transaction(point, 3, BEFORE) for point in OF_TRANSACTION}

    assert [point for point, proof in found.items() if proof is not None] == shown
    for proof in filter(None, found.values()):
        assert proof["open_rows"] == {str(at): end for at, end in ends.items() if stable[at] < end}
        assert proof["pending"] == pending


@pytest.mark.parametrize(("later", "is_there"), [([], False), ([0], True)])
def test_a_transaction_that_another_executor_goes_on_to_commit_is_none_of_the_stopped_one(
    later, is_there, monkeypatch
):
    progress = progress_of(BEFORE, {0: 7, 1: 5}, [0])
    target = SimpleNamespace(progress=progress, checkpoint=SimpleNamespace(running=lambda: 3))
    monkeypatch.setattr(commit_points, "pause", lambda _seconds: setattr(progress._reader, "pending", later))

    found = commit_points.with_executor_stopped(target, CommitPoint.ENTRY_SENT, RunningBatch(3, BEFORE))

    assert (found is not None) is is_there


@pytest.mark.parametrize("sink", ["spark", "own"])
@pytest.mark.parametrize(
    "faults", ["executor@rows-sent", "executor@fenced", "worker@planned+executor@entry-sent"]
)
def test_a_sink_without_such_steps_has_no_such_point(sink, faults):
    with pytest.raises(UsageError, match="is a step of the exactly-once sink") as error:
        _must_be_possible(RunOptions("inner", sink=sink, faults=faults), StackSpec("local"))
    assert "--sink exactly-once" in error.value.hint


def test_a_soak_draws_such_points_for_a_sink_with_such_steps_alone():
    def points(sink):
        can = partial(can_be_drawn, links=LINK_FAULTS, brokers=1, sink=sink)
        return {part.point for one in schedule(random.Random(1), 2000, can) for part in one.parts}

    assert set(SINK_STEPS) <= points("exactly-once")
    assert not set(SINK_STEPS) & points("spark")


@pytest.mark.parametrize(
    ("conf", "driver", "said"),
    [
        ((), "", "no snapshot is written within the run"),
        (SNAPSHOTS_OFTEN, "driver", "the driver 'driver' runs already"),
        (SNAPSHOTS_OFTEN, "", ""),
        ((ON_ROCKSDB,), "driver", ""),
        ((ON_ROCKSDB, f"{CHANGELOG}=true"), "", "no snapshot is written within the run"),
        ((ON_ROCKSDB, f"{CHANGELOG}=true", *SNAPSHOTS_OFTEN), "", ""),
    ],
)
def test_where_no_snapshot_would_be_written_the_point_is_refused(conf, driver, said):
    options = RunOptions("inner", faults="executor@snapshot", conf=conf, driver=driver)
    with pytest.raises(UsageError, match=said) if said else nullcontext():
        _must_be_possible(options, StackSpec("local"))


@pytest.mark.parametrize(
    ("version", "said"), [("1", ""), ("2", ""), ("3", "has format 3"), ("4", "has format 4")]
)
def test_where_a_partition_has_one_store_the_point_state_is_refused(version, said):
    conf = (ON_ROCKSDB, f"{STATE_FORMAT}={version}")
    options = RunOptions("inner", faults="driver@state", conf=conf)

    with pytest.raises(UsageError, match=said) if said else nullcontext():
        _must_be_possible(options, StackSpec("local"))


def test_a_soak_makes_snapshots_on_a_driver_of_the_runs_own():
    asked = [run_options(SoakOptions(Path("runs"), faults=12), number) for number in range(30)]
    found = {("snapshot" in one.faults, {*SNAPSHOTS_OFTEN} <= {*one.conf}, one.driver == "") for one in asked}

    assert found == {(True, True, True), (False, False, False)}
