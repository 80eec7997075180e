"""Recorded runs of tidemark, audited as if they were somebody else's: the same rows are found, and none that is right.

A run says more than an audit has: the batch of each output row, which batch ran again, the state and the metrics. What
remains must be judged alike.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.golden.judging import EVIDENCE, FACTS
from tests.unit.oracle.audits import AuditOf
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.formats.manifest import Manifest

pytestmark = [pytest.mark.not_smoke]

KNOWN = json.loads(FACTS.read_text(encoding="utf-8"))
OF_A_RUN_ONLY = (
    "lost_state",
    "leaked_state",
    "wrong_flags",
    "wrong_metrics",
    "plan_differs",
    "oracles_disagree",
)
"""Findings about what an audit does not have."""
OF_A_BATCH = ("premature_nulls", "misplaced_rows")
"""Findings that need the batch of a row."""
SOUND = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_outer_spark_sink")
WRONG = (
    "defect_condition_bound", "defect_left_semi_same_batch", "defect_null_keys", "defect_one_sided_equal",
    "defect_state_format_4_eviction", "faults_spark_sink_as_exactly_once", "full_outer_null_keys", "left_semi_backlog",
    "mutant_full_outer_null_row_lost", "mutant_half_bound", "mutant_left_outer_commit_missing",
    "mutant_left_outer_late_row_joined", "mutant_left_outer_null_row_early",
    "mutant_left_outer_null_row_for_a_matched_row", "mutant_left_outer_null_row_late",
    "mutant_left_outer_one_row_twice_one_lost", "mutant_left_outer_watermark_one_ms_higher",
    "mutant_left_semi_row_lost", "mutant_left_semi_row_twice", "mutant_sink_doubles", "mutant_spark_26154",
    "mutant_spark_32148",
)  # fmt: skip


def totals(name: str) -> dict[str, int]:
    """What the run was found to have, of what an audit can find."""
    return {what: count for what, count in KNOWN[name]["totals"].items() if what not in OF_A_RUN_ONLY}


@pytest.mark.parametrize("level", ["batches", "rows", "ids"])
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_is_sound_at_each_level(name, level):
    verdict = AuditOf(RunDirectory(EVIDENCE / name), level).verdict()

    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})
    assert verdict.counts["undetermined"] == 0
    assert verdict.counts["expected_rows"] > 50


@pytest.mark.parametrize("name", SOUND)
def test_no_row_of_a_sound_run_is_wrong_wherever_its_log_is_trimmed(name):
    run = RunDirectory(EVIDENCE / name)
    for first in range(1, len(run.batches()), 2):
        for level in ("batches", "ids"):
            verdict = AuditOf(run, level, first=first).verdict()
            assert verdict.findings_total == {}, (first, level, verdict.findings[0])
            assert verdict.audit.restarts == []


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("topic", ["impressions", "clicks"])
def test_no_row_of_a_sound_run_is_wrong_whatever_was_deleted(name, topic):
    run = RunDirectory(EVIDENCE / name)
    for count in (1, 20, 60):
        if run.manifest.inputs[topic].end_offsets["0"] > count:
            for first in (0, 3):
                verdict = AuditOf(run, "rows", first=first, deleted={topic: count}).verdict()
                assert verdict.findings_total == {}, (count, first, verdict.findings[0])


@pytest.mark.parametrize("name", WRONG)
def test_the_rows_of_a_wrong_run_are_found_by_the_same_names(name):
    found = AuditOf(RunDirectory(EVIDENCE / name), "batches").findings()

    assert found == totals(name)


@pytest.mark.parametrize("name", WRONG)
def test_without_batches_all_is_found_but_what_needs_the_batch(name):
    found = AuditOf(RunDirectory(EVIDENCE / name), "rows").findings()

    assert found == {what: count for what, count in totals(name).items() if what not in OF_A_BATCH}


@pytest.mark.parametrize("name", WRONG)
def test_no_row_is_found_that_is_right_wherever_the_log_of_a_wrong_run_is_trimmed(name):
    run = RunDirectory(EVIDENCE / name)
    whole = AuditOf(run, "rows").verdict()
    for first in (2, 5):
        if first < len(run.batches()):
            found = AuditOf(run, "rows", first=first).verdict()
            assert not Counter(found.findings_total) - Counter(whole.findings_total), (first, found.findings)


class WithoutNullRows(AuditOf):
    """The audit of a run whose rows without a partner never came."""

    def output(self) -> Iterator[OutputRecord]:
        return (one for one in super().output() if json.loads(one.value)["click_id"] is not None)


@pytest.mark.parametrize("level", ["batches", "ids"])
def test_the_cause_says_of_how_many_rows_none_came(level):
    run = RunDirectory(EVIDENCE / "left_outer")
    verdict = WithoutNullRows(run, level).verdict()

    [(name, many)] = verdict.findings_total.items()
    assert name == "missing_nulls"
    assert many > 10
    assert verdict.cause == f"none of {many} NULL rows that are due came"


class WithAnotherPromise(AuditOf):
    """The audit of a run by a contract with another delay than the query has."""

    @property
    def manifest(self) -> Manifest:
        manifest = super().manifest
        manifest.contract["right"]["watermark_delay_ms"] = 19_000
        return manifest


def test_the_cause_names_the_delay_that_the_query_has():
    verdict = WithAnotherPromise(RunDirectory(EVIDENCE / "left_outer"), "rows").verdict()

    assert "wrong_watermarks" in verdict.findings_total
    assert verdict.cause.startswith(
        "the watermark is that of a delay of 20000 ms on clicks, not of 19000 ms; "
    )


def test_nothing_is_said_of_the_watermarks_of_a_log_that_was_trimmed():
    verdict = WithAnotherPromise(RunDirectory(EVIDENCE / "left_outer"), "rows", first=3).verdict()

    assert not any("the watermark is that of" in one.message for one in verdict.causes)
