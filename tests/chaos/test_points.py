"""Faults at every commit point, for every join and both sinks: each proved, and every row right afterwards.

Every day a pairwise choice: every join at every point, every join with both sinks, every point with both sinks. The
other half, each with the other sink, is in ``make long``.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.chaos.copies import copies
from tests.e2e.conftest import shown
from tidemark.chaos.strikes import POINTS as FAULTS
from tidemark.evidence import RunDirectory
from tidemark.runner.options import SINKS

pytestmark = [pytest.mark.chaos]

JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
EXACTLY_ONCE, SPARK = SINKS
POINTS = (
    ("KillDriver", "planned"),
    ("KillDriver", "written"),
    ("KillExecutor", "half-written"),
    ("KillDriver", "half-written"),
    ("KillDriver", "no-data"),
)
BROKERS = tuple((("KillBroker", point),) for point in FAULTS["broker", "kill"])
SOME, OTHERS = POINTS[:3], POINTS[3:]


def half(points, first, each=((),), marks=()):
    """A case for each join, one with this sink and the next with the other; in containers one join alone.

    ``each``: the points that the first join has besides, those of the second, and so on.
    """
    for number, join in enumerate(JOINS):
        sink = SINKS[(number + SINKS.index(first)) % len(SINKS)]
        marked = marks or ([] if join == "left_outer" else pytest.mark.long_on("compose"))
        yield pytest.param(
            join, sink, (*points, *each[number % len(each)]), id=f"{join}-{sink}", marks=marked
        )


def both_halves(points, first, each=((),)):
    """Those of every day, and in ``make long`` those with the sink that the join has not been with."""
    [other] = set(SINKS) - {first}
    return [*half(points, first, each), *half(points, other, each, pytest.mark.long)]


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


def of_its_batch(evidence, fault):
    """The output records of the batch that was struck: value, sink partition, and whether it was there by then."""
    ends = {int(partition): end for partition, end in fault.proof["ends"].items()}
    for record in evidence.output():
        headers = dict(record.headers)
        if headers["batch"] == str(fault.batch):
            yield record.value, headers["partition"], record.offset < ends[record.partition]


def must_be_written_as_told(evidence, fault):
    """Where the ledger had the batch when it was struck, its rows were there, all of them; elsewhere it has rows, too.

    Rows elsewhere may have been there as well, of a transaction that was open.
    """
    there = defaultdict(list)
    for _, partition, was_there in of_its_batch(evidence, fault):
        there[partition].append(was_there)
    told = {partition for partition, entry in fault.proof["ledger"].items() if entry == fault.batch + 1}
    assert all(all(there[partition]) for partition in told)
    assert any(there[partition] for partition in told)
    elsewhere = set(fault.proof["ledger"]) - told
    assert bool(elsewhere) == (fault.point == "half-written")
    assert not elsewhere or any(there[partition] for partition in elsewhere)


def schedule(points):
    return ",".join(f"{fault.removeprefix('Kill').lower()}@{point}" for fault, point in points)


def must_be_proved(evidence, points):
    """Each once, while its batch was planned and not committed; by name and point."""
    faults = {(fault.fault, fault.point): fault for fault in evidence.faults()}
    assert {name for name, fault in faults.items() if fault.done} == set(points)
    for fault in faults.values():
        assert fault.proof["planned"]
        assert not fault.proof["committed"]
        assert fault.recovery_s is not None
        assert sum(fault.proof["ends_before"].values()) <= sum(fault.proof["ends_after"].values())
    return faults


def must_be_doubled_where_it_may(evidence, faults, excused):
    """Whole batches where a driver died with rows of them written; nothing of a batch that was run but once."""
    again, batches = copies(evidence), {batch.batch: batch for batch in evidence.batches()}
    for point in ("written", "half-written"):
        if killed := faults.get(("KillDriver", point)):
            records = list(of_its_batch(evidence, killed))
            before = Counter(value for value, _, was_there in records if was_there)
            assert before.total() == sum(killed.proof["rows"].values()) > 0
            assert before <= Counter(
                value for value, _, was_there in records if not was_there
            )  # each once more
            assert again[killed.batch] >= before.total()
    assert all(batches[batch].runs > 1 or batches[batch].failed_tasks for batch in again)
    assert excused == again.total()


def must_show(result, join, sink, points):
    """That all was hit, and all is right."""
    must_be_right(join, result.verdict)
    assert result.verdict.delivery == ("exactly-once" if sink == EXACTLY_ONCE else "at-least-once")
    evidence = RunDirectory(result.run_dir)
    faults = must_be_proved(evidence, points)
    must_be_one_timeline(evidence, [fault for (name, _), fault in faults.items() if name == "KillDriver"])
    if sink == SPARK:
        must_be_doubled_where_it_may(evidence, faults, result.verdict.counts["duplicates_excused"])
        return
    assert not copies(evidence)
    for fault in faults.values():
        if fault.point in ("written", "half-written"):
            must_be_written_as_told(evidence, fault)


def asked(join, sink, points):
    """Of a run."""
    return {
        "sink": sink, "seed": 3, "impressions": max(1000, 500 * len(points)), "faults": schedule(points),
        "generator": GENERATOR.get(join, ()),
    }  # fmt: skip


@pytest.mark.parametrize(("join", "sink", "points"), both_halves(SOME, EXACTLY_ONCE))
def test_every_point_is_hit_and_every_row_is_right(join, sink, points, run_pipeline):
    must_show(run_pipeline(join, **asked(join, sink, points)), join, sink, points)


@pytest.mark.parametrize(("join", "sink", "points"), both_halves(OTHERS, SPARK, BROKERS))
def test_so_it_is_with_a_broker_that_dies_in_the_middle_of_a_batch(join, sink, points, run_on_own):
    must_show(run_on_own(join, **asked(join, sink, points)), join, sink, points)


@pytest.mark.parametrize(
    "join",
    ["full_outer", *(pytest.param(join, marks=pytest.mark.long) for join in JOINS if join != "full_outer")],
)
def test_workers_and_the_master_die_in_the_middle_of_a_batch(join, run_on_own):
    points = (("KillWorker", "planned"), ("KillMaster", "planned"))

    must_show(run_on_own(join, **asked(join, EXACTLY_ONCE, points)), join, EXACTLY_ONCE, points)
