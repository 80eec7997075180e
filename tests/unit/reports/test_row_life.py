"""The life of a row, of recorded evidence: what was expected of it and what was observed, and why it has no partner."""

from __future__ import annotations

import shutil

import msgspec
import numpy as np
import pytest

from tests.unit.oracle.audits import AuditOf
from tests.unit.oracle.test_audit_judgement import trimmed
from tests.unit.reports.small_run import small_run, small_verdict
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_run
from tidemark.oracle import judge
from tidemark.oracle.audit.audited_history import read_audited
from tidemark.oracle.audit.certainty import expect
from tidemark.oracle.input.history import Disposition
from tidemark.oracle.spark.time_ranges import NULL_TIME_US
from tidemark.reports import followed_rows, large_rows
from tidemark.reports.followed_rows import follow_rows
from tidemark.reports.publishing_times import Published
from tidemark.reports.replayed_rows import ReplayedRows
from tidemark.reports.row_accounts import account_of_audit
from tidemark.reports.row_life import RowLife, RowLives, of_findings


@pytest.fixture
def followed(golden):
    """A function that follows the rows of recorded evidence."""
    return lambda name: follow_rows(RunDirectory(golden / name), judge(RunDirectory(golden / name)))


def first(lives: RowLives) -> tuple[str, str, list[RowLife]]:
    """What was expected and observed of the first finding, and its rows."""
    finding = lives.findings[0]
    return finding.expected, finding.observed, [lives.rows[row] for row in finding.rows]


def steps(life: RowLife) -> dict[str, tuple[str, str, bool]]:
    return {step.what: (step.expected, step.observed, step.wrong) for step in life.steps}


def test_a_semi_row_that_a_known_defect_loses_did_not_meet_its_partner_in_the_state(followed):
    expected, observed, [row] = first(followed("defect_left_semi_same_batch"))

    assert (expected, observed) == (
        "once; the known defect left-semi-loses-same-batch-rows takes it",
        "never came",
    )
    assert (row.name, row.became, row.batch, row.stored, row.removed) == ("L50", "accepted", 1, 1, 1)
    [partner] = row.candidates
    assert (partner.name, partner.matches) == ("R50", False)
    assert partner.why == (
        "matches, but it was not in the state: rights/0/1 is at or before the right state watermark"
        " 2026-01-01T00:01:38.999Z of its batch, and was not stored"
    )
    assert [(one.name, one.due, one.wrong) for one in row.made] == [("the semi row", 1, True)]


def test_a_null_row_that_came_twice_has_both_records_and_a_partner_that_is_1_ms_too_late(followed):
    lives = followed("mutant_right_outer_null_row_twice")
    expected, observed, [row] = first(lives)

    assert expected == "once, in batch 9"
    assert observed == (
        "came in batch 9 (output 0/108, task 1, attempt 0), again in batch 9 (output 0/115, task 1, attempt 0)"
    )
    assert steps(row)["the NULL row"] == (expected, observed, True)
    assert steps(row)["stored"] == (
        "stored by batch 6",
        "in Spark's state after batch 6, not after 0, 3, 9",
        False,
    )
    [partner] = row.candidates
    assert (partner.outside_us, partner.why) == (
        1000,
        "1 ms too late: the distance is 20.001 s, the bound 0.000 s <= left - right <= 20.000 s",
    )
    assert lives.rows[partner.row].time_us == row.latest_us + 1000
    back = lives.rows[partner.row].candidates[0]
    assert (back.name, back.outside_us, back.why.split(":")[0]) == (row.name, -1000, "1 ms too early")


def test_a_late_row_was_compared_with_the_late_watermark_of_its_batch(followed):
    expected, observed, [row, late] = first(followed("mutant_left_outer_late_row_joined"))

    assert (expected, observed) == ("no such row", "came in batch 4 (output 0/110, task 1, attempt 0)")
    assert steps(row)["the NULL row"][2] is False
    assert (late.became, late.stored, late.late_ms * 1000 - late.time_us) == ("late", None, 22_992_000)
    assert steps(late)["compared"] == (
        "late, and dropped: 22.992 s before the late watermark 2026-01-01T00:00:39.024Z",
        "late watermark 2026-01-01T00:00:39.024Z in the checkpoint",
        False,
    )
    assert [one.why.split(":")[0] for one in row.candidates] == ["it was late"]
    assert [one.why for one in late.candidates] == [
        "matches by key and time, but the row itself takes no part in the join"
    ]


