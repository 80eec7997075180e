"""``tidemark run --redact`` on a real stack: no id, key or other value is in a file or on the terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.test_command_line import tidemark
from tests.support.shown_values import content_of, found_in, is_distinctive, texts_of
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import TraceReader

pytestmark = [pytest.mark.e2e]


def test_a_run_shows_and_keeps_no_value(stack, tmp_path):
    trace, runs = tmp_path / "trace.jsonl", tmp_path / "runs"
    words = ["producers", "generate", "--out", str(trace), "--seed", "5", "--impressions", "300"]
    subprocess.run([sys.executable, "-P", "-m", *words], check=True)
    runs.mkdir()

    done = tidemark("run", "left_outer", "--trace", trace, "--redact", "--run-dir", runs / "run")

    assert done.returncode == 0, done.stderr
    assert [path.name for path in runs.iterdir()] == ["run"]
    with TraceReader(trace) as reader:
        values = {text for record in reader for text in texts_of(record.value or "")}
    values = set(filter(is_distinctive, values))
    assert len(values) > 1000
    assert found_in(values, content_of(runs) + done.stdout + done.stderr) == []
    assert not (runs / "run" / "logs").exists()
    again = tidemark("check", runs / "run")
    assert (again.returncode, again.stderr) == (0, "")
    assert "redacted       ids and keys are salted hashes" in again.stdout
    manifest = RunDirectory(runs / "run").manifest
    assert manifest.command is None
    assert manifest.records["output"] > 0
