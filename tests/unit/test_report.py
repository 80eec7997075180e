"""What a person reads of a verdict."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tidemark.campaigns.fuzz import Outcome, summary
from tidemark.formats.contract import Bound, Contract, Delivery, JoinKind, Output, Side
from tidemark.formats.evidence import Batch, OutputRecord, RunDirectory
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.run_notes import NOT_COMPARED, slice_was_split
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.compare.state_locality import Locality
from tidemark.reports import SHOWN, fuzz_report, print_verdict
from tidemark.reports.state_lines import state_lines
from tidemark.reports.timeline import timeline

CONTRACT = Contract(
    "left_outer",
    JoinKind.LEFT_OUTER,
    Side("impressions", "impression_id", ("user_id",), "impression_time", 0),
    Side("clicks", "click_id", ("user_id",), "click_time", 0),
    Bound(0, 0),
    Output("impression_id", "click_id"),
)
INPUTS = {
    topic: InputTopic(topic=topic, start_offsets={"0": 0}, end_offsets={"0": 30})
    for topic in ("impressions", "clicks")
}
COUNTS = {
    "rows_in": 200, "impressions_in": 150, "clicks_in": 50, "late": 5, "joined_rows": 40, "matched": 38,
    "null_rows": 100, "duplicates_permitted": 3, "batches": 4, "data_batches": 2, "no_data_batches": 2,
    "faults_done": 1, "failed_tasks": 2,
}  # fmt: skip


def verdict(word, findings=(), inconclusive=()):
    return Verdict(
        verdict=word, delivery="at-least-once", pipeline="left_outer", kind="left_outer",
        findings=list(findings), findings_total={"lost_rows": len(findings)} if findings else {},
        unexplained_total={}, defects_total={}, known_defects={},
        counts=COUNTS, goals={"null_row_after_eviction": True}, asked=[], inconclusive=list(inconclusive),
    )  # fmt: skip


def test_a_valid_run_shows_its_numbers_and_ends_with_its_verdict(capsys):
    fault = Fault(
        component=FaultComponent.EXECUTOR,
        action=FaultAction.KILL,
        at_utc="",
        injected=True,
        batch=3,
        point=CommitPoint.PLANNED,
        recovery_s=4.25,
    )

    print_verdict(
        verdict("VALID"), Path("runs/x"), [fault], trace_sha256="abc", command="tidemark run left_outer"
    )

    lines = capsys.readouterr().out.splitlines()
    assert "rows in        200 (150 impressions, 50 clicks)" in lines
    assert "late           5 (2.5 %), dropped by the watermark" in lines
    assert "faults         1 (1 kill executor at planned); failed tasks: 2" in lines
    assert "recovery       kill executor at planned 4.2 s" in lines
    assert lines[-2] == "VALID  left_outer, judged as at-least-once"


def test_a_watermark_that_waits_for_an_input_after_a_restart_is_explained(tmp_path, capsys):
    def batch(number, left, right, watermark_s, **fields):
        ends = {"lefts": {"0": left}, "rights": {"0": right}}
        return Batch(batch=number, watermark_ms=1000 * watermark_s, end_offsets=ends, **fields)

    run = RunDirectory(tmp_path)
    run.write_lines(
        "batches",
        [batch(0, 1, 1, 0), batch(1, 2, 1, 10, runs=2, restarted=True), batch(2, 3, 1, 10), batch(3, 4, 2, 10),
         batch(4, 4, 2, 90)],
    )  # fmt: skip

    print_verdict(verdict("VALID"), tmp_path, [])

    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("watermark")]
    assert told == [
        "watermark      stood in batch 2, 3: after a restart it waits until there are rows of rights"
    ]


@pytest.mark.parametrize(
    ("split", "told"),
    [((), None), ((3,), "note: slice 3 was split"), ((3, 7), "note: slices 3, 7 were split")],
)
def test_slices_that_were_split_are_told_in_one_line(split, told, tmp_path, capsys):
    run = RunDirectory(tmp_path)
    manifest = Manifest(
        tidemark_evidence=2, contract=CONTRACT.to_json(), delivery=Delivery.AT_LEAST_ONCE, inputs=INPUTS,
        notes=["no event log", *map(slice_was_split, split), f"{NOT_COMPARED}a filter"],
    )  # fmt: skip
    run.write_json("manifest", manifest)
    run.write_lines("batches", [])

    print_verdict(verdict("VALID"), tmp_path, [])

    notes = [line.strip() for line in capsys.readouterr().out.splitlines() if "note: " in line]
    assert notes[0] == "note: not compared with the plan: a filter"
    assert len(notes) == (1 if told is None else 2)
    assert told is None or notes[1].startswith(told)


@pytest.mark.parametrize("word", ["VALID", "INVALID", "UNKNOWN"])
def test_a_run_ends_with_the_command_that_reproduces_it(word, capsys):
    print_verdict(verdict(word), Path("runs/x"), [], command="tidemark run left_outer --seed 3")

    assert capsys.readouterr().out.splitlines()[-1] == "reproduce: tidemark run left_outer --seed 3"


def test_findings_are_named_counted_and_shown_a_few_at_a_time(capsys):
    findings = [Finding(property="lost_rows", message=f"row {number} never came") for number in range(8)]

    print_verdict(verdict("INVALID", findings, inconclusive=["a check raised"]), Path("runs/x"), [])

    said = capsys.readouterr().out
    assert "lost_rows: 8" in said
    assert f"row {SHOWN - 1} never came" in said
    assert f"row {SHOWN} never came" not in said
    assert f"… and {8 - SHOWN} more" in said
    assert "inconclusive because a check raised" in said


def test_the_picture_of_a_run_has_a_line_for_each_batch(tmp_path):
    offsets = itertools.count()

    def rows(count, batch, right):
        value, headers = f'{{"impression_id": "i", "click_id": {right}}}', [("batch", batch)]
        return [
            OutputRecord(partition=0, offset=next(offsets), value=value, headers=headers)
            for _ in range(count)
        ]

    run = RunDirectory(tmp_path)
    manifest = Manifest(
        tidemark_evidence=2, contract=CONTRACT.to_json(), delivery=Delivery.AT_LEAST_ONCE, inputs=INPUTS
    )  # fmt: skip
    run.write_json("manifest", manifest)
    ends = [{"impressions": {"0": 30}, "clicks": {"0": 10}}] * 2
    run.write_lines("batches", [Batch(batch=n, watermark_ms=n * 1000, end_offsets=ends[n]) for n in (0, 1)])
    run.write_lines("output", rows(6, "0", '"c"') + rows(12, "1", "null"))
    fault = Fault(
        component=FaultComponent.EXECUTOR,
        action=FaultAction.KILL,
        at_utc="",
        injected=True,
        batch=1,
        point=CommitPoint.NO_DATA,
        recovery_s=2.0,
    )
    run.write_lines("faults", [fault])

    head, first, second = timeline(run)

    assert head.split() == ["batch", "watermark", "read", "joined", "NULL"]
    assert first.split() == ["0", "-", "40", "6", "█" * 12]
    assert second.split() == [
        "1",
        "1970-01-01T00:00:01.000Z",
        "12",
        "░" * 24,
        "⚡",
        "kill",
        "executor",
        "(2.0",
        "s)",
    ]


def test_what_the_engine_said_of_its_state_is_a_few_lines():
    moves = [f"batch {batch}: 0 from executor 1 to 2, executor 1 was gone" for batch in range(4, 9)]
    spark_account = SparkAccount(
        format=4, provider="RocksDBStateStoreProvider", changelog=True, state_batches=[0, 3], metric_batches=4,
        rows={"stored": 1200, "removed": 7, "dropped": 5, "kept": 300},
        times_ms={"updates": (1, 2, 30)}, notes=["something was not compared"],
        locality=Locality(stayed=12, moved=5, moves=moves, restarts=["batch 3: 0 on executor 2:1"]),
    )  # fmt: skip

    assert list(state_lines(spark_account)) == [
        ("state", "format 4, RocksDBStateStoreProvider, with changelogs"),
        ("state compared", "rows after batches 0, 3; counts of 4 batches"),
        ("state rows", "1,200 stored, 7 removed, 5 dropped; at most 300 at once"),
        ("state times", "updates 1/2/30 ms (min/median/max of a batch)"),
        ("partitions", f"12 stayed, 5 moved ({'; '.join(moves[:3])}; and 2 more)"),
        ("placed anew", "after a restart of the driver (batch 3: 0 on executor 2:1)"),
        ("state note", "something was not compared"),
    ]
    assert list(state_lines(None)) == []


def test_the_document_of_many_seeds_counts_them_and_names_the_one_that_does_not_hold():
    fields = {
        "kind": "inner",
        "bound": "none",
        "mode": "backlog",
        "sink": "spark",
        "verdict": "VALID",
        "state": "HDFS, 2",
    }
    sound = [Outcome(seed=seed, seconds=2.0 + seed, **fields) for seed in (3, 4)]
    known = {"restarts": 2, "defects": {"semi_rows_lost": 7}}
    broken = Outcome(
        seed=5, problem="a row is lost", **known, **fields | {"kind": "left_semi", "verdict": "INVALID"}
    )

    def document(*seeds):
        command = "tidemark fuzz --first 3"
        versions = {"spark": "4.2.0", "kafka": "4.3.1"}
        return fuzz_report.markdown(fuzz_report.Fuzzed(seeds, summary(seeds), 90.0, versions, command))

    text = document(broken, *sound)

    assert "**2 of 3 seeds hold** (3 to 5)" in text
    assert "Made by `tidemark fuzz --first 3`" in text
    assert "all of them took\n1.5 minutes." in text
    assert "| none | 2 | 1 |" in text
    assert "- by known defect of Spark that was named: semi_rows_lost 1\n" in text
    assert "- by number of restarts: 0x 2, 2x 1\n" in text
    assert "- by store and format of the state: HDFS, 2 3\n" in text
    assert "- seed 5 (left_semi, none) is INVALID: a row is lost" in text
    assert "No false alarm" not in text
    assert "No false alarm" in document(*sound)


def test_the_page_of_many_seeds_names_those_that_do_not_hold_with_their_evidence_and_command(tmp_path):
    sort = {"kind": "inner", "bound": "none", "mode": "backlog", "sink": "spark", "state": "HDFS, 2"}
    sound = Outcome(seed=3, verdict="VALID", **sort)
    broken = Outcome(
        seed=4, verdict="INVALID", problem="a row is lost", run_dir=str(tmp_path / "seed-4"), **sort
    )
    failed = Outcome(
        seed=5, verdict="FAILED", problem="no such column", run_dir=str(tmp_path / "seed-5"), **sort
    )
    (tmp_path / "seed-4").mkdir()
    seeds = [failed, sound, broken]
    command = "tidemark fuzz --first 3 --seeds 9 --workers 2 --spark PYTHON"
    shown = fuzz_report.Fuzzed(seeds, summary(seeds), 90.0, {"spark": "4.2.0"}, command)

    facts = fuzz_report.facts(shown, tmp_path, 9)

    assert facts.said == "1 of 3 seeds hold; 6 of 9 were not run."
    assert [(one.name, one.why, one.run_dir, one.command) for one in facts.failed] == [
        ("seed 4: inner, none, INVALID", "a row is lost", "seed-4",
         "tidemark fuzz --first 4 --seeds 1 --spark PYTHON"),
        ("seed 5: inner, none, FAILED", "no such column", "",
         "tidemark fuzz --first 5 --seeds 1 --spark PYTHON"),
    ]  # fmt: skip
    assert facts.runs == ["seed-4"]
    assert ("seeds by verdict", "FAILED 1, INVALID 1, VALID 1") in facts.came
    assert facts.tables[0].rows == [["none", "3"]]
