"""What ``tidemark soak`` says, writes and leaves with; the soak itself is tests/chaos/test_soak.py's."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from typer.testing import CliRunner

from tests.unit.reports.test_run_index import IndexParts
from tests.unit.test_soak import fault, ran
from tidemark.campaigns import soak as soaking
from tidemark.campaigns.campaign import JournalEntry
from tidemark.campaigns.soak import Soak, run_options
from tidemark.cli import app
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import IN_ROLE, POINTS, FaultComponent
from tidemark.stack import StackSpec

DRAWN = sum(
    len(points)
    for (component, _), points in POINTS.items()
    if component not in (*IN_ROLE, FaultComponent.REGISTRY)
)
"""Sorts of faults on a stack of one broker whose queries read no schema registry."""


@pytest.fixture
def soaked(monkeypatch, tmp_path):
    """A function: runs the command on runs that are done, and returns its result."""
    at = ("--folder", str(tmp_path / "soak"))

    def go(*words, runs, over=True, folder=at):
        def soak(options, _stack, say):
            go.options = options
            done = Soak(options, seconds=90.0, over=over)
            for one in runs:
                done.runs.append(one)
                say(done, one)
            return done

        monkeypatch.setattr(soaking, "soak", soak)
        monkeypatch.setattr(
            "tidemark.stack.lease",
            lambda _: nullcontext(SimpleNamespace(versions={"spark": "4"}, spec=StackSpec())),
        )
        return CliRunner().invoke(app, ["soak", *folder, *words])

    return go


GOLDEN = Path(__file__).parents[1] / "golden" / "evidence"


@pytest.fixture
def recorded(soaked, tmp_path):
    """A function: the same on runs with evidence in the folder, and what the page says then."""

    def go(*words, runs, over=True):
        names = ("faults_spark_sink", "faults_spark_sink_as_exactly_once")
        found = []
        for one, name in zip(runs, names, strict=False):
            path = tmp_path / "soak" / f"run-{one.number}"
            shutil.copytree(GOLDEN / name, path)
            found.append(msgspec.structs.replace(one, run_dir=str(path), faults=RunDirectory(path).faults()))
        result = soaked(*words, "--shrink", "0", runs=[*found, *runs[len(found) :]], over=over)
        return result, " ".join(IndexParts((tmp_path / "soak" / "index.html").read_bytes()).text.split())

    return go


HELD = ran(0, [fault(), fault("broker@planned", recovery_s=8.0)])
FOUND = ran(1, [fault()], "INVALID", findings={"duplicate_rows": 2})
MISSED = ran(1, [fault(injected=False, recovery_s=None)], "UNKNOWN")


def test_each_run_has_a_line_and_what_all_add_up_to_so_far(soaked):
    result = soaked(runs=[HELD, FOUND])

    said = result.stderr.splitlines()
    assert said[0].startswith("run   0  inner        spark         VALID  2 of 2 faults, 100 rows")
    assert said[1] == "1.5 of 30 minutes: 2 faults, 0 not injected, 150 rows judged, nothing found"
    assert said[3] == "1.5 of 30 minutes: 3 faults, 0 not injected, 300 rows judged, duplicate_rows 2"
    assert "evidence: run-1; reproduce: tidemark run inner" in result.stdout


@pytest.mark.parametrize(
    ("runs", "over", "code"),
    [
        ([HELD], True, 0),
        ([HELD, FOUND], True, 1),
        ([HELD, MISSED], True, 3),
        ([HELD], False, 130),
        ([FOUND], False, 1),
    ],
)
def test_its_exit_code(soaked, runs, over, code):
    assert soaked(runs=runs, over=over).exit_code == code


def test_json_has_what_was_done_where_and_how_long_it_took_to_recover(soaked):
    said = json.loads(soaked("--json", runs=[HELD, MISSED]).stdout)

    assert said["coverage"] == [
        {"fault": "kill broker", "point": "planned", "join": "inner", "done": 1, "missed": 0},
        {"fault": "kill driver", "point": "written", "join": "inner", "done": 1, "missed": 1},
    ]
    assert said["recovery"]["driver"] == {"faults": 1, "least": 4.0, "median": 4.0, "worst": 4.0}
    assert [one["verdict"] for one in said["runs"]] == ["VALID", "UNKNOWN"]
    assert said["missed"] == 1


def test_a_document_is_written_of_a_soak_that_lasted_its_time_only(soaked, tmp_path):
    document = tmp_path / "SOAK.md"

    interrupted = soaked("--markdown", str(document), runs=[HELD], over=False)
    assert "is left as it was: the time was not over" in interrupted.stderr
    assert not document.exists()

    assert soaked("--markdown", str(document), runs=[HELD]).exit_code == 0
    assert "**it holds**" in document.read_text()


def test_each_run_demands_in_time_what_the_command_says(soaked):
    words = {
        "--recover-within": "20s",
        "--progress-during-faults": "1",
        "--watermark-stands-at-most": "60s",
        "--state-rows-at-most": "100000",
    }
    assert soaked(*(word for pair in words.items() for word in pair), runs=[HELD]).exit_code == 0

    run = run_options(soaked.options, 0)
    assert (run.recover_within_s, run.progress_during_faults) == (20, "1")
    assert (run.watermark_stands_at_most_s, run.state_rows_at_most) == (60, 100_000)
    assert run_options(replace(soaked.options, in_time={}), 0).recover_within_s is None


def test_a_sink_that_is_none_is_refused_before_anything_begins(soaked):
    result = soaked("--sink", "best-effort", runs=[])

    assert result.exit_code == 2
    assert "'best-effort' is not one of exactly-once, spark" in result.stderr.replace("\n", " ").replace(
        "│ ", ""
    )


def test_its_page_says_what_was_asked_what_came_each_recovery_and_what_failed(recorded, tmp_path):
    failed = ran(2, [fault(injected=False, recovery_s=None)], "FAILED", problem="the broker is gone")
    result, page = recorded("--minutes", "1", "--sink", "spark", runs=[HELD, FOUND, failed])

    assert f"report: {tmp_path / 'soak' / 'index.html'}" in result.stderr
    assert "soak of seed 1: 2 runs" in page
    assert "tidemark soak --minutes 1 --seed 1 --impressions 20000 --faults 12 --sink spark" in page
    assert "Something was found in 1 of 3 runs: duplicate_rows 2." in page
    assert "run 2: inner, spark, FAILED the broker is gone tidemark run inner" in page
    assert "inner spark 3 VALID 1, INVALID 1, FAILED 1" in page  # joins and sinks
    assert "kill driver written 2 0" in page  # of the evidence, with least, median, p95 and most
    assert "p95" in page
    assert f"never drawn, of {DRAWN}" in page
    assert "not complete" not in page
    links = IndexParts((tmp_path / "soak" / "index.html").read_bytes()).links
    assert {"run-0/report.html", "run-1/report.html"} <= {*links}


def test_the_page_of_an_interrupted_soak_says_how_it_goes_on(recorded, tmp_path):
    _, page = recorded("--log", "soak.jsonl", runs=[HELD], over=False)

    assert "So far: It holds: nothing was found" in page
    assert "--faults 12 --shrink 0 --log soak.jsonl --resume" in page


def test_a_soak_that_goes_on_does_so_in_the_folder_of_its_journal(soaked, tmp_path):
    first = tmp_path / "first"
    outcome = msgspec.Raw(msgspec.json.encode(ran(0, [fault()], run_dir=str(first / "run-0"))))
    entry = JournalEntry(campaign="soak", key="0", code_sha256="", elapsed_s=1.0, outcome=outcome)
    (tmp_path / "log.jsonl").write_bytes(msgspec.json.encode(entry) + b"\n")

    result = soaked("--log", str(tmp_path / "log.jsonl"), "--resume", runs=[HELD], folder=())

    assert f"report: {first / 'index.html'}" in result.stderr
