"""Faults at every commit point, for every join and both sinks: each proved, and every row right afterwards.

A pairwise choice: of join, sink, killed component and point, each two meet in some run. Every day has runs of it in
which every component is killed and every point is hit; ``make long`` has the others, and the rest of ``WANTED`` of
every join with each sink.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest

from tests.chaos.copies import copies
from tests.e2e.conftest import shown
from tidemark.faults.schedule import FaultSpec, read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import (
    AFTER_COMMIT,
    POINTS,
    SINK_STEPS,
    CommitPoint,
    FaultAction,
    FaultComponent,
)
from tidemark.runner.run_options import SINKS

pytestmark = [pytest.mark.chaos]

COMPONENTS = (FaultComponent.DRIVER, FaultComponent.EXECUTOR, FaultComponent.BROKER)
JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
EXACTLY_ONCE, SPARK = SINKS
PAIRWISE = {
    ("inner", EXACTLY_ONCE): "driver@half-written,executor@planned",
    ("inner", SPARK): "broker@written,executor@no-data",
    ("left_outer", EXACTLY_ONCE): "driver@written,executor@half-written",
    ("left_outer", SPARK): "broker@planned,broker@no-data,executor@no-data",
    ("right_outer", EXACTLY_ONCE): "broker@no-data,executor@half-written",
    ("right_outer", SPARK): "driver@written,executor@planned",
    ("full_outer", EXACTLY_ONCE): "driver@planned,broker@written",
    ("full_outer", SPARK): "executor@half-written,executor@no-data",
    ("left_semi", EXACTLY_ONCE): "driver@no-data,broker@half-written",
    ("left_semi", SPARK): "broker@written,executor@planned",
}
"""A driver's death costs most, so each join has one, and each of its points is there."""
EVERY_DAY = [("left_outer", EXACTLY_ONCE), ("left_outer", SPARK)]
KEPT = {"recover_within_s": 3_600, "watermark_stands_at_most_s": 3_600, "state_rows_at_most": 10**9}
"""What is demanded in time of every run, and kept on any machine: that it is judged, whatever is hit."""
OF_LIVENESS = ("observed_ms", "overdue_ms", "watermark_stood_ms", "state_rows")
WANTED = (
    "driver@planned", "driver@half-written", "driver@written", "driver@no-data", "executor@half-written",
    "broker@half-written",
)  # fmt: skip
"""What every join is to have with each sink; a broker's death at another point does as well."""
DAEMONS = ("full_outer", EXACTLY_ONCE)
"""It has the death of a worker and of the master, too."""


def points_of(component):
    """Those in the pairwise choice: ``test_points_in_state``, ``_in_sink`` and ``_after_commit`` have the others."""
    others = (CommitPoint.STATE, CommitPoint.SNAPSHOT, *SINK_STEPS, *AFTER_COMMIT)
    return [point for point in POINTS[component, FaultAction.KILL] if point not in others]


def the_rest(join, sink):
    """What of ``WANTED`` a join does not have in the pairwise choice with a sink."""
    had = PAIRWISE[join, sink]
    daemons = ("worker@planned", "master@planned") if (join, sink) == DAEMONS else ()
    missing = (word for word in (*WANTED, *daemons) if word not in had)
    return ",".join(word for word in missing if not word.startswith("broker") or "broker" not in had)


def cases():
    """Those of every day, and of ``make long``; where there are containers each is for a day on one backend."""
    for (join, sink), faults in PAIRWISE.items():
        marks = pytest.mark.left_to_containers if sink == EXACTLY_ONCE else pytest.mark.long_on("compose")
        if (join, sink) not in EVERY_DAY:
            marks = pytest.mark.long
        yield pytest.param(join, sink, faults, id=f"{join}-{sink}", marks=marks)
        yield pytest.param(join, sink, the_rest(join, sink), id=f"{join}-{sink}-rest", marks=pytest.mark.long)


