"""The audit of a query that went on under another Spark: each batch has the rules and the defects of its own.

In batch 1 the right row c2 is evictable and not late: since Spark 4.2 a left semi join does not see it, and i2 is lost.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.oracle.audits import AuditOf
from tests.unit.oracle.histories import Run
from tidemark.formats.audited_query import SparkSpan
from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS
from tidemark.oracle.spark.spark_spans import sparks_of, takes_right_first

OLD, NEW = "4.1.4", "4.3.0"


def semi(in_batch_1: str = "") -> Run:
    run = Run("left_semi").batch("i1 a 10", "c1 a 10", out="i1")
    run.versions = {"spark": NEW}
    run.batch("i2 b 8", "c2 b 8", out=in_batch_1)
    return run.batch("i3 d 20, i4 e 20", "c3 d 20", out="i3")


def spans(first_of_new: int, *, again: bool = False) -> list[SparkSpan]:
    return [SparkSpan(OLD, 0, first_of_new - (not again)), SparkSpan(NEW, first_of_new, 2)]


@pytest.mark.parametrize(
    ("sparks", "defect"),
    [
        ([], LEFT_SEMI_LOSES_SAME_BATCH_ROWS),
        (spans(1), LEFT_SEMI_LOSES_SAME_BATCH_ROWS),
        (spans(1, again=True), LEFT_SEMI_LOSES_SAME_BATCH_ROWS),
        (spans(2), None),
    ],
)
def test_a_known_defect_explains_the_rows_of_batches_that_its_spark_ran(sparks, defect):
    verdict = AuditOf(semi(), "batches", sparks=sparks).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("INVALID", {"lost_rows": 1})
    assert {finding.defect for finding in verdict.findings} == {defect}


@pytest.mark.parametrize("sparks", [[], spans(1), spans(2)])
def test_a_row_that_is_right_is_right_of_any_spark(sparks):
    verdict = AuditOf(semi("i2"), "batches", sparks=sparks).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})
    said = [
        note for note in verdict.audit.notes if note.startswith("taken as said: Spark 4.1.4 batches 0 to")
    ]
    assert len(said) == bool(sparks)


def test_a_row_that_is_emitted_again_after_the_upgrade_is_a_finding():
    verdict = AuditOf(semi("i2").out(2, "i1"), "batches", sparks=spans(2)).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("INVALID", {"repeated_semi_rows": 1})


def test_rows_may_come_again_in_the_batch_with_which_the_newer_spark_began():
    run = semi("i2").out(1, "i2")
    run.plans[1] = msgspec.structs.replace(run.plans[1], restarted=True)
    verdict = AuditOf(run, "batches", sparks=spans(1, again=True)).verdict()

    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])
    assert verdict.counts["permitted_duplicates"] == verdict.counts["duplicates"] == 1


def test_a_batch_that_two_sparks_ran_is_of_both_and_follows_the_rules_of_the_second():
    manifest = AuditOf(semi(), "batches", sparks=spans(1, again=True)).manifest

    assert [sparks_of(manifest, batch) for batch in range(3)] == [[OLD], [OLD, NEW], [NEW]]
    assert sparks_of(manifest, None) == [OLD, NEW]
    assert takes_right_first(manifest) == (True, ((0, 0),))
    assert takes_right_first(AuditOf(semi(), "batches").manifest) == (True, ())
