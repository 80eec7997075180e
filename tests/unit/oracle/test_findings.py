"""Evidence damaged by hand is caught, by name, and nothing else is said about it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.oracle.histories import Run
from tidemark.formats.contract import Delivery
from tidemark.oracle import Verdict
from tidemark.oracle.findings import EXAMPLES_KEPT, Finding, FindingLog


def outer() -> Run:
    """i1 joins c1; i2 gets its NULL row once the watermark passes 16 s; i9 and c9 are late."""
    run = Run("left_outer").batch("i1 a 10, i2 b 11", "c1 a 12", out="i1 c1").batch(watermark=11)
    run.batch("i3 c 20, i9 d 9", "c3 c 21, c9 d 9.5", out="i3 c3").batch(watermark=20, out="i2 -")
    return run.flush()


def inner() -> Run:
    run = Run("inner").batch("i1 a 10, i2 b 11", "c1 a 12, c2 a 13", out="i1 c1, i1 c2").batch()
    return run.batch("i3 c 20, i9 a 9", "c3 c 21", out="i3 c3").batch().flush()


def semi() -> Run:
    run = Run("left_semi").batch("i1 a 10, i2 b 11", "c1 a 12, c2 a 13", out="i1").batch()
    return run.batch("i3 c 20, i9 a 9", "c3 c 21, c4 a 14", out="i3").batch().flush()


@pytest.mark.parametrize("undamaged", [outer, inner, semi])
def test_undamaged_evidence_is_valid(undamaged: Callable[[], Run]) -> None:
    verdict = undamaged().verdict()
    assert verdict.findings == []
    assert verdict.inconclusive == []
    assert verdict.verdict == "VALID"
    assert verdict.exit_code == 0


DAMAGE: dict[str, tuple[str, Callable[[], Run]]] = {
    "a joined row removed": ("lost_rows", lambda: outer().without("i1 c1")),
    "a joined row of an inner join removed": ("lost_rows", lambda: inner().without("i1 c2")),
    "a semi row removed": ("lost_rows", lambda: semi().without("i1")),
    "a NULL row removed": ("missing_nulls", lambda: outer().without("i2 -")),
    "a joined row doubled": ("duplicate_rows", lambda: outer().out(0, "i1 c1")),
    "a joined row doubled in another batch": ("duplicate_rows", lambda: outer().out(2, "i1 c1")),
    "a NULL row doubled": ("duplicate_rows", lambda: outer().out(3, "i2 -")),
    "a NULL row doubled in a later batch": ("duplicate_rows", lambda: outer().out(5, "i2 -")),
    "a semi row repeated": ("repeated_semi_rows", lambda: semi().out(0, "i1")),
    "a semi row repeated in another batch": ("repeated_semi_rows", lambda: semi().out(2, "i1")),
    "a pair invented of rows that exist": ("phantom_rows", lambda: outer().out(2, "i2 c1")),
    "a pair invented of rows that do not exist": ("phantom_rows", lambda: outer().out(2, "i77 c77")),
    "a NULL row invented": ("phantom_rows", lambda: outer().out(2, "i77 -")),
    "a semi row invented": ("phantom_rows", lambda: semi().out(2, "i2")),
    "a NULL row in an inner join": ("phantom_rows", lambda: inner().out(5, "i2 -")),
    "a NULL row moved to before its watermark": ("premature_nulls", lambda: outer().moved("i2 -", 1)),
    "a NULL row before its watermark, and again": ("premature_nulls", lambda: outer().out(1, "i2 -")),
    "a NULL row for a matched row": ("nulls_for_matched_rows", lambda: outer().out(3, "i1 -")),
    "a late left row joined": ("late_rows_joined", lambda: outer().out(2, "i9 c9")),
    "a NULL row for a late row": ("late_rows_joined", lambda: outer().out(3, "i9 -")),
    "a late semi row": ("late_rows_joined", lambda: semi().out(2, "i9")),
    "a joined row in a later batch": ("misplaced_rows", lambda: outer().moved("i1 c1", 2)),
    "a NULL row in a later batch": ("misplaced_rows", lambda: outer().moved("i2 -", 5)),
    "a row in a batch that was never planned": ("misplaced_rows", lambda: outer().moved("i1 c1", 77)),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_caught_by_name(what: str) -> None:
    name, damaged = DAMAGE[what]
    verdict = damaged().verdict()
    assert verdict.findings_total == {name: 1}, verdict.findings
    assert verdict.verdict == "INVALID"
    assert verdict.exit_code == 1


def test_a_finding_says_what_where_and_why() -> None:
    (found,) = outer().without("i2 -").verdict().findings
    assert found.row == {"iid": "i2", "cid": None}
    assert found.written == ["impressions/0/1"]
    assert found.read is None
    assert found.batch == 3
    assert found.message == (
        "the NULL row of i2 (impressions/0/1, key b, 1970-01-01T00:00:11.000Z, read by batch 0) never came, although"
        " batch 3 (late watermark 1970-01-01T00:00:11.000Z, eviction watermark 1970-01-01T00:00:20.000Z) is"
        " committed and owes it: it has no accepted partner and it expires when the eviction watermark reaches"
        " 1970-01-01T00:00:16.001Z"
    )


def record(run: Run, **changes: object) -> Run:
    """The first output record, changed."""
    run.records[0] = msgspec.structs.replace(run.records[0], **changes)
    return run


CORRUPTION: dict[str, Callable[[Run], Run]] = {
    "no JSON": lambda run: record(run, value="{"),
    "JSON but no object": lambda run: record(run, value="[1]"),
    "no value": lambda run: record(run, value=None),
    "no headers": lambda run: record(run, headers=[]),
    "another query": lambda run: record(run, headers=[("query", "other"), ("batch", "0")]),
    "a batch that is no number": lambda run: record(run, headers=[("query", "the-query"), ("batch", "-1")]),
    "an id that is not the record's": lambda run: record(
        run, value=run.record(0, "i1", "c1", iid="i2").value
    ),
    "a right id that is not the record's": lambda run: record(
        run, value=run.record(0, "i1", "c1", cid="c3").value
    ),
    "an id without a position": lambda run: record(
        run, value=run.record(0, "i1", "c1", cp=None, co=None).value
    ),
    "no position at all": lambda run: record(run, value=run.record(0, "i1", "c1", ip=None).value),
}


@pytest.mark.parametrize("what", CORRUPTION)
def test_a_record_that_cannot_be_trusted_is_corrupt_and_its_row_is_lost(what: str) -> None:
    assert CORRUPTION[what](outer()).findings() == {"corrupt_rows": 1, "lost_rows": 1}


def test_a_missing_batch_is_one_finding_and_nothing_behind_it_is_compared() -> None:
    run = outer()
    del run.plans[2]
    del run.watermarks_s[2]
    assert run.findings() == {"missing_batches": 1}
    assert run.verdict().counts["not_compared"] == 2


def test_a_batch_planned_after_one_that_was_not_committed_is_found() -> None:
    run = outer()
    run.plans[1] = msgspec.structs.replace(run.plans[1], committed=False)
    assert "missing_batches" in run.findings()


def test_offsets_that_go_backwards_are_found() -> None:
    run = outer()
    run.plans[2] = msgspec.structs.replace(run.plans[2], end_offsets={"impressions": {"0": 1}})
    run.watermarks_s = [0, 11, 11, 20, 20, 1000]
    assert "missing_batches" in run.findings()


def test_a_wrong_watermark_is_one_finding_however_many_batches_it_is_wrong_in() -> None:
    run = outer()
    run.watermarks_s[1], run.watermarks_s[3] = 12, 19
    verdict = run.verdict()
    assert verdict.findings_total == {"wrong_watermarks": 1}
    assert "2 of 6 batches" in verdict.findings[0].message
    assert verdict.findings[0].batch == 1


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_repeat_in_a_batch_that_was_run_again_is_permitted_only_at_least_once(delivery: Delivery) -> None:
    for again in ({"runs": 2}, {"failed_tasks": 1}):
        run = outer().out(0, "i1 c1")
        run.plans[0] = msgspec.structs.replace(run.plans[0], **again)
        run.delivery = delivery
        verdict = run.verdict()
        if delivery is Delivery.AT_LEAST_ONCE:
            assert verdict.verdict == "VALID"
            assert verdict.counts["duplicates_permitted"] == 1
        else:
            assert verdict.findings_total == {"duplicate_rows": 1}


def test_a_repeat_is_not_permitted_by_another_batch_that_was_run_again() -> None:
    run = outer().out(0, "i1 c1").out(2, "i1 c1")
    run.plans[2] = msgspec.structs.replace(run.plans[2], failed_tasks=3)
    assert run.findings() == {"duplicate_rows": 2}


def test_rows_of_a_batch_that_was_never_committed_may_come_and_are_not_owed() -> None:
    for out in ("i1 c1", ""):
        run = Run().batch("i1 a 10", "c1 a 12", out=out, committed=False)
        verdict = run.verdict()
        assert verdict.findings == []
        assert verdict.verdict == "UNKNOWN"


def test_every_finding_is_counted_and_only_some_are_kept() -> None:
    run = Run().batch(
        ", ".join(f"i{n} k{n} 10" for n in range(50)), ", ".join(f"c{n} k{n} 10" for n in range(50))
    )
    verdict: Verdict = run.batch().flush().verdict()
    assert verdict.findings_total == verdict.unexplained_total == {"lost_rows": 50}
    assert len(verdict.findings) == 20


def test_findings_that_a_known_defect_explains_are_counted_apart() -> None:
    finding_log = FindingLog()
    for number in range(2 * EXAMPLES_KEPT):
        defect = "left-semi-loses-same-batch-rows" if number % 4 == 0 else None
        finding_log.add(Finding(property="lost_rows", message="", defect=defect))
    finding_log.count("phantom_rows")

    assert finding_log.totals() == {"lost_rows": 40, "phantom_rows": 1}
    assert finding_log.unexplained() == {"lost_rows": 30, "phantom_rows": 1}
    assert finding_log.defects == {"left-semi-loses-same-batch-rows": 10}
