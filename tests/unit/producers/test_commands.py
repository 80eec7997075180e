"""The command line of the producers: one JSON line on success; on failure three lines, an exit code, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tidemark import paths
from tidemark.errors import EXIT_TESTBED, EXIT_USAGE
from tidemark.formats.trace import TraceReader


def producers(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "producers", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(paths.payload())},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def test_generate_prints_one_json_line(tmp_path):
    done = producers("generate", "--out", tmp_path / "t.jsonl.zst", "--impressions", 50)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"trace_sha256", "counts", "slices", "goals"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["generate", "--out", "{dir}/none/t.jsonl"], EXIT_USAGE, "there is no folder"),
        (["generate", "--out", "{dir}"], EXIT_USAGE, "is a folder"),
        (["generate", "--out", "{dir}/t.jsonl", "--pace", "fast"], EXIT_USAGE, "there is no pace 'fast'"),
        (
            ["generate", "--out", "{dir}/t.jsonl", "--lateness", "x"],
            EXIT_USAGE,
            "'x' is not a lateness model",
        ),
        (["replay", "{dir}/none.jsonl", "--bootstrap", "127.0.0.1:1"], EXIT_USAGE, "there is no trace"),
        (["replay", "{dir}/broken.jsonl", "--bootstrap", "127.0.0.1:1"], EXIT_USAGE, "line 1 of"),
        (["replay", "{dir}/whole.jsonl", "--bootstrap", "127.0.0.1:1"], EXIT_USAGE, "'stepped' needs"),
        (
            ["replay", "{dir}/whole.jsonl", "--bootstrap", "127.0.0.1:1", "--topic", "a"],
            EXIT_USAGE,
            "--topic 'a'",
        ),
        (
            ["sentinels", "{dir}/none.json", "{dir}/whole.jsonl", "--out", "{dir}/f"],
            EXIT_USAGE,
            "is no contract",
        ),
    ],
)
def test_a_usage_error_is_printed_with_a_hint(tmp_path, arguments, code, words):
    (tmp_path / "broken.jsonl").write_text('{"tidemark_trace": 2}\n')
    (tmp_path / "whole.jsonl").write_text('{"tidemark_trace": 2, "pace": "stepped", "topics": {"a": {}}}\n')
    failed = producers(*[str(argument).format(dir=tmp_path) for argument in arguments])
    assert failed.returncode == code
    assert failed.stderr.startswith("error: ")
    assert words in failed.stderr
    assert "hint: " in failed.stderr
    assert "Traceback" not in failed.stderr
    assert failed.stdout == ""


@pytest.mark.parametrize("run_items", [200_000, 500], ids=["trace", "temporary file"])
def test_a_trace_that_cannot_be_written_is_a_usage_error_and_leaves_nothing(tmp_path, run_items):
    """A limit on the size of files stands for a full disk: the same error of the system, but for its number."""
    program = (
        "import resource, sys; from producers import spool; from producers.__main__ import main\n"
        f"spool.RUN_ITEMS = {run_items}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); main()"
    )
    failed = subprocess.run(
        [sys.executable, "-P", "-c", program, "generate", "--out", str(tmp_path / "t.jsonl")],
        env={**os.environ, "PYTHONPATH": str(paths.payload())},
        capture_output=True,
        text=True,
    )
    assert failed.returncode == EXIT_USAGE, failed.stderr
    assert "could not be written" in failed.stderr
    assert "free some space" in failed.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_does_not_answer_is_a_testbed_error(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"tidemark_trace": 2, "pace": "backlog", "topics": {"a": {}}}\n')
    failed = producers("replay", tmp_path / "t.jsonl", "--bootstrap", "127.0.0.1:1", "--connect-s", 0.5)
    assert failed.returncode == EXIT_TESTBED
    assert "no Kafka broker answers at '127.0.0.1:1'" in failed.stderr
    assert "Connection refused" in failed.stderr


def test_samples_are_made_for_a_contract_as_the_command_line_prints_it(tmp_path):
    side = {"id": "id", "keys": ["who"], "time": "at", "watermark_delay_ms": 10_000}
    contract = {
        "name": "paid", "kind": "inner", "left": {"topic": "orders", **side}, "right": {"topic": "payments", **side},
        "bound": {"lower_ms": -60_000, "upper_ms": 0}, "output": {"left_id": "order", "right_id": "payment"},
    }  # fmt: skip
    printed = {"contract": contract, "mismatches": [], "not_compared": [], "warnings": [], "plan": "== …"}
    (tmp_path / "contract.json").write_text(json.dumps(printed))
    (tmp_path / "one.json").write_text('{"id": "1", "who": "ann", "at": "2026-03-01T12:00:00Z"}')
    samples = [f"--sample={topic}={tmp_path / 'one.json'}" for topic in ("orders", "payments")]

    done = producers("samples", tmp_path / "contract.json", "--out", tmp_path / "trace.jsonl", *samples)

    assert done.returncode == 0, done.stderr
    with TraceReader(tmp_path / "trace.jsonl") as trace:
        assert json.loads(done.stdout)["records"] == len(list(trace)) > 100
