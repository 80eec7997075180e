"""Run directories and traces of format version 1: refused with the command to run, and converted by it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tidemark.cli import app
from tidemark.errors import BrokenEvidence, BrokenTrace
from tidemark.formats.conversion import convert
from tidemark.formats.evidence import open_run
from tidemark.formats.faults import CommitPoint, FaultAction, FaultComponent
from tidemark.formats.trace import TraceReader, trace_sha256

SIDE = {
    "topic": "impressions",
    "id": "i",
    "keys": ["u"],
    "time": "t",
    "watermark_delay_ms": 1,
    "keeps_timeless": True,
}
CONTRACT = {
    "name": "mine", "kind": "left_outer", "left": SIDE, "right": {**SIDE, "topic": "clicks", "id": "c"},
    "bound": {"lower_ms": -20000, "upper_ms": 0}, "output": {"left_id": "i", "right_id": "c"},
}  # fmt: skip
INPUTS = {
    topic: {"topic": topic, "start_offsets": {"0": 0}, "end_offsets": {"0": end}}
    for topic, end in (("impressions", 2), ("clicks", 0))
}
TRACE = """\
{"tidemark_trace": 1, "pace": "backlog", "topics": {"impressions": {}}, "anchors": ["null_row_after_expiry"]}
{"topic": "impressions", "value": "  spaces stay ", "arrival_ms": 1}

{"topic": "impressions", "value": "last", "arrival_ms": 2}
"""
TWICE = {
    "fault": "KillDriverTwice", "at_utc": "-", "done": True, "batch": 3, "point": "half-written",
    "proof": {"app_id": "a", "again": {"app_id": "b"}}, "recovery_s": 2.5,
}  # fmt: skip
BROKER = {
    "fault": "PauseBroker",
    "at_utc": "-",
    "done": True,
    "batch": 4,
    "point": "planned",
    "proof": {"part": "b"},
}
MISSED = {"fault": "KillExecutors", "at_utc": "-", "done": False, "point": "no-data", "proof": {"tried": []}}


@pytest.fixture
def run(tmp_path):
    """A run directory of version 1."""
    path = tmp_path / "a run"
    path.mkdir()
    (path / "trace.jsonl").write_text(TRACE)
    journal = "\n\n".join(json.dumps(line) for line in (TWICE, BROKER, MISSED))
    (path / "faults.jsonl").write_text(journal)
    (path / "contract.json").write_text(json.dumps(CONTRACT))
    manifest = {
        "tidemark_evidence": 1, "contract": CONTRACT, "delivery": "at-least-once", "inputs": INPUTS,
        "anchors": ["flushed", "duplicate_excused"], "trace_sha256": trace_sha256(path / "trace.jsonl"),
    }  # fmt: skip
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def must_be_converted(path):
    run = open_run(path)
    assert run.manifest.goals == ["flushed", "duplicate_permitted"]
    assert run.contract.left.keeps_null_event_time
    assert run.contract.right.keeps_null_event_time
    assert run.manifest.trace_sha256 == trace_sha256(path / "trace.jsonl")
    contract = json.loads((path / "contract.json").read_text())
    assert contract["left"]["keeps_null_event_time"]
    assert "keeps_timeless" not in contract["left"]
    with TraceReader(path / "trace.jsonl") as trace:
        assert trace.header.goals == ["null_row_after_eviction"]
        assert [record.value for record in trace] == ["  spaces stay ", "last"]
    twice, broker, missed = run.faults()
    assert (twice.component, twice.action) == (FaultComponent.DRIVER, FaultAction.KILL_TWICE)
    assert (twice.point, twice.batch, twice.injected) == (CommitPoint.HALF_WRITTEN, 3, True)
    assert (twice.proof, twice.recovery_s) == (TWICE["proof"], 2.5)
    assert (broker.label, broker.proof) == ("pause broker", {"component_name": "b"})
    assert (missed.label, missed.injected, missed.batch) == ("kill all executors", False, None)


def test_a_version_1_run_directory_is_refused_with_the_command_that_converts_it(run):
    with pytest.raises(BrokenEvidence, match="has format version 1") as error:
        _ = open_run(run).manifest
    assert error.value.hint == f"tidemark convert '{run}'"


def test_a_version_1_trace_is_refused_with_the_command_that_converts_it(run):
    with pytest.raises(BrokenTrace, match="has format version 1") as error:
        TraceReader(run / "trace.jsonl")
    assert error.value.hint == f"tidemark convert '{run / 'trace.jsonl'}'"


def test_a_run_directory_is_converted_in_place_and_only_once(run):
    assert convert(run)
    must_be_converted(run)
    written = {path: path.read_bytes() for path in run.iterdir()}

    assert not convert(run)
    assert {path: path.read_bytes() for path in run.iterdir()} == written


def test_a_conversion_that_was_interrupted_before_the_manifest_is_done_again(run):
    old = (run / "manifest.json").read_bytes()
    assert convert(run)
    (run / "manifest.json").write_bytes(old)

    assert convert(run)
    must_be_converted(run)


def test_the_command_converts_copies_and_leaves_the_originals(run, tmp_path):
    done = CliRunner().invoke(app, ["convert", str(run), "--out", str(tmp_path / "new")])

    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'new' / run.name}: converted\n")
    must_be_converted(tmp_path / "new" / run.name)
    assert (run / "trace.jsonl").read_text() == TRACE
    again = CliRunner().invoke(app, ["convert", str(run), "--out", str(tmp_path / "new")])
    assert "is there already" in str(again.exception)


def test_the_command_converts_a_compressed_trace(run):
    import zstandard

    trace = run / "trace.jsonl.zst"
    trace.write_bytes(zstandard.compress(TRACE.encode()))

    assert CliRunner().invoke(app, ["convert", str(trace)]).output == f"{trace}: converted\n"
    with TraceReader(trace) as reader:
        assert [record.value for record in reader] == ["  spaces stay ", "last"]
    assert "current format version already" in CliRunner().invoke(app, ["convert", str(trace)]).output


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({**TWICE, "fault": "KillFridge"}, "unknown fault 'KillFridge'"),
        ({**TWICE, "point": None}, "point"),
        ({name: value for name, value in TWICE.items() if name != "done"}, "injected"),
    ],
)
def test_a_journal_that_cannot_be_converted_leaves_the_manifest_at_version_1(run, line, why):
    (run / "faults.jsonl").write_text(json.dumps(line))

    with pytest.raises(BrokenEvidence, match="cannot be converted") as error:
        convert(run)

    assert why in error.value.detail
    assert json.loads((run / "manifest.json").read_text())["tidemark_evidence"] == 1


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text('{"tidemark_trace": 3}\n')
    with pytest.raises(BrokenTrace, match="cannot be converted") as error:
        convert(tmp_path / "notes.txt")
    assert "format version 3" in error.value.detail
