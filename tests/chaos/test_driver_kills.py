"""A driver killed with a batch written and not committed: the one moment that tells exactly-once from at-least-once.

Spark's own sink doubles the batch; that the exactly-once sink does not is shown in ``test_points.py``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tidemark.evidence import RunDirectory

pytestmark = [pytest.mark.chaos]

SCHEDULE = {"seed": 5, "impressions": 1500, "kill_drivers": 1, "kill_executors": 1}


def the_driver_kill(run):
    [fault] = [fault for fault in run.faults() if fault.fault == "KillDriver"]
    assert fault.done
    assert fault.point == "written"
    assert fault.proof["planned"]
    assert not fault.proof["committed"]
    assert fault.recovery_s is not None
    return fault


def rows_of(run, batch):
    """Output records of one batch: (before the kill, after it), as Kafka has them."""
    ends = {int(partition): end for partition, end in the_driver_kill(run).proof["ends"].items()}
    of_batch = [record for record in run.output() if dict(record.headers)["batch"] == str(batch)]
    before = Counter(record.value for record in of_batch if record.offset < ends[record.partition])
    return before, Counter(record.value for record in of_batch) - before


def test_with_sparks_own_sink_the_same_kill_doubles_the_whole_batch(run_pipeline):
    result = run_pipeline("left_outer", sink="spark", **SCHEDULE)

    assert result.verdict.verdict == "VALID", result.verdict
    assert result.verdict.delivery == "at-least-once"
    run = RunDirectory(result.run_dir)
    fault = the_driver_kill(run)
    before, after = rows_of(run, fault.batch)
    assert before.total() == sum(fault.proof["rows"].values()) > 0
    assert before <= after  # each once more
    assert result.verdict.counts["duplicates_excused"] >= before.total()
    assert [batch.batch for batch in run.batches() if batch.runs == 2] == [fault.batch]
