"""Executors killed while batches run: every row is still right, and duplicates are permitted by delivery only."""

from __future__ import annotations

import pytest

from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import is_intact
from tidemark.sparkfiles.checkpoint import Checkpoint

pytestmark = [pytest.mark.chaos, pytest.mark.long]  # every day: tests/chaos/test_points.py


def test_a_join_survives_killed_executors(run_pipeline):
    result = run_pipeline("left_outer", seed=7, impressions=1000, faults="executor*2", keep_checkpoint=True)

    assert result.verdict.verdict == "VALID", result.verdict
    run = RunDirectory(result.run_dir)
    faults = run.faults()
    assert [fault.injected for fault in faults] == [True, True]
    assert all(fault.proof["planned"] and not fault.proof["committed"] for fault in faults)
    assert all(fault.recovery_s is not None for fault in faults)
    assert result.verdict.goals["fault_hit_running_batch"]
    placed = {placement.batch: set(placement.executors.values()) for placement in run.executor_assignments()}
    moves = result.verdict.spark_account.locality.moves
    for fault in faults:
        victim = fault.proof["executor_id"]
        had_state = victim in {executor.rpartition(":")[2] for executor in placed[fault.batch - 1]}
        assert any(f"executor {victim} was gone" in move for move in moves) == had_state, moves
    logs = result.run_dir / "logs"
    assert "Lost executor" in (logs / "driver.log").read_text()
    assert len(list(logs.glob("executor-*.log"))) > 2
    assert "Removing executor" in (logs / "master.log").read_text()
    assert "started" in next(logs.glob("broker*.log")).read_text()
    assert all("Asked to launch executor" in log.read_text() for log in logs.glob("worker-*.log"))
    planned = {batch.batch for batch in run.batches()}
    kept = Checkpoint(result.run_dir / "checkpoint")
    assert set(kept.planned()) <= planned
    assert max(kept.committed()) == max(planned)
    assert is_intact(result.run_dir)