PROVOKED = {"left_semi": ["left-semi-loses-same-batch-rows"]}
"""The defects of Spark that a restart may bring about."""
GENERATOR = {"full_outer": ("--null-keys", "0")}
"""It takes NULL keys for equal."""


def must_be_right(join, verdict):
    """No row is wrong, but for a left semi join's known defect, and nothing is in doubt."""
    assert verdict.verdict == ("INVALID" if verdict.findings else "VALID"), shown(verdict)
    assert [str(one) for one in verdict.findings if one.defect not in PROVOKED.get(join, [])] == []
    assert verdict.inconclusive == []


def must_be_one_timeline(evidence, kills):
    """Every batch once, those that lost their driver begun anew, and reports of every run."""
    batches = evidence.batches()
    assert [batch.batch for batch in batches] == list(range(len(batches)))
    hit = {fault.batch for fault in kills}
    assert {batch.batch for batch in batches if batch.restarted} == hit
    assert {batch.batch for batch in batches if batch.runs > 1} == hit
    reports = {report["batchId"]: report["runId"] for report in evidence.progress()}
    assert len(set(reports.values())) == 1 + len(kills)
    # The report of the batch before had no time to be logged.
    assert set(range(len(batches))) - set(reports) <= {batch - 1 for batch in hit}


def of_its_batch(evidence, fault):
    """The output records of the batch that was hit: value, sink partition, and whether it was there by then."""
    ends = {int(partition): end for partition, end in fault.proof["ends"].items()}
    for record in evidence.output():
        headers = dict(record.headers)
        if headers["batch"] == str(fault.batch):
            yield record.value, headers["partition"], record.offset < ends[record.partition]


def must_be_written_as_told(evidence, fault):
    """Where the ledger had the batch when it was hit, its rows were there, all of them; elsewhere it has rows, too.

    Rows elsewhere may have been there as well, of a transaction that was open.
    """
    there = defaultdict(list)
    for _, partition, was_there in of_its_batch(evidence, fault):
        there[partition].append(was_there)
    told = {partition for partition, entry in fault.proof["ledger"].items() if entry == fault.batch + 1}
    assert all(all(there[partition]) for partition in told)
    assert any(there[partition] for partition in told)
    elsewhere = set(fault.proof["ledger"]) - told
    assert bool(elsewhere) == (fault.point is CommitPoint.HALF_WRITTEN)
    assert not elsewhere or any(there[partition] for partition in elsewhere)


def must_be_proved(evidence, asked):
    """Each once, while its batch was planned and not committed; by component, action and point."""
    faults = {(fault.component, fault.action, fault.point): fault for fault in evidence.faults()}
    assert {what for what, fault in faults.items() if fault.injected} == {
        (spec.component, spec.action, spec.point) for spec in asked
    }
    for fault in faults.values():
        assert fault.proof["planned"]
        assert not fault.proof["committed"]
        assert fault.recovery_s is not None
        assert sum(fault.proof["ends_before"].values()) <= sum(fault.proof["ends_after"].values())
    return faults


def must_be_doubled_where_it_may(evidence, faults, permitted):
    """Whole batches where a driver died with rows of them written; nothing of a batch that was run but once."""
    again, batches = copies(evidence), {batch.batch: batch for batch in evidence.batches()}
    for point in (CommitPoint.WRITTEN, CommitPoint.HALF_WRITTEN):
        if killed := faults.get((FaultComponent.DRIVER, FaultAction.KILL, point)):
            records = list(of_its_batch(evidence, killed))
            before = Counter(value for value, _, was_there in records if was_there)
            assert before.total() == sum(killed.proof["rows"].values()) > 0
            assert before <= Counter(
                value for value, _, was_there in records if not was_there
            )  # each once more
            assert again[killed.batch] >= before.total()
    # What was on the way to a broker that is killed may be sent twice.
    shaken = {fault.batch for fault in faults.values() if fault.killed(FaultComponent.BROKER)}
    assert all(batch in shaken or batches[batch].runs > 1 or batches[batch].failed_tasks for batch in again)
    assert permitted == again.total()


