"""Cases that become smaller by Spark's rules alone: no stack, and the evidence of real runs for what is predicted."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.campaigns.case import SHUFFLE_PARTITIONS, Case
from tidemark.campaigns.random_cases import flush_of, generate, make_contract
from tidemark.campaigns.shrink.bug_signature import OF_A_SENTINEL, BugSignature, chosen_finding, signature_of
from tidemark.campaigns.shrink.fault_passes import fault_passes, schedule_of, single_faults
from tidemark.campaigns.shrink.flaky_trials import FlakyTrials
from tidemark.campaigns.shrink.near_finding import guesses, row_of_each, seed_for
from tidemark.campaigns.shrink.plain_spark import is_seen_in_rows, plain_program, why_not_plain
from tidemark.campaigns.shrink.predicted_batches import PredictedRun, predicted_history
from tidemark.campaigns.shrink.predicted_bug import PredictedBug
from tidemark.campaigns.shrink.record_passes import variations_of
from tidemark.campaigns.shrink.red_run import read_red_run
from tidemark.campaigns.shrink.shrink_campaign import (
    ShrinkOptions,
    _by_rules_alone,
    all_passes,
    predictable_passes,
)
from tidemark.campaigns.shrink.shrinkable import Shrinkable, digest_of, size_of
from tidemark.campaigns.shrink.shrinker import Removal, Shrinker
from tidemark.campaigns.shrink.trial_journal import JournalledTrial, TrialJournal
from tidemark.campaigns.shrink.trial_runs import shows_nothing
from tidemark.errors import UsageError
from tidemark.faults.schedule import plan_faults, read_schedule
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Term
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.formats.trace import Record
from tidemark.oracle import judge
from tidemark.oracle.findings import Finding
from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.sparkfiles.checkpoint import STATE_PROVIDER

EVIDENCE = Path(__file__).parents[2] / "golden" / "evidence"
SPARK = "4.2.0"
LOST = BugSignature("lost_rows", "left-semi-loses-same-batch-rows", "left_semi", "a semi row")


def record(topic, key, second, number):
    time = f"2026-01-01T00:{second // 60:02}:{second % 60:02}.123Z"
    value = {"id": f"{topic[0]}-{key}-{second}", "k0": key, "t": time, "unread": 1}
    return Record(topic=topic, value=json.dumps(value), arrival_ms=1, slice=number)


def semi_case(rows=16):
    """A left semi join of pairs, one a minute; the pair of key z comes a batch after its time, not late."""
    pairs = [(f"k{at % 3}", 60 * at, at // 4) for at in range(1, rows)]
    pairs.append(("z", 60 * rows - 330, (rows - 1) // 4))
    contract = make_contract("semi", JoinKind.LEFT_SEMI, Bound(-1_000, 1_000))
    records = [record(topic, *pair) for pair in pairs for topic in ("lefts", "rights")]
    return Case("semi", contract, tuple(records), flush_of(contract), partitions=1)


def by_rules(case, signature=LOST, seed=0):
    rules = PredictedBug(signature, SPARK)
    trials = FlakyTrials(lambda one: rules.shows(one) is True, digest_of)
    return Shrinker(predictable_passes(), trials, size_of, seed=seed).shrink(Shrinkable(case))


def test_a_known_defect_becomes_as_small_as_it_can_be():
    found = by_rules(semi_case())

    case = found.best.case
    assert found.is_minimal
    assert len(case.records) <= 4
    assert {"id", "k0", "t", "unread"} > set(json.loads(case.records[0].value))
    assert case.contract.bound == Bound(0, 0)
    assert [json.loads(one.value)["id"] for one in case.records if one.topic == "lefts"] == ["L1", "L2"]
    assert all(json.loads(one.value)["t"].endswith(":00Z") for one in case.records), case.records


def test_settings_are_left_out_by_real_runs_alone():
    """Spark refuses some settings without others, and rules cannot say so."""
    conf = {STATE_PROVIDER: ROCKSDB}

    assert by_rules(replace(semi_case(), conf=conf)).best.case.conf == conf


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_every_pass_gives_cases_that_can_be_written_and_read(seed, tmp_path_factory):
    one = Shrinkable(generate(seed), ("driver@written",))
    for part in all_passes():
        if isinstance(part, Removal):
            units = len(part.units(one))
            found = [part.without(one, frozenset(some)) for some in (range(units), range(units // 2))]
        else:
            found = list(part.smaller(one))[:5]
        for smaller in filter(None, found):
            assert smaller.case.records
            folder = tmp_path_factory.mktemp("case")
            smaller.case.write(folder)
            assert {one.slice for one in smaller.case.records} <= set(range(smaller.case.slices))
            assert all(0 <= one.partition < smaller.case.partitions for one in smaller.case.records)


def test_a_program_keeps_its_contract():
    one = Shrinkable(replace(semi_case(), pipeline="mine.py"))

    changed = {
        smaller.case.contract.to_json() == one.case.contract.to_json()
        for part in all_passes()
        if not isinstance(part, Removal)
        for smaller in part.smaller(one)
    }

    assert changed == {True}


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("defect_left_semi_same_batch", "a semi row"),
        ("defect_null_keys", "a NULL row of the left side"),
        ("defect_condition_bound", "a NULL row of the left side"),
        ("defect_null_event_time", "a NULL row of the left side"),
        ("defect_one_sided_range", "a NULL row of the left side"),
    ],
)
def test_a_real_run_of_a_defect_is_a_case_that_shows_it(name, about):
    red = read_red_run(EVIDENCE / name)
    rules = PredictedBug(red.signature, SPARK)

    assert (red.signature.defect, red.signature.about) == (red.finding.defect, about)
    assert any(rules.leads(start) for start in red.starts)


def test_batches_are_predicted_as_a_real_backlog_planned_them():
    """The flush of a run does not begin the query anew, that of a case does: all batches but these are the same."""
    run = RunDirectory(EVIDENCE / "defect_left_semi_same_batch")
    history = predicted_history(read_red_run(run.path).starts[0].case, SPARK)

    told = [(one.plan.watermark_ms, one.plan.end_offsets) for one in history.batches]
    assert told == [(one.watermark_ms, one.end_offsets) for one in run.batches()]


def test_rules_that_planned_other_batches_are_not_asked_again():
    rules = PredictedBug(LOST, SPARK)
    case = semi_case()
    planned = list(predicted_history(case, SPARK).batches)

    rules.learn(case, [one.plan for one in planned])
    assert rules.is_trusted
    rules.learn(case, [one.plan for one in planned[:-1]])

    assert not rules.is_trusted
    assert rules.may_show(Shrinkable(replace(case, records=case.records[:1])))


def test_a_row_that_is_not_owed_cannot_be_lost():
    pair = BugSignature("lost_rows", None, "inner", "a pair")
    contract = make_contract("pairs", JoinKind.INNER, Bound(0, 0))
    records = (record("lefts", "a", 1, 0), record("rights", "a", 1, 0), record("rights", "b", 1, 0))
    case = Case("pairs", contract, records, flush_of(contract), partitions=1)
    rules = PredictedBug(pair, SPARK)

    assert rules.may_show(Shrinkable(case))
    assert not rules.may_show(Shrinkable(replace(case, records=records[1:])))


def test_the_bug_of_a_sentinel_is_not_that_of_a_row():
    """Of a condition that bounds the state the NULL rows of sentinels never come either."""
    run = RunDirectory(EVIDENCE / "defect_condition_bound")
    case, [finding, *_] = read_red_run(run.path).starts[0].case, judge(run).findings
    behind = sum(one.topic == case.topics[0] for one in case.records)
    named = msgspec.structs.replace(finding, written=[f"{case.topics[0]}/0/{behind}"])

    of_row, of_sentinel = (signature_of(one, case.contract, case.records) for one in (finding, named))

    assert of_row.about == "a NULL row of the left side"
    assert of_sentinel.about == "a NULL row of the left side, of a sentinel"


def test_rules_do_not_take_a_sentinel_for_a_row_that_shows_the_bug():
    plain = make_contract("bounded", JoinKind.LEFT_OUTER, Bound(0, 0))
    contract = replace(plain, condition=(Term(">", left="n", value=2),))
    unread = Record(topic="lefts", value='{"id": "l1"}', arrival_ms=1)
    case = Case("bounded", contract, (unread,), flush_of(contract, rounds=2), partitions=1)
    of_row = BugSignature(
        "missing_nulls", "condition-bounds-the-state", "left_outer", "a NULL row of the left side"
    )

    of_sentinel = replace(of_row, about=f"{of_row.about}{OF_A_SENTINEL}")

    assert PredictedBug(of_sentinel, SPARK).shows(Shrinkable(case))
    assert PredictedBug(of_row, SPARK).shows(Shrinkable(case)) is False


def test_the_finding_with_a_number_is_chosen_and_one_that_is_not_there_is_refused():
    run = RunDirectory(EVIDENCE / "defect_null_keys")
    verdict, case = judge(run), read_red_run(run.path).starts[0].case

    chosen = [chosen_finding(verdict, number) for number in range(1, len(verdict.findings) + 1)]
    assert chosen == verdict.findings
    assert chosen_finding(verdict, None) == verdict.findings[0]
    assert len({signature_of(one, case.contract, case.records) for one in chosen}) == 3
    with pytest.raises(UsageError, match="there is no finding 9"):
        chosen_finding(verdict, 9)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inner", "has no finding"),
        ("chain_windows_joined", "has no finding"),
        ("audit_spark_3_5", "did not start"),
    ],
)
def test_what_cannot_be_made_smaller_is_refused(name, said):
    with pytest.raises(UsageError, match=said):
        read_red_run(EVIDENCE / name)


def test_a_journal_gives_back_its_trials_and_refuses_those_of_another_search(tmp_path):
    path = tmp_path / "trials.jsonl"
    journal = TrialJournal(path, "this", resume=True)
    for red in (True, False):
        journal.add(JournalledTrial("a", red, 0.5))

    assert TrialJournal(path, "this", resume=True).outcomes == {"a": [True, False]}
    with pytest.raises(UsageError, match="another run, another finding or other code"):
        TrialJournal(path, "another", resume=True)
    assert TrialJournal(path, "another", resume=False).outcomes == {}


def test_each_field_of_each_row_is_varied():
    one = Shrinkable(semi_case(7))

    names = {name for name, _ in variations_of(one)}

    assert names == {
        f"{topic} {at}: {name}"
        for topic in ("lefts", "rights")
        for at in range(1, 8)
        for name in ("id", "k0", "t", "unread")
    }


def test_a_program_of_plain_pyspark_has_the_batches_and_the_right_rows(tmp_path):
    case = by_rules(semi_case()).best.case
    history = predicted_history(case, SPARK)
    run = PredictedRun(case, SPARK, [one.plan for one in history.batches])

    program = plain_program(case.contract, case.conf, run, 'a "title"')

    tree = ast.parse(program)
    values = {
        node.targets[0].id: ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)
    }
    assert why_not_plain(case.contract, "") == ""
    assert sum(len(left) + len(right) for start in values["STARTS"] for left, right in start) == len(
        case.records
    ) + len(case.flush)
    assert len(values["STARTS"]) == 2  # the flush begins the query anew
    assert values["EXPECTED"]
    assert "tidemark" not in program


@pytest.mark.parametrize(("name", "seen"), [("defect_left_semi_same_batch", True), ("inner", False)])
def test_a_program_is_written_only_where_other_rows_came_than_are_right(name, seen):
    run = RunDirectory(EVIDENCE / name)

    assert is_seen_in_rows(Contract.from_json(run.manifest.contract), run) is seen


def test_a_program_is_told_the_ids_of_sentinels_also_where_they_are_numbers():
    case = semi_case(4)
    numbered = [replace_id(one, 900 + at) for at, one in enumerate(case.flush)]
    case = replace(case, flush=tuple(numbered))
    history = predicted_history(case, SPARK)

    program = plain_program(
        case.contract, {}, PredictedRun(case, SPARK, [one.plan for one in history.batches]), ""
    )

    said = next(line for line in program.splitlines() if line.startswith("SENTINELS"))
    left, right = ast.literal_eval(said.removeprefix("SENTINELS = "))
    assert sorted([*left, *right]) == [str(900 + at) for at in range(len(numbered))]


def replace_id(record, identity):
    return msgspec.structs.replace(record, value=json.dumps({**json.loads(record.value), "id": identity}))


def test_faults_are_left_out_one_by_one_and_become_simple():
    """The cause is one kill of the driver, whatever its point; it was killed twice, late, among others."""
    faults = single_faults("executor:pause@planned~4*3,driver:kill-twice@no-data,broker@written*2")
    trials = FlakyTrials(lambda one: any(fault.startswith("driver") for fault in one.faults), digest_of)

    found = Shrinker(fault_passes(), trials, size_of).shrink(Shrinkable(semi_case(4), faults))

    assert found.best.faults == ("driver@written",)
    assert size_of(found.best).fault_terms == 0


def test_a_schedule_is_its_single_faults():
    text = "driver@written*2,executor:pause@planned~2.5"

    assert single_faults(text) == ("driver@written", "driver@written", "executor:pause@planned~2.5")
    assert schedule_of(single_faults(text)) == text
    assert schedule_of(()) == ""


def injected(component, point, batch):
    return Fault(
        component=component, action=FaultAction.KILL, point=point, at_utc="2026-01-01T00:00:00Z", injected=True,
        batch=batch,
    )  # fmt: skip


def latest(one):
    """The latest event time of the first slice of each topic."""
    first = [record for record in one.case.records if record.slice == 0]
    return {
        topic: max(json.loads(r.value)["t"] for r in first if r.topic == topic) for topic in one.case.topics
    }


def within(case, number):
    """The records of a slice, as the first."""
    return tuple(msgspec.structs.replace(one, slice=0) for one in case.records if one.slice == number)


def test_what_a_finding_names_is_tried_before_the_run():
    case = semi_case()
    place = len([one for one in case.records if one.topic == "lefts"]) - 1
    finding = Finding(property="lost_rows", message="", written=[f"lefts/0/{place}"], batch=3)

    tiny, late, of_keys, first, *_ = guesses(Shrinkable(case), finding, (), ())

    assert (
        len(tiny.case.records) == 4
    )  # the row, one that it has to match, and the latest rows of the slice before
    assert len(late.case.records) == 6  # also those of the slice before that, and a row that it has to match
    assert {one.slice for one in late.case.records} == {0, 1, 2}
    assert len(of_keys.case.records) == 4  # the pair, and the latest rows of the first slice
    for one in (tiny, of_keys):
        assert {one.slice for one in one.case.records} == {0, 1}
    assert latest(tiny) == latest(Shrinkable(replace(case, records=within(case, 2))))
    keys = [json.loads(one.value)["k0"] for one in first.case.records]
    assert keys.count("z") == 2
    assert len(keys) < len(case.records)
    for topic in case.topics:  # as many in each slice, so that a backlog is cut into the same batches
        counts = {
            sum(one.topic == topic and one.slice == at for one in first.case.records) for at in range(4)
        }
        assert len(counts) == 1, counts


def test_the_faults_that_hit_the_batch_of_a_finding_are_tried_alone():
    finding = Finding(property="duplicate_rows", message="", written=["lefts/0/3"], batch=2)
    journal = [
        injected(FaultComponent.DRIVER, CommitPoint.WRITTEN, 2),
        injected(FaultComponent.EXECUTOR, CommitPoint.PLANNED, 1),
    ]
    one = Shrinkable(semi_case(), ("executor@planned", "driver@written"))

    tried = list(guesses(one, finding, (), journal))

    killed, alone = ("driver@written",), [len(guess.case.records) for guess in tried]
    assert [guess.faults for guess in tried] == [killed, *[()] * 4, *[killed] * 8]
    assert [guess.case.conf.get(SHUFFLE_PARTITIONS) for guess in tried] == [
        "1",
        *[None] * 4,
        *["1"] * 3,
        *[None] * 5,
    ]
    assert alone[0] == min(alone)
    assert alone[-1] == len(one.case.records)  # the run, with this fault alone, in the batch that it hit
    [planned] = plan_faults(Random(f"faults-{tried[-1].seed}"), read_schedule(killed[0]), 4)
    assert planned.batch == 2


def test_without_a_fault_in_the_batch_of_a_finding_no_fault_is_tried_first():
    finding = Finding(property="lost_rows", message="", written=["lefts/0/3"], batch=2)
    one = Shrinkable(semi_case(), ("driver@written",))

    tried = [
        guess.faults for guess in guesses(one, finding, (), [injected("driver", CommitPoint.WRITTEN, 3)])
    ]

    assert tried == [*[()] * 4, *[("driver@written",)] * 9]


def test_a_row_of_each_other_sink_partition_of_the_batch_comes_with_the_finding():
    contract = make_contract("pairs", JoinKind.INNER, Bound(-1_000, 1_000))
    contract = replace(contract, output=Output("l", "r", ("lp", "lo"), ("rp", "ro")))
    rows = [(0, 7, 1), (1, 6, 2), (1, 7, 3), (1, 7, 4), (2, 7, None)]
    output = [
        OutputRecord(
            partition=part, offset=at, headers=[("query", "q"), ("batch", str(batch))],
            value=json.dumps({"l": f"l{at}", "lp": 0, "lo": at, "r": None, "rp": right, "ro": right}),
        )
        for at, (part, batch, right) in enumerate(rows)
    ]  # fmt: skip
    finding = Finding(property="duplicate_rows", message="", written=["lefts/0/0"], read="0/0", batch=7)
    of_tasks = [
        msgspec.structs.replace(one, headers=[*one.headers, ("partition", str(one.offset % 2))])
        for one in output
    ]

    assert row_of_each(output, contract, finding) == ["lefts/0/2", "rights/3/3", "lefts/0/4"]
    assert row_of_each(of_tasks, contract, finding) == ["lefts/0/3", "rights/4/4"]  # by task, not by topic


def test_a_fault_alone_comes_as_early_as_it_can_however_small_the_run_becomes():
    seed = seed_for("driver@written", 1)

    drawn = {
        plan_faults(Random(f"faults-{seed}"), read_schedule("driver@written"), few)[0].batch
        for few in range(2, 31)
    }
    assert drawn == {1}


AGAIN = BugSignature("duplicate_rows", None, "inner", "a pair")


def doubled_case(pairs=12, slices=3, fault="driver@written"):
    """An inner join of pairs, one a minute, in a query with one sink partition, under a fault."""
    contract = make_contract("pairs", JoinKind.INNER, Bound(-1_000, 1_000))
    each = pairs // slices
    records = [
        record(topic, f"k{at}", 60 * at, at // each) for at in range(pairs) for topic in ("lefts", "rights")
    ]
    case = Case(
        "pairs", contract, tuple(records), flush_of(contract), mode="followed", partitions=1,
        conf={SHUFFLE_PARTITIONS: "1"},
    )  # fmt: skip
    return Shrinkable(case, (fault,))


def test_rows_that_come_again_are_of_a_batch_that_a_fault_can_hit():
    rules, one = PredictedBug(AGAIN, SPARK), doubled_case()
    case = one.case
    first = replace(case, records=tuple(record for record in case.records if record.slice == 0))
    lefts = replace(case, records=tuple(record for record in case.records if record.topic == "lefts"))
    last = [record for record in case.records if record.slice == 0 or record == case.records[-1]]

    assert rules.leads(one)
    assert rules.shows(doubled_case(fault="executor@planned"))
    for nothing in (first, lefts, replace(case, records=tuple(last))):
        assert not rules.may_show(replace(one, case=nothing))
    assert not rules.may_show(doubled_case(fault="driver@no-data"))
    assert rules.may_show(replace(one, faults=()))  # nobody knows


def test_a_batch_with_fewer_rows_than_sink_partitions_is_never_at_written():
    rules, one = PredictedBug(AGAIN, SPARK), doubled_case(pairs=3)

    assert rules.may_show(one)
    assert not rules.may_show(replace(one, case=replace(one.case, conf={})))


def test_under_a_fault_the_rules_leave_a_pair_and_what_makes_a_batch_before_it():
    rules, one = PredictedBug(AGAIN, SPARK), doubled_case()
    trials = FlakyTrials(lambda one: rules.shows(one) is True, digest_of)

    found = Shrinker(all_passes(), trials, size_of).shrink(one).best

    assert found.faults == ("driver@written",)
    assert len(found.case.records) == 3
    assert found.case.slices == 2
    assert found.case.conf == {SHUFFLE_PARTITIONS: "1"}


def test_a_run_whose_fault_was_not_injected_is_neither_red_nor_green():
    done = injected(FaultComponent.DRIVER, CommitPoint.WRITTEN, 1)
    missed = msgspec.structs.replace(done, injected=False)
    known = judge(RunDirectory(EVIDENCE / "inner"))

    def told(outcome, *faults):
        return shows_nothing(msgspec.structs.replace(known, verdict=outcome), faults)

    assert told("UNKNOWN", done, missed)
    assert not told("UNKNOWN", done)  # for another reason
    assert not told("INVALID", missed)
    assert not told("VALID", done)


def test_time_that_is_over_before_the_rules_are_confirmed_leaves_the_start(tmp_path):
    start = Shrinkable(semi_case(8))
    trials = FlakyTrials(lambda _one: True, digest_of, is_over=lambda: True)

    assert _by_rules_alone(start, PredictedBug(LOST, SPARK), trials, ShrinkOptions(tmp_path)) == start
    assert trials.trials == 0
