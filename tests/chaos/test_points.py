"""Faults at every commit point, for every join and both sinks: each proved, and every row right afterwards.

Every day a few; all joins, both sinks and all points in ``make long``.
"""

from __future__ import annotations

from collections import defaultdict

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
EVERY_DAY = POINTS[1:]
"""A driver at ``planned`` comes in ``make long`` only."""
JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
CASES = [
    pytest.param("left_outer", "exactly-once", EVERY_DAY, id="left_outer-some"),
    *(
        pytest.param(join, sink, POINTS, id=f"{join}-{sink}", marks=pytest.mark.long)
        for join in JOINS
        for sink in ("exactly-once", "spark")
    ),
]


PROVOKED = {"left_semi": ["left-semi-loses-same-batch-rows"]}
"""The defects of Spark that a restart may bring about."""
GENERATOR = {"full_outer": ("--null-keys", "0")}
"""It takes NULL keys for equal."""


def must_be_right(join, verdict):
    """No row is wrong, but for a left semi join's known defect, and nothing is in doubt."""
    assert verdict.verdict == ("INVALID" if verdict.findings else "VALID"), shown(verdict)
    assert [str(one) for one in verdict.findings if one.defect not in PROVOKED.get(join, [])] == []
    assert verdict.doubts == []


def must_be_one_timeline(evidence, kills):
    """Every batch once, those that lost their driver begun anew, and reports of every run."""
    batches = evidence.batches()
    assert [batch.batch for batch in batches] == list(range(len(batches)))
    struck = {fault.batch for fault in kills}
    assert {batch.batch for batch in batches if batch.restarted} == struck
    assert {batch.batch for batch in batches if batch.runs > 1} == struck
    reports = {report["batchId"]: report["runId"] for report in evidence.progress()}
    assert len(set(reports.values())) == 1 + len(kills)
    # The report of the batch before had no time to be logged.
    assert set(range(len(batches))) - set(reports) <= {batch - 1 for batch in struck}


def must_be_written_as_told(evidence, fault):
    """Where the ledger had the batch when it was struck, its rows were there, all of them; elsewhere it has rows, too.

    Rows elsewhere may have been there as well, of a transaction that was open.
    """
    ends = {int(partition): end for partition, end in fault.proof["ends"].items()}
    there = defaultdict(list)
    for record in evidence.output():
        headers = dict(record.headers)
        if headers["batch"] == str(fault.batch):
            there[headers["partition"]].append(record.offset < ends[record.partition])
    told = {partition for partition, entry in fault.proof["ledger"].items() if entry == fault.batch + 1}
    assert all(all(there[partition]) for partition in told)
    assert any(there[partition] for partition in told)
    elsewhere = set(fault.proof["ledger"]) - told
    assert bool(elsewhere) == (fault.point == "half-written")
    assert not elsewhere or any(there[partition] for partition in elsewhere)


def schedule(points):
    return ",".join(f"{fault.removeprefix('Kill').lower()}@{point}" for fault, point in points)


@pytest.mark.parametrize(("join", "sink", "points"), CASES)
def test_every_point_is_hit_and_every_row_is_right(join, sink, points, run_pipeline):
    more = {"generator": GENERATOR.get(join, ())}
    result = run_pipeline(join, sink=sink, seed=3, impressions=3000, faults=schedule(points), **more)

    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    faults = {(fault.fault, fault.point): fault for fault in evidence.faults()}
    assert {name for name, fault in faults.items() if fault.done} == set(points)
    batches = {batch.batch: batch for batch in evidence.batches()}
    for fault in faults.values():
        assert fault.proof["planned"]
        assert not fault.proof["committed"]
        assert fault.recovery_s is not None
        assert sum(fault.proof["ends_before"].values()) <= sum(fault.proof["ends_after"].values())
    must_be_one_timeline(evidence, [fault for (name, _), fault in faults.items() if name == "KillDriver"])
    again = copies(evidence)
    written = [faults[name] for name in POINTS[1:3] if name in faults]
    if sink == "exactly-once":
        assert not again
        for fault in faults.values():
            if fault.point in ("written", "half-written"):
                must_be_written_as_told(evidence, fault)
    else:
        for fault in written:
            assert again[fault.batch] >= sum(fault.proof["rows"].values()) > 0
        assert all(batches[batch].runs > 1 or batches[batch].failed_tasks for batch in again)
        assert result.verdict.counts["duplicates_excused"] == again.total()


PARTS = ("broker", "worker", "master")
EXACTLY_ONCE = "exactly-once"
PARTS_OF = [
    # Every day that a broker is lost in the middle of a join: tests/e2e/test_replication.py.
    pytest.param("full_outer", EXACTLY_ONCE, PARTS[1:], id="some"),
    pytest.param("left_outer", EXACTLY_ONCE, PARTS, id="all", marks=pytest.mark.long),
    *(
        pytest.param(join, sink, PARTS[:1], id=f"{join}-{sink}", marks=pytest.mark.long)
        for join in JOINS
        for sink in (EXACTLY_ONCE, "spark")
        if (join, sink) != ("left_outer", EXACTLY_ONCE)
    ),
]


@pytest.mark.parametrize(("join", "sink", "parts"), PARTS_OF)
def test_what_a_query_runs_on_is_killed_in_the_middle_of_a_batch(join, sink, parts, own_stack, tmp_path):
    options = RunOptions(
        join, sink=sink, seed=4, impressions=1500, faults=",".join(parts), generator=GENERATOR.get(join, ()),
        run_dir=tmp_path / "run",
    )  # fmt: skip
    contract = describe(join)

    verdict = run(options, contract, new_run_directory(options, contract), stack=own_stack).verdict

    must_be_right(join, verdict)
    faults = RunDirectory(tmp_path / "run").faults()
    assert {fault.fault for fault in faults if fault.done} == {f"Kill{part.title()}" for part in parts}
    assert all(fault.proof["planned"] and not fault.proof["committed"] for fault in faults)
    if sink == "exactly-once":
        assert not copies(RunDirectory(tmp_path / "run"))
