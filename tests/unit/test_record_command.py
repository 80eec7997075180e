"""The output of ``tidemark record``."""

from __future__ import annotations

from typer.testing import CliRunner

from tidemark.cli import app
from tidemark.formats.trace import Header, TopicSpec
from tidemark.kafka import record as recording


def test_a_trace_of_one_slice_says_so(monkeypatch, tmp_path):
    header = Header(
        tidemark_trace=2, pace="backlog", topics={"clicks": TopicSpec()}, slices=1, counts={"clicks": 1200}
    )
    monkeypatch.setattr(recording, "record", lambda *_: ("2525a1", header))
    words = [
        "record",
        "--topic",
        "clicks=raw",
        "--bootstrap",
        "here:9092",
        "--out",
        str(tmp_path / "trace.jsonl"),
    ]

    said = CliRunner().invoke(app, words).stdout.splitlines()

    assert said == [
        "trace sha256  2525a1",
        "counts        clicks 1,200",
        "slices        1",
        f"trace         {tmp_path / 'trace.jsonl'}",
    ]
