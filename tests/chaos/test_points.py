"""Faults at every commit point, for every join and both sinks: each proved, and every row right afterwards.

Every day a choice in which each join, each sink and each point is; all of them in ``make long``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.conftest import shown
from tidemark.evidence import RunDirectory
from tidemark.runner import RunOptions, describe, new_run_directory, run

pytestmark = [pytest.mark.chaos]

POINTS = {
    ("KillDriver", "planned"),
    ("KillDriver", "half-written"),
    ("KillDriver", "written"),
    ("KillDriver", "no-data"),
    ("KillExecutor", "half-written"),
}
SCHEDULE = ",".join(f"{fault.removeprefix('Kill').lower()}@{point}" for fault, point in sorted(POINTS))
EVERY_DAY = {("left_outer", "exactly-once"), ("left_semi", "spark")}
JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
CASES = [
    pytest.param(join, sink, marks=[] if (join, sink) in EVERY_DAY else pytest.mark.long)
    for join in JOINS
    for sink in ("exactly-once", "spark")
]


def must_be_right(verdict):
    """No row is wrong but for a known defect of Spark."""
    assert verdict.verdict in ("VALID", "INVALID"), shown(verdict) + str(verdict.doubts)
    assert [str(finding) for finding in verdict.findings if finding.defect is None] == []


def copies(evidence):
    """Batch -> how many of its rows are in the output once more than once."""
    counted = Counter((dict(record.headers)["batch"], record.value) for record in evidence.output())
    again: Counter[int] = Counter()
    for (batch, _), count in counted.items():
        again[int(batch)] += count - 1
    return +again


@pytest.mark.parametrize(("join", "sink"), CASES)
def test_every_point_is_hit_and_every_row_is_right(join, sink, run_pipeline):
    result = run_pipeline(join, sink=sink, seed=3, impressions=3000, faults=SCHEDULE)

    must_be_right(result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = {(fault.fault, fault.point): fault for fault in evidence.faults()}
    assert {name for name, fault in faults.items() if fault.done} == POINTS
    for fault in faults.values():
        assert fault.proof["planned"]
        assert not fault.proof["committed"]
        assert fault.recovery_s is not None
    batches = {batch.batch: batch for batch in evidence.batches()}
    for name, fault in faults.items():
        assert batches[fault.batch].restarted == (name[0] == "KillDriver")
    half, whole = faults["KillDriver", "half-written"], faults["KillDriver", "written"]
    again = copies(evidence)
    if sink == "exactly-once":
        assert set(whole.proof["ledger"].values()) == {whole.batch + 1}
        assert len(set(half.proof["ledger"].values())) == 2
        assert not again
    else:
        assert again[whole.batch] >= sum(whole.proof["rows"].values()) > 0
        assert again[half.batch] >= sum(half.proof["rows"].values()) > 0
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