def must_show(result, join, sink, asked):
    """That all was hit, and all is right."""
    must_be_right(join, result.verdict)
    assert result.verdict.delivery == ("exactly-once" if sink == EXACTLY_ONCE else "at-least-once")
    evidence = RunDirectory(result.run_dir)
    faults = must_be_proved(evidence, asked)
    must_be_one_timeline(
        evidence, [fault for fault in faults.values() if fault.killed(FaultComponent.DRIVER)]
    )
    if sink == SPARK:
        must_be_doubled_where_it_may(evidence, faults, result.verdict.counts["duplicates_permitted"])
        return
    assert not copies(evidence)
    for fault in faults.values():
        if fault.point in (CommitPoint.WRITTEN, CommitPoint.HALF_WRITTEN):
            must_be_written_as_told(evidence, fault)


@pytest.mark.parametrize(("join", "sink", "faults"), [*cases()])
def test_every_point_is_hit_and_every_row_is_right(join, sink, faults, run_on_own):
    asked = read_schedule(faults)

    result = run_on_own(
        join,
        sink=sink,
        seed=3,
        impressions=500 * sum(spec.count for spec in asked),
        faults=faults,
        generator=GENERATOR.get(join, ()),
        **KEPT,
    )

    must_show(result, join, sink, asked)
    assert set(OF_LIVENESS) <= set(result.verdict.counts)


def values_of(join, sink, spec):
    """Of the factors, with their names."""
    return {("join", join), ("sink", sink), ("component", spec.component), ("point", spec.point)}


def test_each_component_is_killed_and_each_point_is_hit_every_day():
    today = [spec for case in EVERY_DAY for spec in read_schedule(PAIRWISE[case])]

    assert {spec.component for spec in today} == set(COMPONENTS)
    assert {spec.point for spec in today} == {
        point for component in COMPONENTS for point in points_of(component)
    }


def test_each_two_values_of_different_factors_meet():
    done = [
        values_of(join, sink, spec)
        for (join, sink), faults in PAIRWISE.items()
        for spec in read_schedule(faults)
    ]
    possible = (
        values_of(join, sink, FaultSpec(component, FaultAction.KILL, point))
        for join, sink, component in itertools.product(JOINS, SINKS, COMPONENTS)
        for point in points_of(component)
    )
    pairs = {pair for values in possible for pair in itertools.combinations(sorted(values), 2)}

    missing = [pair for pair in pairs if not any(set(pair) <= values for values in done)]

    assert len(pairs) == 70
    assert missing == []


def test_every_join_has_all_that_is_wanted_with_each_sink():
    for join, sink in itertools.product(JOINS, SINKS):
        specs = [*read_schedule(PAIRWISE[join, sink]), *read_schedule(the_rest(join, sink))]
        kills = {
            str(spec) for spec in specs if spec.component in (FaultComponent.DRIVER, FaultComponent.EXECUTOR)
        }
        assert kills >= set(WANTED[:-1])
        assert sum(spec.component is FaultComponent.BROKER for spec in specs) >= 1


@pytest.mark.long
def test_a_driver_is_hit_at_planned_batch_after_batch_in_a_backlog(run_on_own):
    """There the next batch is planned within milliseconds of the commit of the one before."""
    faults = "driver:pause@planned*3"

    # After a fault some batches pass until the next can be done, on a machine with other work five or more.
    slices = ("--slices", "20")
    result = run_on_own(
        "inner", sink=SPARK, seed=3, impressions=1500, pace="backlog", faults=faults, generator=slices
    )

    must_be_right("inner", result.verdict)
    evidence = RunDirectory(result.run_dir)
    must_be_proved(evidence, read_schedule(faults))
    assert [(fault.injected, fault.proof["ends"]) for fault in evidence.faults()] == [
        (True, fault.proof["ends_before"]) for fault in evidence.faults()
    ]