def test_a_pair_that_never_came_matches_and_its_null_row_is_wrong_too(followed):
    expected, observed, [left, right] = first(followed("mutant_half_bound"))

    assert (expected, observed) == ("once, in batch 0", "never came")
    assert left.candidates[0].why == "matches: the row of both is due in batch 0"
    assert steps(left)["the NULL row"] == (
        "no such row",
        "came in batch 3 (output 1/36, task 0, attempt 0)",
        True,
    )
    assert steps(left)["stored"][2] is True  # lost_state names it
    assert [(one.due, one.came, one.wrong) for one in right.made if one.wrong] == [(0, [], True)]


def test_a_row_was_published_when_its_trace_says_so(followed):
    _, _, [row] = first(followed("mutant_right_outer_null_row_twice"))
    assert steps(row)["published"][1] == (
        "impressions/1/83, event time 2026-01-01T00:01:35.761Z, Kafka's timestamp 2026-01-01T00:01:35.762Z"
        " (1 ms after it), slice 4 of 4"
    )

    _, _, [order, _] = first(followed("audit_spark_3_5"))  # by the wall clock, far from any event time
    assert steps(order)["published"][1] == (
        "orders/1/21, event time 2026-01-01T00:00:27.310Z, Kafka's timestamp 2026-11-26T00:23:19.289Z"
    )


def test_a_timestamp_is_said_with_its_distance_and_a_record_without_one_has_none():
    assert Published(1_767_225_600_500, 1, 3).text(1_767_225_600_000_000) == (
        ", Kafka's timestamp 2026-01-01T00:00:00.500Z (500 ms after it), slice 2 of 3"
    )
    assert Published(1_767_225_600_000, 0, 1).text(1_767_225_601_000_000).endswith("Z (1 s before it)")
    assert (
        Published(1_767_225_600_000, 0, 1).text(NULL_TIME_US)
        == ", Kafka's timestamp 2026-01-01T00:00:00.000Z"
    )
    assert Published(0, 0, 1).text(0) == ""


def test_rows_of_a_batch_that_ran_again_say_so(followed):
    expected, _, [left, _] = first(followed("faults_spark_sink_as_exactly_once"))

    assert expected == "once, in batch 10"
    assert steps(left)["read"][1] == "by batch 10, which ran 2 times"
    assert [(one.place, one.batch) for one in left.made[0].came] == [("0/95", 10), ("0/103", 10)]


def test_a_row_that_spark_lost_from_its_state_is_marked_there(followed):
    lives = followed("mutant_left_outer_state_row_lost")

    [row] = [lives.rows[row] for row in lives.findings[0].rows]
    assert steps(row)["stored"] == (
        "stored by batch 6",
        "not in Spark's state after batches 0, 3, 6, 9",
        True,
    )


def test_only_rows_of_findings_and_some_more_are_followed_and_the_notes_say_so(golden, monkeypatch):
    monkeypatch.setattr(followed_rows, "MOST_ROWS", 10)
    run = RunDirectory(golden / "mutant_right_outer_null_row_twice")

    lives = follow_rows(run, judge(run))

    assert [row.name for row in lives.rows[:2]] == ["i-0000193", "c-0000109"]
    assert len(lives.rows) <= 12
    assert f"{len(lives.rows)} of 324 rows can be looked for" in lives.notes[0]
    less = of_findings(lives)
    assert [row.name for row in less.rows] == ["i-0000193", "c-0000109"]
    assert less.rows[less.findings[0].rows[0]].candidates[0].row == 1


def test_a_key_of_very_many_rows_is_not_followed_and_a_note_says_so(golden, monkeypatch):
    monkeypatch.setattr(followed_rows, "MOST_PAIRS", 0)
    run = RunDirectory(golden / "mutant_right_outer_null_row_twice")

    lives = follow_rows(run, judge(run))

    assert lives.findings == []
    assert lives.notes[0] == "1 keys of findings have too many rows to be followed"
    assert {row.key for row in lives.rows}.isdisjoint({"edge-46, ad-326"})
    assert "unread" not in {row.became for row in lives.rows}


