"""The output of ``tidemark record``."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from pipelines.left_outer import CONTRACT
from tidemark.cli import app
from tidemark.formats.trace import Header, TopicSpec
from tidemark.kafka import record as recording

HEADER = Header(
    tidemark_trace=2, pace="backlog", topics={"clicks": TopicSpec()}, slices=1, counts={"clicks": 1200}
)


def test_a_trace_of_one_slice_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "record", lambda *_: ("2525a1", HEADER))
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


def test_a_login_is_in_a_file_and_the_broker_is_the_options(monkeypatch, tmp_path):
    (tmp_path / "kafka.conf").write_text("sasl.username = me\nbootstrap.servers = elsewhere:1\n")
    seen = []
    monkeypatch.setattr(recording, "record", lambda broker, *_: seen.append(broker) or ("2525a1", HEADER))
    words = ["record", "--topic", "clicks=raw", "--bootstrap", "here:9092"]
    words += ["--out", str(tmp_path / "trace.jsonl"), "--kafka-conf", str(tmp_path / "kafka.conf")]

    assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [{"sasl.username": "me", "bootstrap.servers": "here:9092"}]


def test_event_times_are_read_by_a_contract_as_the_command_line_prints_it(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(
        recording, "record", lambda _broker, options, *_: seen.append(options.contract) or ("2525a1", HEADER)
    )
    printed = {"contract": CONTRACT.to_json(), "mismatches": [], "plan": ""}
    (tmp_path / "contract.json").write_text(json.dumps(printed))
    words = ["record", "--topic", "clicks=raw", "--bootstrap", "here:9092"]
    words += ["--out", str(tmp_path / "trace.jsonl"), "--contract", str(tmp_path / "contract.json")]

    assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [CONTRACT]
