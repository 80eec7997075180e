"""``tidemark check`` on a directory that a person typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from tidemark.cli import app
from tidemark.errors import EXIT_USAGE, TidemarkError

MANIFEST = """
{"tidemark_evidence": 2, "waived": ["each_bound_end_decides"], "delivery": "at-least-once", "contract": {
  "name": "mine", "kind": "left_outer", "bound": {"lower_ms": -20000, "upper_ms": 0},
  "left":  {"topic": "impressions", "id": "iid", "keys": ["user"], "time": "at", "watermark_delay_ms": 10000},
  "right": {"topic": "clicks", "id": "cid", "keys": ["user"], "time": "at", "watermark_delay_ms": 20000},
  "output": {"left_id": "iid", "left_ref": ["ip", "io"], "right_id": "cid", "right_ref": ["cp", "co"]}},
 "inputs": {"impressions": {"topic": "i", "start_offsets": {"0": 0}, "end_offsets": {"0": 3}},
            "clicks":      {"topic": "c", "start_offsets": {"0": 0}, "end_offsets": {"0": 2}}}}
"""
# ruff: noqa: E501 (lines of files are as long as they are)
TRACE = r"""
{"tidemark_trace": 2, "pace": "stepped", "topics": {"impressions": {}, "clicks": {}}}
{"topic": "impressions", "arrival_ms": 0, "value": "{\"iid\":\"i1\", \"user\":\"u\", \"at\":\"2026-01-01T00:00:00Z\"}"}
{"topic": "impressions", "arrival_ms": 0, "value": "{\"iid\":\"i2\", \"user\":\"v\", \"at\":\"2026-01-01T00:00:05Z\"}"}

{"topic": "clicks", "arrival_ms": 0, "value": "{\"cid\":\"c1\", \"user\":\"u\", \"at\":\"2026-01-01T00:00:09Z\"}"}
"""
FLUSH = r"""
{"tidemark_trace": 2, "pace": "stepped", "topics": {"impressions": {}, "clicks": {}}}
{"topic": "impressions", "arrival_ms": 0, "value": "{\"iid\":\"s\", \"user\":\"s\", \"at\":\"2026-01-02T00:00:00Z\"}"}
{"topic": "clicks", "arrival_ms": 0, "value": "{\"cid\":\"s\", \"user\":\"t\", \"at\":\"2026-01-02T00:00:00Z\"}"}
"""
BATCHES = """
{"batch": 0, "watermark_ms": 0, "end_offsets": {"impressions": {"0": 2}, "clicks": {"0": 1}}}
{"batch": 1, "watermark_ms": 1767225589000, "end_offsets": {"impressions": {"0": 3}, "clicks": {"0": 2}}}
{"batch": 2, "watermark_ms": 1767311980000, "end_offsets": {"impressions": {"0": 3}, "clicks": {"0": 2}}}
"""
OUTPUT = r"""
{"partition": 0, "offset": 0, "value": "{\"iid\":\"i1\", \"ip\": 0, \"io\": 0, \"cid\":\"c1\", \"cp\": 0, \"co\": 0}", "headers": [["query", "q"], ["batch", "0"], ["partition", "0"], ["attempt", "0"]]}
{"partition": 0, "offset": 1, "value": "{\"iid\":\"i2\", \"ip\": 0, \"io\": 1}", "headers": [["query", "q"], ["batch", "2"], ["partition", "0"], ["attempt", "0"]]}
"""


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    files = {"manifest.json": MANIFEST, "trace.jsonl": TRACE, "flush.jsonl": FLUSH}
    files |= {"batches.jsonl": BATCHES, "output.jsonl": OUTPUT}
    for name, text in files.items():
        (tmp_path / name).write_text(text.lstrip())
    return tmp_path


def test_a_typed_directory_is_judged(typed: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(typed)])
    assert done.exit_code == 0, done.output
    assert "VALID" in done.output
    assert json.loads((typed / "verdict.json").read_text())["verdict"] == "VALID"


def test_json_is_the_verdict_file_on_one_line(typed: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(typed), "--json"])
    assert json.loads(done.stdout) == json.loads((typed / "verdict.json").read_text())
    assert json.loads(done.stdout)["counts"]["joined_rows"] == 1


def test_a_finding_is_shown_and_exits_with_1(typed: Path) -> None:
    lines = (typed / "output.jsonl").read_text().splitlines()
    (typed / "output.jsonl").write_text(lines[0] + "\n")
    done = CliRunner().invoke(app, ["check", str(typed)])
    assert done.exit_code == 1
    assert "missing_nulls" in done.output
    assert "the NULL row of i2 (impressions/0/1, key v, 2026-01-01T00:00:05.000Z" in done.output


def test_an_inconclusive_verdict_says_why_and_exits_with_3(typed: Path) -> None:
    lines = (typed / "batches.jsonl").read_text().splitlines()
    (typed / "batches.jsonl").write_text("\n".join(lines[:2]) + "\n")
    output = (typed / "output.jsonl").read_text().splitlines()
    (typed / "output.jsonl").write_text(output[0] + "\n")
    done = CliRunner().invoke(app, ["check", str(typed)])
    assert done.exit_code == 3
    assert "flushed" in done.output


@pytest.mark.parametrize("name", ["output", "batches", "trace", "flush"])
def test_the_error_for_a_truncated_compressed_file_names_it_and_exits_with_2(typed: Path, name: str) -> None:
    plain, compressed = typed / f"{name}.jsonl", typed / f"{name}.jsonl.zst"
    whole = zstandard.compress(plain.read_bytes())
    plain.unlink()
    compressed.write_bytes(whole)
    assert CliRunner().invoke(app, ["check", str(typed)]).exit_code == 0

    compressed.write_bytes(whole[:-40])
    error = CliRunner().invoke(app, ["check", str(typed)]).exception
    assert isinstance(error, TidemarkError)
    assert error.exit_code == EXIT_USAGE
    assert str(compressed) in error.message
    assert "ends within a zstd frame" in error.detail