def test_the_rows_of_an_audit_are_followed_by_the_watermarks_of_its_log(followed, golden):
    lives = followed("audit_spark_3_5")

    expected, observed, [order, _] = first(lives)
    assert (expected, observed) == (
        "once, in batch 4",
        "came as output 0/30, which names no batch, again as output 0/44, which names no batch",
    )
    assert steps(order)["compared"] == (
        "accepted: 17.532 s after the late watermark 2026-01-01T00:00:09.778Z",
        "late watermark 2026-01-01T00:00:09.778Z in the checkpoint",
        False,
    )
    assert steps(order)["stored"] == ("stored by batch 4", "", False)
    assert steps(order)["the row with p25"] == (expected, observed, True)
    assert order.made == []  # a row that came without naming a batch is not drawn, nor as missing
    late = judge(RunDirectory(golden / "audit_spark_3_5")).counts["late"]
    assert sum(life.became == "late" for life in lives.rows) == late == 19


@pytest.mark.parametrize("level", ["batches", "rows", "ids"])
@pytest.mark.parametrize(
    ("name", "began"), [("left_outer", 0), ("full_outer", 3), ("left_semi", 2), ("mutant_half_bound", 0)]
)
def test_of_an_audit_is_expected_what_its_judge_expects(golden, name, began, level):
    run = AuditOf(RunDirectory(golden / name), level, first=began)
    expected = expect(read_audited(run))
    account = account_of_audit(run)

    replayed = ReplayedRows(account, set(account.history.rows.key), ())

    assert replayed.prediction.batch_of == expected.due
    assert set(
        np.flatnonzero(np.frombuffer(replayed.prediction.disposition, np.uint8) == Disposition.LATE)
    ) == set(np.flatnonzero(expected.disposition == Disposition.LATE))
    assert follow_rows(run, run.verdict()).rows


def test_what_an_audit_cannot_know_of_a_trimmed_log_is_said():
    run = AuditOf(trimmed().out(2, "i1 c3"), "rows", first=2)

    lives = follow_rows(run, run.verdict())

    expected, observed, [unsure, read_before_the_end] = first(lives)
    assert (expected, observed) == ("no such row", "came as output 0/4, which names no batch")
    assert (unsure.name, steps(unsure)["read"][1]) == ("i1", "by batch 1 or before")
    assert steps(unsure)["compared"][0] == (
        "not known, and shown as accepted: the log was trimmed, and the row may have been late"
    )
    assert steps(unsure)["the row with c2"][0] == (
        "undetermined: a record that was read before the log begins may have been late"
    )
    assert steps(unsure)["stored"][0] == "stored by batch 1 or before"
    assert "read before batch 2" in lives.findings[0].name
    assert "read by batch 2" in lives.findings[0].name
    assert read_before_the_end.batch == 2


def test_of_an_audit_with_deleted_records_a_note_says_that_partners_may_be_missing():
    run = AuditOf(trimmed(), "rows", deleted={"clicks": 1})

    assert follow_rows(run, run.verdict()).notes[1].startswith("1 records were deleted from the topics")


def test_of_a_chain_the_records_of_a_finding_are_followed_to_the_batch_that_read_them(followed):
    lives = followed("mutant_chain_windows_joined_lost")

    expected, observed, rows = first(lives)
    assert (expected, observed) == ("once, in batch 3", "never came")
    assert [(row.place, row.batch) for row in rows] == [("impressions/0/5", 0), ("clicks/0/0", 0)]
    assert steps(rows[0])["its row"] == (expected, observed, True)
    assert steps(rows[0])["watermarks"][1] == (
        "late watermark none yet, eviction watermark none yet in the checkpoint"
    )


LARGE = "records: the life of a row is"


@pytest.fixture
def as_large(golden, tmp_path, monkeypatch):
    """A function that follows the rows of a sealed copy as those of a large run, and as those of a small one."""

    def follow(name: str, storage: str = "jsonl") -> tuple[RowLives, RowLives]:
        shutil.copytree(golden / name, tmp_path / name)
        run = RunDirectory(tmp_path / name)
        seal(run.path)
        if storage == "parquet":
            store_run(run.path, storage)
        verdict = judge(run)
        small = follow_rows(run, verdict)
        monkeypatch.setattr(followed_rows, "MOST_RECORDS", 5)
        return follow_rows(run, verdict), of_findings(small)

    return follow


