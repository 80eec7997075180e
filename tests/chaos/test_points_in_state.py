"""An executor or the driver killed while a task commits its state: some stores of a partition have it, others not."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import FaultComponent

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
