"""``tidemark shrink`` without a stack: what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tidemark.campaigns.shrink.red_run import read_red_run
from tidemark.cli import app
from tidemark.cli.shared_options import seconds_of
from tidemark.errors import UsageError

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
