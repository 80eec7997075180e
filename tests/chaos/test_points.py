"""Faults at every commit point, for every join and both sinks: each proved, and every row right afterwards.

Every day a few; all joins, both sinks and all points in ``make long``.
"""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.e2e.conftest import shown
from tidemark.evidence import RunDirectory
from tidemark.runner import RunOptions, describe, new_run_directory, run

pytestmark = [pytest.mark.chaos]

POINTS = (
    ("KillDriver", "planned"),
    ("KillDriver", "half-written"),
    ("KillDriver", "written"),
    ("KillDriver", "no-data"),
    ("KillExecutor", "half-written"),
)
EVERY_DAY = (POINTS[1], POINTS[3], POINTS[4])
"""``written`` is hit every day in ``test_driver_kills.py``, a driver at ``planned`` in ``make long`` only."""
JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
CASES = [
    pytest.param("left_outer", "exactly-once", EVERY_DAY, id="left_outer-some"),
    *(
        pytest.param(join, sink, POINTS, id=f"{join}-{sink}", marks=pytest.mark.long)
        for join in JOINS
        for sink in ("exactly-once", "spark")
    ),
]


def must_be_right(verdict):
    """No row is wrong but for a known defect of Spark."""
    assert verdict.verdict in ("VALID", "INVALID"), shown(verdict) + str(verdict.doubts)
    assert [str(finding) for finding in verdict.findings if finding.defect is None] == []


def schedule(points):
    return ",".join(f"{fault.removeprefix('Kill').lower()}@{point}" for fault, point in points)


@pytest.mark.parametrize(("join", "sink", "points"), CASES)
def test_every_point_is_hit_and_every_row_is_right(join, sink, points, run_pipeline, stack):
    if stack.spec.backend != "local":
        pytest.skip(
            "a process in a container is stopped too late after the first row: half-written is missed"
        )
    result = run_pipeline(join, sink=sink, seed=3, impressions=3000, faults=schedule(points))

    must_be_right(result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = {(fault.fault, fault.point): fault for fault in evidence.faults()}
    assert {name for name, fault in faults.items() if fault.done} == set(points)
    batches = {batch.batch: batch for batch in evidence.batches()}
    for (name, _), fault in faults.items():
        assert fault.proof["planned"]
        assert not fault.proof["committed"]
        assert fault.recovery_s is not None
        assert batches[fault.batch].restarted == (name == "KillDriver")
    again = copies(evidence)
    written = [faults[name] for name in POINTS[1:3] if name in faults]
    assert written
    if sink == "exactly-once":
        assert not again
        for fault in written:
            assert max(fault.proof["ledger"].values()) == fault.batch + 1
    else:
        for fault in written:
            assert again[fault.batch] >= sum(fault.proof["rows"].values()) > 0
        assert all(batches[batch].runs > 1 or batches[batch].failed_tasks for batch in again)
        assert result.verdict.counts["duplicates_excused"] == again.total()


PARTS = "broker,worker,master"


@pytest.mark.parametrize(
    "join", [pytest.param(join, marks=[] if join == "full_outer" else pytest.mark.long) for join in JOINS]
)
@pytest.mark.parametrize("sink", ["exactly-once", pytest.param("spark", marks=pytest.mark.long)])
def test_what_a_query_runs_on_is_killed_in_the_middle_of_a_batch(join, sink, own_stack, tmp_path):
    options = RunOptions(
        join, sink=sink, seed=4, impressions=1500, faults=PARTS, generator=("--null-keys", "0"),
        run_dir=tmp_path / "run",
    )  # fmt: skip
    contract = describe(join)

    verdict = run(options, contract, new_run_directory(options, contract), stack=own_stack).verdict

    must_be_right(verdict)
    faults = RunDirectory(tmp_path / "run").faults()
    assert sorted(fault.fault for fault in faults if fault.done) == ["KillBroker", "KillMaster", "KillWorker"]
    assert all(fault.proof["planned"] and not fault.proof["committed"] for fault in faults)
    if sink == "exactly-once":
        assert not copies(RunDirectory(tmp_path / "run"))
