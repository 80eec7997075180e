"""The bundled joins on a real stack: no false positive, every coverage goal met, the known Spark defect named."""

from __future__ import annotations

import itertools

import pytest

from tests.support.bundled import case_of, make_trace
from tests.support.untimed import untimed_batches
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import trace_sha256

pytestmark = [pytest.mark.e2e]

JOINS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
DEFECT = "left-semi-loses-same-batch-rows"
NULL_KEYS = "full-outer-joins-null-keys"
SMOKE = {("right_outer", "backlog", 1), ("full_outer", "stepped", 2)}
"""The other three joins have a smoke test of their own."""
CASES = [
    pytest.param(
        *case, marks=pytest.mark.smoke if case in SMOKE else pytest.mark.long, id="-".join(map(str, case))
    )
    for case in itertools.product(JOINS, ("stepped", "backlog"), (1, 2))
]
"""A thousand seeds more: ``make fuzz``."""


def rows_of(run):
    """Each output row with its batch: what must be the same when a trace is replayed."""
    return sorted((dict(record.headers)["batch"], record.value) for record in run.output())


def drawn(join, pace, seed, folder, *, impressions=750):
    """A join over a trace of a seed; one that a run starts with its programs is in ``test_command_line.py``."""
    options = ("--seed", str(seed), "--impressions", str(impressions))
    return case_of(join, make_trace(folder / "trace.jsonl", options, pace=pace))


@pytest.mark.parametrize(("join", "pace", "seed"), CASES)
def test_a_sound_join_raises_no_alarm(join, pace, seed, warm, tmp_path):
    verdict = warm.run(drawn(join, pace, seed, tmp_path), tmp_path / "run")

    if (join, pace) == ("left_semi", "backlog"):
        assert {finding.defect for finding in verdict.findings} <= {DEFECT}
        assert set(verdict.findings_total) <= {"lost_rows"}
        assert verdict.verdict == ("INVALID" if verdict.findings else "VALID")
    elif join == "full_outer":
        assert {finding.defect for finding in verdict.findings} <= {NULL_KEYS}
        assert verdict.verdict == ("INVALID" if verdict.findings else "VALID")
    else:
        assert verdict.findings == []
        assert verdict.verdict == "VALID", verdict
    assert all(verdict.goals[goal] for goal in verdict.asked), verdict.goals


@pytest.mark.smoke
def test_left_semi_under_a_backlog_loses_rows_and_the_defect_is_named(warm, tmp_path):
    verdict = warm.run(drawn("left_semi", "backlog", 5, tmp_path), tmp_path / "run")

    assert verdict.verdict == "INVALID"
    assert verdict.findings
    assert {(finding.property, finding.defect) for finding in verdict.findings} == {("lost_rows", DEFECT)}


@pytest.mark.long  # every day: null_keys in tests/regressions/test_known_defects.py
def test_a_full_outer_join_joins_null_keys_and_the_defect_is_named(run_pipeline):
    verdict = run_pipeline("full_outer", seed=5, impressions=400, generator=("--null-keys", "0.4")).verdict

    assert verdict.verdict == "INVALID"
    assert set(verdict.findings_total) == {"missing_nulls", "phantom_rows"}
    assert {finding.defect for finding in verdict.findings} == {NULL_KEYS}


@pytest.mark.smoke
def test_replaying_a_stepped_run_gives_the_same_batches_and_rows(warm, tmp_path):
    first, again = RunDirectory(tmp_path / "first"), RunDirectory(tmp_path / "again")
    verdicts = [
        warm.run(drawn("left_outer", "stepped", 4, tmp_path, impressions=400), first.path),
        warm.run(case_of("left_outer", first.path / "trace.jsonl"), again.path),
    ]

    assert [verdict.verdict for verdict in verdicts] == ["VALID", "VALID"]
    assert trace_sha256(first.path / "trace.jsonl") == trace_sha256(again.path / "trace.jsonl")
    assert untimed_batches(first) == untimed_batches(again)
    assert rows_of(first) == rows_of(again)


def test_a_timed_run_is_judged_by_the_batches_that_the_checkpoint_names(run_pipeline):
    verdict = run_pipeline("left_outer", pace="timed", speed=30.0, seed=6, impressions=400).verdict

    assert verdict.verdict != "INVALID", verdict.findings
    assert verdict.goals["flushed"]