@pytest.mark.parametrize(
    "name",
    [
        "mutant_left_outer_late_row_joined",
        "mutant_right_outer_null_row_twice",
        "mutant_left_semi_row_twice",
        "mutant_left_outer_state_row_lost",
        "mutant_refs_missing",
        "faults_spark_sink_as_exactly_once",
        "defect_left_semi_same_batch",
    ],
)
@pytest.mark.parametrize("storage", ["jsonl", "parquet"])
def test_of_a_large_run_the_rows_of_findings_have_the_lives_of_a_small_one(as_large, name, storage):
    large, small = as_large(name, storage)

    assert large.findings
    assert [named(one) for one in large.findings] == [named(one) for one in small.findings]
    lives = {life.place: life for life in large.rows}
    for life in small.rows:
        assert lives[life.place].steps == life.steps
        assert [(one.name, one.why) for one in lives[life.place].candidates] == [
            (one.name, one.why) for one in life.candidates
        ]
    assert f"{len(large.rows)} of {small.of_rows:,} rows can be looked for" not in large.notes
    assert large.notes[-1].startswith(f"{len(large.rows)} of ")


def named(finding):
    return finding.finding, finding.name, finding.expected, finding.observed


def test_of_a_large_run_a_key_is_followed_as_a_whole_or_not_at_all(as_large, monkeypatch):
    monkeypatch.setattr(large_rows, "MOST_ROWS", 10)
    large, small = as_large("mutant_half_bound")

    followed = {named(one) for one in large.findings}
    assert 0 < len(followed) < len(small.findings)
    assert followed < {named(one) for one in small.findings}
    lives = {life.place: sorted(map(repr, life.steps)) for life in small.rows}
    for row in {row for one in large.findings for row in one.rows}:
        assert sorted(map(repr, large.rows[row].steps)) == lives[large.rows[row].place]
    assert large.notes[0].endswith("keys of findings have too many rows to be followed")


def test_a_large_run_that_cannot_be_followed_says_why(as_large, golden, monkeypatch):
    large, _ = as_large("mutant_shorter_delay")
    assert large.notes == [
        f"182 {LARGE} not shown, because the watermarks are wrong: run it with fewer records"
    ]

    run = RunDirectory(golden / "mutant_half_bound")
    assert follow_rows(run, judge(run)).notes == [
        f"182 {LARGE} shown of sealed evidence with plain JSON records"
    ]
    monkeypatch.setattr(large_rows, "LARGEST_RECORDS", 6)
    assert follow_rows(run, judge(run)).notes == [f"182 {LARGE} shown of up to 6 records"]
    run = RunDirectory(golden / "left_outer")
    assert follow_rows(run, judge(run)).notes == [
        f"326 {LARGE} shown where a finding names the row; there is none"
    ]
    run = RunDirectory(golden / "audit_spark_3_5")
    assert follow_rows(run, judge(run)).notes == [f"209 {LARGE[:-3]} of an audit is not shown"]


def test_typed_evidence_is_followed_whose_findings_name_other_rows(tmp_path):
    verdict = small_verdict()
    odd = [
        msgspec.structs.replace(verdict.findings[0], written=[place])
        for place in ("x", "leftsx/0/9", "leftsx/x/1", "//")
    ]

    lives = follow_rows(
        small_run(tmp_path), msgspec.structs.replace(verdict, findings=[*odd, *verdict.findings])
    )

    assert [one.finding for one in lives.findings] == [4, 5, 6]
    assert lives.rows[0].name == "l2"
    assert msgspec.json.decode(msgspec.json.encode(lives), type=RowLives) == lives


@pytest.mark.parametrize("name", ["left_outer_faults", "full_outer_spark", "left_semi"])
def test_of_a_valid_run_each_row_out_came_where_it_was_expected(golden, name):
    run = RunDirectory(golden.parents[1] / "evidence" / "runs" / name)

    lives = follow_rows(run, judge(run))

    made = [one for row in lives.rows for one in row.made]
    assert len(made) > 50
    assert [one for one in made if [came.batch for came in one.came] != [one.due]] == []
    assert not any(step.wrong for row in lives.rows for step in row.steps)
