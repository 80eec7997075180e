"""``tidemark report``, ``tidemark check --report`` and ``tidemark.report``."""

from __future__ import annotations

import base64
import os
import re
import shutil
import zlib
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import tidemark
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import is_intact, seal
from tidemark.redaction import Redactor
from tidemark.runner.one_run import seal_and_judge


@pytest.fixture
def copy(golden, tmp_path):
    """A function that copies recorded evidence."""
    return lambda name: Path(shutil.copytree(golden / name, tmp_path / name))


def command(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_report_writes_a_page_into_the_directory_and_nothing_else(copy):
    run = copy("typed_missing_null")
    before = {path.name for path in run.iterdir()}

    done = command("report", run)

    assert (done.exit_code, done.stdout) == (0, f"{run / 'report.html'}\n")
    assert {path.name for path in run.iterdir()} == before | {"report.html"}
    assert "INVALID" in (run / "report.html").read_text()


def test_a_page_goes_where_it_is_asked_to_go(copy, tmp_path):
    run, page = copy("typed_valid"), tmp_path / "page.html"

    assert command("report", run, "--to", page).exit_code == 0

    assert "VALID" in page.read_text()
    assert not (run / "report.html").exists()
    with pytest.raises(UsageError, match=r"page\.html' cannot be written"):
        tidemark.report(run, to=tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize("name", ["faults_spark_sink_as_exactly_once", "audit_spark_3_5", "left_semi_readme"])
def test_evidence_that_was_moved_has_the_same_page_byte_for_byte(copy, tmp_path, monkeypatch, name):
    run = copy(name)
    seal(run)
    tidemark.check(run)
    here = tidemark.report(run).read_bytes()
    elsewhere = tmp_path / "another machine" / "7"
    elsewhere.parent.mkdir()

    run.rename(elsewhere)
    monkeypatch.chdir(elsewhere.parent)

    assert tidemark.report("7").read_bytes() == here
    assert str(tmp_path).encode() not in here  # it does not say where the evidence was


def test_evidence_that_cannot_be_read_has_no_page(copy):
    with pytest.raises(UsageError, match=r"output\.jsonl' cannot be read"):
        tidemark.report(copy("unreadable_no_output"))


def test_check_makes_a_page_if_it_is_asked_to_and_then_keeps_it_true(copy):
    run = copy("defect_condition_bound")
    assert command("check", run).exit_code == 1
    assert not (run / "report.html").exists()

    done = command("check", run, "--report")
    assert done.exit_code == 1
    assert f"report         {run / 'report.html'}" in done.stdout.splitlines()
    assert "(accepted)" not in (run / "report.html").read_text()

    assert command("check", run, "--accept", "condition-bounds-the-state").exit_code == 0
    assert "(accepted)" in (run / "report.html").read_text()


def test_a_page_beside_a_redacted_copy_is_refused(copy):
    run = copy("typed_valid")

    done = command("check", run, "--redact", "--report")

    assert done.exit_code == 2
    assert not (run / "report.html").exists()


def test_a_page_is_no_part_of_the_seal(copy):
    run = copy("typed_valid")
    seal(run)
    tidemark.report(run)
    assert is_intact(run)

    seal(run)
    (run / "report.html").write_text("another")
    assert is_intact(run)


def test_the_verdict_beside_sealed_evidence_is_shown_and_no_other(copy):
    run = copy("typed_valid")
    verdict = seal_and_judge(RunDirectory(run))
    RunDirectory(run).write_json("verdict", msgspec.structs.replace(verdict, pipeline="as-it-was"))
    assert "as-it-was" in tidemark.report(run).read_text()

    os.utime(run / "verdict.json", (0, 0))  # as if the evidence had been sealed since
    assert "as-it-was" not in tidemark.report(run).read_text()

    (run / "output.jsonl").write_text("")
    with pytest.raises(UsageError, match="is not as it was sealed"):
        tidemark.report(run)


def test_a_page_of_redacted_evidence_has_no_value_of_a_record(golden, tmp_path):
    clear = RunDirectory(golden / "mutant_half_bound")
    shown = set(
        re.findall(r"(?:[ic]-\d{7})|ad-\d{3}", tidemark.report(clear.path, to=tmp_path / "page").read_text())
    )

    redacted = Redactor().redact(clear.path, tmp_path / "redacted")

    page = tidemark.report(redacted.path).read_text()
    packed = re.findall(r'<template id="run-data">(.*?)</template>', page)
    said = page + "".join(zlib.decompress(base64.b64decode(one)).decode() for one in packed)
    assert len(shown) > 20
    assert "ids and keys are salted hashes" in page
    assert [value for value in shown if value in said] == []


def test_the_timeline_of_a_run_is_written_for_a_trace_viewer(copy, tmp_path):
    to = tmp_path / "timeline.json"

    done = command("report", copy("faults_spark_sink"), "--perfetto", to)

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, str(to))
    events = msgspec.json.decode(to.read_bytes())["traceEvents"]
    batches = [one for one in events if one["name"].startswith("batch ")]
    assert [one["name"] for one in batches] == [f"batch {at}" for at in range(14)]
    [killed] = [one for one in events if one["name"] == "kill driver at written"]
    assert batches[0]["ts"] < killed["ts"] < batches[-1]["ts"]
    inside = [one for one in events if one["ph"] == "X" and one["name"] == "addBatch"]
    assert all(batch["dur"] >= phase["dur"] > 0 for batch, phase in zip(batches, inside, strict=True))
    refused = command("report", tmp_path / "faults_spark_sink", "--perfetto", tmp_path / "no" / "x")
    assert "x' cannot be written" in str(refused.exception)
