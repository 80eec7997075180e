"""What an audit finds, counts, and leaves undetermined: each sort of row once, in runs small enough to read.

The delays are 0 s, a click matches up to 5 s after its impression. Spark's watermark of a batch is the least of the
latest times of both sides before it, as ``histories`` has it from the naive model.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.oracle.audits import AuditOf, as_exactly_once
from tests.unit.oracle.histories import LEFT_TOPIC, RIGHT_TOPIC, Run
from tidemark.oracle.audit_account import Level

LEVELS: tuple[Level, ...] = ("batches", "rows", "ids")


def sound() -> Run:
    """i1 joins c1, i2 is alone and due, i3 is alone and not due yet, c2 comes too late."""
    run = Run("left_outer").batch("i1 a 10, i2 b 11", "c1 a 12", out="i1 c1")
    run.batch("i4 d 30", "c3 d 30", out="i4 c3")
    run.batch(out="i2 -")
    return run.batch("i3 c 31", "c2 a 13")


@pytest.mark.parametrize("level", LEVELS)
def test_a_right_output_is_valid_at_each_level(level):
    verdict = AuditOf(sound(), level).verdict()

    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])
    assert verdict.audit.level == level
    assert {name: verdict.counts[name] for name in ("late", "not_due", "undetermined", "expected_rows")} == {
        "late": 1, "not_due": 1, "undetermined": 0, "expected_rows": 3,
    }  # fmt: skip


def test_the_tables_say_how_late_a_row_is_and_when_a_row_is_due():
    tables = AuditOf(sound(), "rows").audit().tables

    [late], [not_due] = tables["late"], tables["not_due"]
    assert (late.row, late.written, late.batch, late.late_by_ms) == ({"cid": "c2"}, ["clicks/0/2"], 3, 17_000)
    assert late.watermark == "1970-01-01T00:00:30.000Z"
    assert not_due.row == {"iid": "i3", "cid": None}
    assert "1970-01-01T00:00:36.001Z" in not_due.why


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("damaged", "found"),
    [
        (lambda run: run.without("i1 c1"), {"lost_rows": 1}),
        (lambda run: run.without("i2 -"), {"missing_nulls": 1}),
        (lambda run: run.out(2, "i1 -"), {"nulls_for_matched_rows": 1}),
        (lambda run: run.out(3, "i3 -"), {"premature_nulls": 1}),
        (lambda run: run.out(3, "i1 c2"), {"late_rows_joined": 1}),
        (lambda run: run.out(0, "i2 c1"), {"phantom_rows": 1}),
    ],
    ids=["lost", "missing null", "null of a matched row", "null too early", "late", "phantom"],
)
def test_each_wrong_row_is_found_by_its_name_at_each_level(damaged, found, level):
    assert AuditOf(damaged(sound()), level).findings() == found


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_comes_again_is_a_finding_of_exactly_once_only(level):
    run = sound().out(0, "i1 c1")

    assert AuditOf(as_exactly_once(run), level).findings() == {"duplicate_rows": 1}
    verdict = AuditOf(run, level).verdict()
    assert (verdict.verdict, verdict.findings_total, verdict.counts["duplicates"]) == ("UNKNOWN", {}, 1)
    assert "1 rows came again" in verdict.inconclusive[0]


def test_with_headers_a_row_again_in_another_batch_is_a_finding_of_any_delivery():
    run = sound().out(1, "i1 c1")

    assert AuditOf(run, "batches").findings() == {"duplicate_rows": 1}
    assert AuditOf(run, "rows").findings() == {}


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_comes_again_is_permitted_in_a_batch_with_which_the_query_was_started_again(level):
    run = sound().out(0, "i1 c1")

    run.plans[0] = msgspec.structs.replace(run.plans[0], restarted=True)
    verdict = AuditOf(run, level, reported=(0, 3)).verdict()
    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])
    assert verdict.counts["permitted_duplicates"] == verdict.counts["duplicates"] == 1
    assert (
        "progress reports tell of batches 0 to 3; the query was started again with 0" in verdict.audit.notes
    )
    assert AuditOf(as_exactly_once(run), level, reported=(0, 3)).findings() == {"duplicate_rows": 1}

    verdict = AuditOf(sound().out(1, "i4 c3"), level, reported=(0, 3)).verdict()
    assert (verdict.verdict, verdict.counts["permitted_duplicates"]) == ("UNKNOWN", 0)


def test_with_headers_the_batch_of_a_row_is_judged_and_without_them_it_is_a_note():
    run = sound().moved("i2 -", 1).moved("i4 c3", 2)

    assert AuditOf(run, "batches").findings() == {"premature_nulls": 1, "misplaced_rows": 1}
    verdict = AuditOf(run, "rows").verdict()
    assert verdict.verdict == "VALID"
    assert any("does not say which batch" in note for note in verdict.audit.notes)


def test_with_headers_records_of_other_queries_are_counted_and_not_judged():
    run = sound()
    run.records.append(run.record(0, "i1", "c1"))
    run.records[-1].headers[0] = ("query", "another")

    verdict = AuditOf(run, "batches").verdict()
    assert (verdict.verdict, verdict.counts["foreign_records"]) == ("VALID", 1)


def test_an_output_of_another_query_alone_is_not_compared():
    run = sound()
    for record in run.records:
        record.headers[0] = ("query", "another")

    verdict = AuditOf(run, "batches").verdict()
    assert (verdict.verdict, verdict.findings_total) == ("UNKNOWN", {})
    assert "is it the output of another checkpoint?" in verdict.inconclusive[0]


def test_an_id_that_no_record_has_is_invented():
    run = sound().out(0, "i9 c1")

    assert AuditOf(run).findings() == {"phantom_rows": 1}


def test_a_semi_row_that_comes_again_has_a_name_of_its_own():
    run = Run("left_semi").batch("i1 a 10", "c1 a 12", out="i1").batch(out="i1")

    assert AuditOf(as_exactly_once(run), "rows").findings() == {"repeated_semi_rows": 1}


def test_the_batch_that_is_not_committed_may_give_its_rows_and_owes_none():
    run = Run("left_outer").batch("i1 a 10", "c1 a 12", out="i1 c1")
    run.batch("i2 b 20", "c2 b 20", committed=False)

    assert AuditOf(run).verdict().verdict == "VALID"
    assert AuditOf(run.out(1, "i2 c2")).verdict().verdict == "VALID"


def test_rows_are_owed_up_to_the_batch_that_was_committed_when_the_end_of_the_output_was_looked_up():
    run = sound().without("i2 -")

    assert AuditOf(run, owed_to=1).findings() == {}
    assert AuditOf(run, owed_to=2).findings() == {"missing_nulls": 1}


def test_only_the_batches_that_are_asked_for_are_judged():
    run = sound().without("i1 c1").without("i4 c3")

    assert AuditOf(run, from_batch=1).findings() == {"lost_rows": 1}
    assert AuditOf(run, from_batch=2).findings() == {}
    assert AuditOf(run, to_batch=0).findings() == {"lost_rows": 1}


# A trimmed log


def trimmed() -> Run:
    """Batch 1 is the first that can be judged: i1 and i2 were read before it, i2 is behind its watermark of 10 s."""
    run = Run("left_outer").batch("i1 a 8, i2 b 11", "c1 x 10")
    run.batch("", "", watermark=10)
    run.batch("i3 c 20", "c2 a 12, c3 b 12", out="i1 c2, i2 c3")
    run.batch(watermark=12)
    return run.batch("i5 y 40", "c4 y 40", out="i5 c4").batch(out="i3 -")


def test_a_row_read_before_a_trimmed_log_may_have_been_late_so_its_rows_are_undetermined():
    verdict = AuditOf(trimmed(), "rows", first=2).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})
    assert verdict.counts["undetermined"] == 1  # i1 c2; i2 is behind the watermark, so it was not late
    assert verdict.audit.notes[0].startswith("auditable from batch 2:")
    assert any(note.startswith("1 rows are undetermined") for note in verdict.audit.notes)


def test_an_undetermined_row_that_did_not_come_is_not_missing_and_a_certain_one_is():
    assert AuditOf(trimmed().without("i1 c2"), "rows", first=2).findings() == {}
    assert AuditOf(trimmed().without("i2 c3"), "rows", first=2).findings() == {"lost_rows": 1}


def test_a_row_that_is_wrong_whether_it_was_late_or_not_is_a_finding_of_a_trimmed_log_too():
    assert AuditOf(trimmed().out(2, "i1 c3"), "rows", first=2).findings() == {"phantom_rows": 1}
    assert AuditOf(trimmed().out(5, "i2 -"), "rows", first=2).findings() == {"nulls_for_matched_rows": 1}


def test_the_null_row_of_a_row_whose_partner_may_have_been_late_is_undetermined():
    run = trimmed().without("i1 c2").out(5, "i1 -")

    verdict = AuditOf(run, "rows", first=2).verdict()
    assert (verdict.findings_total, verdict.counts["undetermined"]) == ({"nulls_for_matched_rows": 1}, 0)

    run = Run("right_outer").batch("i1 a 8", "c1 x 10").batch(watermark=10)
    run.batch("i2 y 40", "c2 a 12", out="").batch("i3 y 41", "c3 y 40").batch(out="- c2")
    verdict = AuditOf(run, "rows", first=2).verdict()
    assert "nulls_for_matched_rows" not in verdict.findings_total
    assert verdict.counts["undetermined"] == 1


# Deleted records


def test_an_id_of_a_record_that_was_deleted_is_undetermined_and_not_invented():
    verdict = AuditOf(sound(), "ids", deleted={RIGHT_TOPIC: 1}).verdict()

    assert verdict.findings_total == {}
    assert verdict.verdict == "UNKNOWN"
    assert verdict.counts["deleted_records"] == 1
    assert "deleted: offsets 0 to 0 of clicks/0" in verdict.audit.notes


def test_a_null_row_is_undetermined_if_a_record_was_deleted_that_may_be_its_partner():
    for run in (sound(), sound().without("i2 -")):
        verdict = AuditOf(run, "rows", deleted={RIGHT_TOPIC: 1}).verdict()
        assert (verdict.verdict, verdict.findings_total) == ("UNKNOWN", {})

    assert AuditOf(sound().without("i2 -"), "rows", deleted={LEFT_TOPIC: 1}).findings() == {
        "missing_nulls": 1
    }


def test_what_is_later_than_all_that_was_deleted_is_judged():
    run = Run("left_outer").batch(
        "i1 a 10, i2 b 21", "c1 a 12", out="i1 c1"
    )  # partners of i2 are 21 s or later
    run.batch("i4 d 40", "c3 d 40", out="i4 c3").batch()

    assert AuditOf(run, "rows", deleted={RIGHT_TOPIC: 1}, deleted_until_ms=21_000).findings() == {}
    verdict = AuditOf(run, "rows", deleted={RIGHT_TOPIC: 1}, deleted_until_ms=20_999).verdict()
    assert verdict.findings_total == {"missing_nulls": 1}
    assert any(note.startswith("taken as said: ") for note in verdict.audit.notes)


def test_a_row_that_comes_again_is_found_where_its_input_was_deleted():
    run = as_exactly_once(sound().out(0, "i1 c1"))

    assert AuditOf(run, "ids", deleted={RIGHT_TOPIC: 1}).findings() == {"duplicate_rows": 1}


def test_with_ids_that_were_sent_twice_and_deleted_records_a_row_again_is_undetermined():
    run = Run("inner").batch("i1 a 10", "c1 a 12, c1 a 12, c1 a 12", out="i1 c1, i1 c1, i1 c1")

    verdict = AuditOf(as_exactly_once(run), "ids", deleted={RIGHT_TOPIC: 1}).verdict()
    assert (verdict.verdict, verdict.findings_total) == ("UNKNOWN", {})


def test_what_the_deleted_part_of_the_output_may_have_had_is_not_missing():
    run = sound().without("i1 c1")
    run.records = [record for record in run.records if record.offset > 0]

    verdict = AuditOf(run, "rows", output_deleted={"0": (0, 1)}).verdict()
    assert (verdict.verdict, verdict.findings_total) == ("UNKNOWN", {})
    assert "of which records were deleted, or may have been" in verdict.inconclusive[0]
    assert AuditOf(run.without("i2 -"), "rows", output_deleted={"0": (0, 1)}).findings() == {
        "missing_nulls": 1
    }


# Watermarks


def test_a_watermark_that_only_a_restart_explains_is_no_finding():
    run = Run("left_outer", delays_s=(0, 0)).batch("i1 a 10", "c1 x 30", watermark=0)
    run.batch("i2 b 20", watermark=10).batch(watermark=10).batch("i3 c 31", "c3 y 31", watermark=10)

    verdict = AuditOf(run, "rows", next_watermark_ms=31_000).verdict()
    assert (verdict.findings_total, verdict.audit.restarts) == ({}, [1])
    assert any(note.startswith("restart inferred at batch 1: ") for note in verdict.audit.notes)


@pytest.mark.parametrize(
    ("about", "restarts"),
    [
        ({"output_table": "/out"}, [0]),
        ({"output_table": "/out", "reported": (0, 2)}, None),  # the reports have no restart
        ({}, None),  # a sink without a log runs the batch again
    ],
)
def test_a_batch_that_a_table_had_before_a_restart_need_not_move_the_watermark(about, restarts):
    run = Run("left_outer", delays_s=(0, 0)).batch("i1 a 10", "c1 a 10", out="i1 c1", watermark=0)
    run.batch("i2 b 20", "c2 y 20", watermark=0).batch("i3 c 31", "c3 y 31", watermark=20)

    verdict = AuditOf(run, "rows", **about).verdict()
    if restarts is None:
        assert verdict.findings_total == {"wrong_watermarks": 1}
    else:
        assert (verdict.findings_total, verdict.audit.restarts) == ({}, restarts)


def test_another_wrong_watermark_is_a_finding():
    run = Run("left_outer").batch("i1 a 10", "c1 x 30", watermark=0).batch("i2 b 20", watermark=12)

    verdict = AuditOf(run, "rows").verdict()
    assert verdict.findings_total == {"wrong_watermarks": 1}
    assert "no restart explains it" in verdict.findings[0].message


def test_before_a_trimmed_log_any_watermark_is_possible_that_what_is_held_can_give():
    run = Run("left_outer").batch("i1 a 10", "c1 x 30", watermark=0).batch("i2 b 20", watermark=10)
    run.batch("i3 c 21", watermark=10).batch("i4 d 22", watermark=10)

    assert AuditOf(run, "rows", first=2).findings() == {}
    run.watermarks_s[-1] = 40
    assert AuditOf(run, "rows", first=2).findings()["wrong_watermarks"] == 1


def test_no_row_judged_is_not_valid():
    verdict = AuditOf(Run("left_outer").batch("i1 a 10", "c1 x 10"), "rows").verdict()

    assert verdict.verdict == "UNKNOWN"
    assert "no row was judged" in verdict.inconclusive[0]


def test_a_batch_that_is_missing_from_the_log_ends_the_comparison():
    run = sound()
    del run.plans[1]
    del run.watermarks_s[1]

    assert AuditOf(run, "rows").findings() == {"missing_batches": 1}


def test_a_time_zone_in_which_times_would_be_read_otherwise_is_inconclusive():
    assert AuditOf(sound(), time_zone="UTC").verdict().verdict == "VALID"
    assert "time zone is Asia/Tokyo" in AuditOf(sound(), time_zone="Asia/Tokyo").verdict().inconclusive[0]


@pytest.mark.parametrize(("runs", "permitted"), [(1, 0), (2, 1)])
def test_in_a_run_a_batch_that_was_begun_once_permits_no_row_again_though_a_driver_began_with_it(
    runs, permitted
):
    run = sound().out(0, "i1 c1")
    run.plans[0] = msgspec.structs.replace(run.plans[0], restarted=True, runs=runs)
    audited = AuditOf(run, "rows", reported=(0, 3))
    audited.sink = "own"

    assert audited.verdict().counts["permitted_duplicates"] == permitted
