"""Evidence that becomes smaller by the judge alone: recorded runs and audits, and audits that are drawn at random."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.oracle.audits import AuditOf
from tests.unit.oracle.test_any_contract import drawn
from tests.unit.oracle.test_audit_of_drawn_cases import WithOutput
from tidemark.campaigns.shrink.offline.evidence_search import RedEvidence, read_red_evidence, shrink_evidence
from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence, read_evidence
from tidemark.campaigns.shrink.offline.kept_evidence import WholeEvidence
from tidemark.campaigns.shrink.offline.same_finding import SameFinding, bugs_in
from tidemark.campaigns.shrink.offline.smaller_evidence import smaller_evidence
from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.run_notes import MADE_SMALLER
from tidemark.formats.seal import is_intact
from tidemark.formats.trace import Record, TraceReader
from tidemark.oracle import judge

EVIDENCE = Path(__file__).parents[2] / "golden" / "evidence"
AUDIT = "audit_spark_3_5"
SMALL = {
    AUDIT: (2, 2, 1),
    "defect_left_semi_same_batch": (4, 1, 2),
    "mutant_inner_row_again": (2, 2, 1),
    "mutant_left_outer_row_without_input": (1, 1, 1),
    "mutant_left_outer_watermark_one_ms_higher": (2, 0, 2),
    "typed_missing_null": (4, 1, 3),
}
"""What is left at most: input rows, output rows, batches."""
WATERMARK = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def shrunk(red, folder, **options):
    return shrink_evidence(red, ShrinkOptions(folder, **options))


def texts(records):
    return [record.value for record in records]


@pytest.mark.parametrize("name", SMALL)
def test_what_is_left_of_recorded_evidence_has_the_same_finding_and_nothing_that_was_not_there(
    name, tmp_path
):
    red = read_red_evidence(EVIDENCE / name)

    found = shrunk(red, tmp_path)

    directory, whole = RunDirectory(tmp_path / "smallest"), read_evidence(RunDirectory(EVIDENCE / name))
    verdict, before, contract = judge(directory), judge(whole), red.whole.contract
    assert all(left <= most for left, most in zip(found.after, SMALL[name], strict=False))
    assert found.after <= found.before
    assert found.is_minimal
    assert verdict.verdict == "INVALID"
    assert red.same.signature in bugs_in(verdict, read_evidence(directory)) <= bugs_in(before, whole)
    assert all(count <= before.findings_total[of] for of, count in verdict.findings_total.items())
    assert is_intact(directory.path)
    assert directory.manifest.notes[0].startswith(MADE_SMALLER)
    with TraceReader(tmp_path / "trace.jsonl") as reader:
        assert texts(reader) == texts(found.held.records[: found.held.first_sentinel])
    assert Contract.from_json(json.loads((tmp_path / "contract.json").read_bytes())) == contract


def test_wrong_watermarks_stay_those_of_the_log_and_those_that_are_right(tmp_path):
    red = read_red_evidence(EVIDENCE / "mutant_left_outer_watermark_one_ms_higher")

    shrunk(red, tmp_path)

    [finding] = judge(RunDirectory(tmp_path / "smallest")).findings
    assert WATERMARK.findall(finding.message) == WATERMARK.findall(red.finding.message)


def test_the_same_arguments_leave_the_same(tmp_path):
    red = read_red_evidence(EVIDENCE / AUDIT)

    one, other = (shrunk(red, tmp_path / name, seed=3) for name in "ab")

    assert one.kept == other.kept
    digests = [[json.loads(line)["digest"] for line in (tmp_path / name / "trials.jsonl").read_bytes().splitlines()[1:]]
               for name in "ab"]  # fmt: skip
    assert digests[0] == digests[1]
    for file in ("trace.jsonl", "smallest/output.jsonl", "smallest/batches.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_an_interrupted_search_leaves_the_best_so_far_and_goes_on_with_its_trials(tmp_path):
    red, seen = read_red_evidence(EVIDENCE / AUDIT), []

    def interrupt(text):
        seen.append(text)
        if text.startswith("2 input rows"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrunk(red, tmp_path, progress=interrupt)
    left = judge(RunDirectory(tmp_path / "smallest"))
    bugs_left = bugs_in(left, read_evidence(RunDirectory(tmp_path / "smallest")))
    trials = len((tmp_path / "trials.jsonl").read_bytes().splitlines()) - 1
    found = shrunk(read_red_evidence(EVIDENCE / AUDIT), tmp_path, resume=True)
    whole = shrunk(red, tmp_path / "whole")

    assert red.same.signature in bugs_left
    assert left.counts["rows_in"] == 2
    assert found.kept == whole.kept
    assert found.trials == whole.trials - trials


def test_time_that_is_over_leaves_evidence_that_shows_it(tmp_path):
    red = read_red_evidence(EVIDENCE / AUDIT)

    found = shrunk(red, tmp_path, budget_s=0.0)

    assert not found.is_minimal
    assert red.same.signature in bugs_in(judge(found.smallest), found.held)


def test_a_row_that_is_missing_because_it_was_left_out_is_no_finding():
    red = read_red_evidence(EVIDENCE / "left_semi_backlog")
    whole = red.whole
    alone = replace(whole.all, parts=frozenset())

    assert red.same.is_shown_by(smaller_evidence(whole, alone))
    assert not red.same.is_shown_by(smaller_evidence(whole, replace(alone, output=alone.output[:-1])))


def held_audit(audit):
    """An audit in memory, with all that it has."""
    inputs = list(audit.inputs())
    records = tuple(
        Record(topic=one.topic, partition=one.partition, value=one.value, arrival_ms=0) for one in inputs
    )
    traced = sum(not one.is_sentinel for one in inputs)
    return HeldEvidence(audit.manifest, records, traced, tuple(audit.batches()), tuple(audit.output()))


@pytest.mark.not_smoke
@pytest.mark.parametrize(("seed", "first"), [(0, 0), (2_001, 0), (4_002, 2), (6_000, 1), (8_001, 0)])
def test_what_is_left_of_a_drawn_audit_is_missing_the_same_row(seed, first, tmp_path):
    run = WithOutput(drawn(seed))
    run.without = len(list(run.output())) - 1
    audit = held_audit(AuditOf(run, "rows", first=min(first, len(run.batches()) - 1)))
    verdict = judge(audit)
    if not verdict.findings:
        pytest.skip("the row is of a batch that is not judged")
    whole, finding = WholeEvidence(audit), verdict.findings[0]
    red = RedEvidence(whole, finding, SameFinding(audit, verdict, finding, whole.came))

    found = shrunk(red, tmp_path)

    left = judge(found.smallest)
    assert found.after <= found.before
    assert found.after.rows <= 8
    assert any(one.row == finding.row and one.property == finding.property for one in left.findings)
    assert bugs_in(left, found.held) <= bugs_in(verdict, audit)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inner", "has no finding"),
        ("mutant_left_outer_state_flag_flipped", "the finding is about Spark's state"),
        ("mutant_left_outer_metric_kept", "the finding is about numbers of a whole batch"),
        ("typed_demands_broken", "the finding is about time"),
        ("typed_plan_differs", "the finding is about the plan of the query"),
        ("mutant_chain_windows_joined_lost", "is the run of a chain"),
    ],
)
def test_what_the_judge_alone_cannot_make_smaller_is_refused(name, said):
    with pytest.raises(UsageError, match=said):
        read_red_evidence(EVIDENCE / name)


def test_an_audit_is_made_smaller_without_a_stack_and_says_what_is_left(tmp_path):
    result = CliRunner().invoke(app, ["shrink", str(EVIDENCE / AUDIT), "--to", str(tmp_path / "small")])

    assert result.exit_code == 0, result.output
    assert "after    2 input rows, 2 output rows, 1 batch" in result.output
    assert "no test and no repro.py" in result.output
    assert CliRunner().invoke(app, ["check", str(tmp_path / "small" / "smallest")]).exit_code == 1


def test_a_pipeline_is_run_in_the_place_of_an_audited_query_only(tmp_path):
    run = str(EVIDENCE / "mutant_inner_row_again")
    both = CliRunner().invoke(app, ["shrink", run, "--offline", "--pipeline", "inner.py"])
    of_a_run = CliRunner().invoke(app, ["shrink", run, "--pipeline", "inner.py"])

    assert both.exit_code == 2
    assert isinstance(of_a_run.exception, UsageError)
    assert "is that of a run" in str(of_a_run.exception)
