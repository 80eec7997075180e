"""An executor or the driver killed while state is written: some stores of a partition have a batch, others not; or a
snapshot of a store is not finished.
"""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import FaultComponent
from tidemark.runner.possible_faults import SNAPSHOTS_OFTEN

pytestmark = [pytest.mark.chaos, pytest.mark.long]

FAULTS = "executor@state,driver@state"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = f"{PROVIDER}=org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CASES = {
    "HDFS": ("left_outer", EXACTLY_ONCE, ()),
    "HDFS, Spark's own sink": ("full_outer", SPARK, ()),
    "RocksDB": ("left_outer", EXACTLY_ONCE, (ROCKSDB,)),
    "RocksDB, Spark's own sink": ("left_semi", SPARK, (ROCKSDB,)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_batch_whose_state_is_half_committed_is_run_again_and_every_row_is_right(case, run_on_own):
    join, sink, conf = CASES[case]

    nulls = ("--null-keys", "0") if join == "full_outer" else ()
    result = run_on_own(join, sink=sink, seed=3, impressions=1000, faults=FAULTS, conf=conf, generator=nulls)

    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = must_be_proved(evidence, read_schedule(FAULTS))
    for fault in faults.values():
        [stores] = fault.proof["state"].values()
        assert len(stores) == 4
        assert 0 < sum(stores.values()) < 4
    [of_driver] = [fault for fault in faults.values() if fault.component is FaultComponent.DRIVER]
    assert [batch.batch for batch in evidence.batches() if batch.runs > 1] == [of_driver.batch]
    assert sink == SPARK or not copies(evidence)


OF_SNAPSHOT = "executor@snapshot,driver@snapshot"


@pytest.mark.parametrize("conf", [(), (ROCKSDB,)], ids=["HDFS", "RocksDB"])
def test_a_snapshot_that_is_not_finished_is_no_state_and_every_row_is_right(conf, run_pipeline):
    result = run_pipeline(
        "left_outer", seed=3, impressions=1000, faults=OF_SNAPSHOT, conf=(*SNAPSHOTS_OFTEN, *conf)
    )

    must_be_right("left_outer", result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = must_be_proved(evidence, read_schedule(OF_SNAPSHOT))
    assert all(fault.proof["snapshots"] for fault in faults.values())
    [of_driver] = [fault for fault in faults.values() if fault.component is FaultComponent.DRIVER]
    assert [batch.batch for batch in evidence.batches() if batch.runs > 1] == [of_driver.batch]
    assert not copies(evidence)
