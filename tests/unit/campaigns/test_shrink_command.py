"""``tidemark shrink`` without a stack: what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tidemark.campaigns.shrink.red_run import read_red_run
from tidemark.cli import app, shrink_commands
from tidemark.cli.shared_options import seconds_of
from tidemark.errors import EXIT_INTERRUPTED, UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

EVIDENCE = Path(__file__).parents[2] / "golden" / "evidence"


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_a_length_of_time_has_a_unit_or_is_in_seconds(text, seconds):
    assert seconds_of(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "0", "-3m", "ten", "5d"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(typer.BadParameter, match="no length of time"):
        seconds_of(text, "--budget")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(EVIDENCE / "inner")], "has no finding"),
        ([str(EVIDENCE / "defect_null_keys"), "--finding", "99"], "there is no finding 99"),
        ([str(EVIDENCE / "nowhere")], "is not a run directory"),
    ],
)
def test_a_directory_without_such_a_finding_is_refused(arguments, said):
    result = CliRunner().invoke(app, ["shrink", *arguments])

    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


def test_what_was_made_smaller_before_is_not_overwritten(tmp_path):
    (tmp_path / "trace.jsonl").write_text("")

    result = CliRunner().invoke(app, ["shrink", str(EVIDENCE / "defect_null_keys"), "--to", str(tmp_path)])

    assert isinstance(result.exception, UsageError)
    assert "is there already" in str(result.exception)


def test_a_finding_about_time_is_not_made_smaller():
    with pytest.raises(UsageError, match=r"the finding is about time: batch 1 was committed 37\.8 s after"):
        read_red_run(EVIDENCE / "typed_demands_broken")


def test_a_finding_about_the_plan_is_not_made_smaller():
    with pytest.raises(UsageError, match="the finding is about the plan of the query") as refused:
        read_red_run(EVIDENCE / "typed_plan_differs", 1)

    assert "tidemark contract" in refused.value.hint


def test_a_finding_that_runs_show_is_chosen_before_one_about_the_plan(tmp_path):
    """A query with a wrong bound has both, and the plan comes first in the verdict."""
    run = EVIDENCE / "defect_null_keys"
    for file in run.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((run / "manifest.json").read_bytes())
    manifest["plan_differs"] = ["the bound of the join: 5 s in the contract, 4 s in the plan"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    assert judge(RunDirectory(tmp_path)).findings[0].property == "plan_differs"
    assert read_red_run(tmp_path).finding == read_red_run(run).finding
    with pytest.raises(UsageError, match="5 s in the contract, 4 s in the plan"):
        read_red_run(tmp_path, 1)


@pytest.mark.parametrize("arguments", [["audit_spark_3_5"], ["mutant_sink_doubles", "--offline"]])
def test_xfail_is_refused_where_no_test_is_written(arguments, tmp_path):
    name, *options = arguments
    words = ["shrink", str(EVIDENCE / name), *options, "--xfail", "--to", str(tmp_path / "small")]

    result = CliRunner().invoke(app, words)

    assert isinstance(result.exception, UsageError)
    assert "--xfail marks a test" in str(result.exception)
    assert result.exception.hint
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), "nothing was made smaller yet"),
        (("trials.jsonl",), "nothing was made smaller yet; go on with --resume"),
        (("trials.jsonl", "trace.jsonl"), "the best so far is in {}; go on with --resume"),
    ],
)
def test_ctrl_c_says_what_is_there(there, said, tmp_path, monkeypatch):
    small = tmp_path / "small"

    def interrupted(*_arguments):
        for name in there:
            small.mkdir(exist_ok=True)
            (small / name).write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(shrink_commands, "_shrink", interrupted)

    result = CliRunner().invoke(app, ["shrink", str(EVIDENCE / "inner"), "--to", str(small)])

    assert result.exit_code == EXIT_INTERRUPTED
    assert result.stderr == f"interrupted; {said.format(small)}\n"
