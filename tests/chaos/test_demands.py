"""What is demanded in time is judged by the evidence of a real run: broken by one that is too slow, else kept.

Every day ``test_points.py`` has demands that are kept, and ``tests/golden`` has some that are broken.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.e2e.conftest import shown
from tidemark.errors import EXIT_INVALID
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.liveness import Demands
from tidemark.oracle import judge
from tidemark.oracle.demand_check import OF_TIME

pytestmark = [pytest.mark.chaos, pytest.mark.long]

ENOUGH = Demands(recover_within_s=10_000, watermark_stands_at_most_s=10_000, state_rows_at_most=10**9)


def test_a_run_breaks_demands_that_nothing_can_keep_and_its_evidence_keeps_others(run_on_own):
    result = run_on_own(
        "left_outer", seed=4, impressions=400, faults="executor@planned,broker:pause@planned~1",
        recover_within_s=0.001, progress_during_faults="1", watermark_stands_at_most_s=0.001,
        state_rows_at_most=0,
    )  # fmt: skip

    assert result.verdict.exit_code == EXIT_INVALID, shown(result.verdict)
    evidence = RunDirectory(result.run_dir)
    totals = result.verdict.findings_total
    assert tuple(totals) == OF_TIME
    assert (totals["slow_recoveries"], totals["standstills"], totals["oversized_states"]) == (2, 1, 1)
    assert "--progress-during-faults 1" in result.command
    assert all(batch.planned_at_ms <= batch.committed_at_ms for batch in evidence.batches())
    assert [fault.ended_at_utc is not None for fault in evidence.faults()] == [
        fault.component == "broker" for fault in evidence.faults()
    ]
    assert "availability" in dict(page_lines(result))
    evidence.write_json("manifest", msgspec.structs.replace(evidence.manifest, demands=ENOUGH))
    again = judge(evidence)
    assert (again.verdict, again.inconclusive) == ("VALID", []), shown(again)


def page_lines(result):
    """What is printed of a run."""
    from tidemark.reports import summary_lines

    return summary_lines(result.verdict, RunDirectory(result.run_dir).faults())
