"""Functions of a pipeline's file that read and make records: what they get, what is kept, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from pipelines.codec import Codec, _with_value, as_like, as_record, main
from pipelines.left_outer import CONTRACT
from tests.golden.judging import EVIDENCE
from tests.unit.preflight.plans import plan
from tidemark.errors import BrokenContract, BrokenEvidence, BrokenTrace, UsageError
from tidemark.formats.decoded_records import decoded_values
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.oracle.input.history import empty_history
from tidemark.oracle.large.record_tables import can_be_read
from tidemark.preflight import advise, compare

FUNCTIONS = """
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pipelines.left_outer import CONTRACT as GIVEN

CONTRACT = replace(GIVEN, left=replace(GIVEN.left, decode="decode", encode="encode"))
build = None


def decode(record):
    if record.value is None:
        return None
    name, time, price = record.value.split(b"|")
    headers = dict(record.headers)
    return {
        "impression_id": name.decode(), "user_id": record.key.decode(), "ad_id": headers["ad"].decode(),
        "impression_time": datetime.fromisoformat(time.decode()), "price": Decimal(price.decode()),
    }


def encode(event, like):
    assert isinstance(event["impression_time"], datetime) and isinstance(event["price"], Decimal), event
    value = "|".join((event["impression_id"], event["impression_time"].isoformat(), str(event["price"])))
    return like._replace(
        key=event["user_id"].encode(), value=value.encode(), headers=(("ad", event["ad_id"].encode()), ("x", b"\\xff")),
    )
"""
HEADER = Header(
    tidemark_trace=2, pace="backlog", topics={"impressions": TopicSpec(), "clicks": TopicSpec()}, slices=1
)
CLICK = Record(topic="clicks", value="{}", arrival_ms=2)
CLICK_LINE = {"topic": "clicks", "value": "{}", "arrival_ms": 2}
RECORDS = [
    Record(
        topic="impressions", value="i1|2026-01-01T00:00:00+00:00|1.50", key="u1", headers=[("ad", "a1")], arrival_ms=1
    ),
    CLICK,
    Record(topic="impressions", value="i2|soon|1.50", key="u1", headers=[("ad", "a1")], arrival_ms=3),
    Record(topic="impressions", value=None, arrival_ms=4),
    Record(topic="impressions", value_base64="/w==", arrival_ms=5),
]  # fmt: skip
DECODED = replace(CONTRACT, left=replace(CONTRACT.left, decode="decode", encode="encode"))


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.py"
    path.write_text(FUNCTIONS)
    (tmp_path / "contract.json").write_text(json.dumps(DECODED.to_json()))
    write_trace(tmp_path / "trace.jsonl", HEADER, RECORDS)
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["codec", *map(str, arguments)])
    return main()


def test_what_functions_said_is_kept_in_the_place_of_each_value(pipeline, tmp_path, monkeypatch):
    assert (
        run(
            monkeypatch,
            "decode",
            tmp_path / "contract.json",
            pipeline,
            tmp_path / "trace.jsonl",
            tmp_path / "decoded_trace.jsonl",
        )
        == 0
    )

    with TraceReader(tmp_path / "decoded_trace.jsonl") as reader:
        found = list(reader)
    assert json.loads(found[0].value) == {
        "impression_id": "i1", "user_id": "u1", "ad_id": "a1", "impression_time": "2026-01-01T00:00:00+00:00",
        "price": "1.50",
    }  # fmt: skip
    assert found[1] == CLICK
    assert found[2].value.startswith("decode raised ValueError: Invalid isoformat string")
    assert found[2].value.endswith("; its value is b'i2|soon|1.50'")
    assert found[3].value == "decode returned None"
    assert found[4].value.startswith("decode raised ValueError: not enough values")


def test_a_sentinel_is_made_like_the_last_record_that_was_read(pipeline, tmp_path, monkeypatch):
    event = {
        "impression_id": "s", "user_id": "su", "ad_id": "sa", "impression_time": "2026-01-02T00:00:00.000Z",
        "price": "2.50",
    }  # fmt: skip
    events = [Record(topic="impressions", value=json.dumps(event), key="k", arrival_ms=9), CLICK]
    write_trace(tmp_path / "events.jsonl", HEADER, events)

    files = [tmp_path / name for name in ("events.jsonl", "trace.jsonl", "flush.jsonl")]
    assert run(monkeypatch, "encode", tmp_path / "contract.json", pipeline, *files) == 0

    with TraceReader(tmp_path / "flush.jsonl") as reader:
        made, click = list(reader)
    assert made.value == "s|2026-01-02T00:00:00+00:00|2.50"
    assert made.key == "su"
    assert made.header_values() == [("ad", "sa"), ("x", b"\xff")]
    assert click == CLICK


def test_functions_are_found_beside_a_contract_alone(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.write_text(FUNCTIONS.replace("build = None", ""))

    files = [tmp_path / name for name in ("contract.json", "pipeline.py", "trace.jsonl", "decoded.jsonl")]
    assert run(monkeypatch, "decode", *files) == 0


def test_a_function_that_fails_to_encode_is_named_with_the_event(pipeline, tmp_path, monkeypatch, capsys):
    write_trace(tmp_path / "events.jsonl", HEADER, [Record(topic="impressions", value="{}", arrival_ms=9)])
    files = [tmp_path / name for name in ("events.jsonl", "trace.jsonl", "flush.jsonl")]

    assert run(monkeypatch, "encode", tmp_path / "contract.json", pipeline, *files) == UsageError.exit_code

    assert "encode raised KeyError: 'impression_time'" in capsys.readouterr().err


def test_a_function_that_is_not_there_is_named(pipeline):
    pipeline.write_text(FUNCTIONS.replace("def decode", "def other"))

    with pytest.raises(UsageError, match="has no function decode") as caught:
        Codec(DECODED, str(pipeline))
    assert "--functions FILE.py" in caught.value.hint


def test_a_function_that_encodes_is_asked_for_only_where_something_is_encoded(
    pipeline, tmp_path, monkeypatch, capsys
):
    pipeline.write_text(FUNCTIONS.replace("def encode", "def other"))
    contract = tmp_path / "contract.json"

    assert run(monkeypatch, "check", contract, pipeline) == 0
    with pytest.raises(UsageError, match="has no function encode"):
        Codec(DECODED, str(pipeline))


def test_functions_are_found_in_a_file_without_a_contract(pipeline, tmp_path, monkeypatch):
    only = FUNCTIONS.replace("CONTRACT = replace(GIVEN", "_ = replace(GIVEN")
    assert "CONTRACT =" not in only
    pipeline.write_text(only)

    assert run(monkeypatch, "check", tmp_path / "contract.json", pipeline) == 0
    assert Codec(DECODED, str(pipeline)).decode(CLICK_LINE) == CLICK_LINE


def test_an_event_has_the_types_of_the_one_that_it_is_made_like():
    like = {
        "at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 1), "id": UUID(int=1),
        "items": [Decimal(1)], "n": 1.5,
    }  # fmt: skip
    plain = {
        "at": "2026-01-02T00:00:00+00:00",
        "day": "2026-01-02",
        "id": str(UUID(int=2)),
        "items": ["2.50", "x"],
        "n": 2.5,
    }

    assert as_like(plain, like) == {
        "at": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2), "id": UUID(int=2),
        "items": [Decimal("2.50"), "x"], "n": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize("changes", [{"decode": "f"}, {"encode": "f"}, {"decode": "a.b", "encode": "f"}])
def test_half_a_pair_and_what_is_no_name_are_refused(changes):
    with pytest.raises(BrokenContract, match=r"decode is .* and encode"):
        replace(CONTRACT, left=replace(CONTRACT.left, **changes))


def test_values_are_those_that_were_decoded(tmp_path):
    trace = tmp_path / "trace.jsonl"
    write_trace(trace, HEADER, RECORDS[:2])
    write_trace(
        tmp_path / "decoded_trace.jsonl",
        HEADER,
        [Record(topic="impressions", value="{}", arrival_ms=1), CLICK],
    )

    with decoded_values(trace, DECODED.to_json()) as value:
        assert [value(record) for record in RECORDS[:2]] == ["{}", "{}"]
    with decoded_values(trace, CONTRACT.to_json()) as value:
        assert value(RECORDS[4]) == b"\xff"


def test_decoded_records_that_are_others_or_fewer_are_refused(tmp_path):
    trace = tmp_path / "trace.jsonl"
    write_trace(tmp_path / "decoded_trace.jsonl", HEADER, [CLICK])

    with (
        decoded_values(trace, DECODED.to_json()) as value,
        pytest.raises(BrokenEvidence, match=r"decoded_trace\.jsonl"),
    ):
        value(RECORDS[0])
    (tmp_path / "decoded_trace.jsonl").unlink()
    with (
        pytest.raises((UsageError, BrokenTrace), match=r"decoded_trace\.jsonl"),
        decoded_values(trace, DECODED.to_json()),
    ):
        pass


def test_a_large_run_of_decoded_records_is_not_read_set_by_set():
    manifest = RunDirectory(EVIDENCE / "left_outer").manifest

    assert can_be_read(empty_history(manifest))
    manifest.contract = DECODED.to_json()
    assert not can_be_read(empty_history(manifest))


def test_a_plan_says_no_field_of_decoded_records():
    found = compare(DECODED, plan("left_outer"))

    assert found.mismatches == ()
    assert len(found.not_compared) == 1
    assert [one.part for one in compare(DECODED, plan("inner")).mismatches] == ["kind"]
    assert advise(DECODED, plan("no_watermark")) == advise(DECODED, None)


def test_an_event_time_that_is_kafkas_timestamp_moves_with_the_sentinel():
    line = {"topic": "impressions", "arrival_ms": 5, "value": "{}"}
    like = as_record(line)

    assert "timestamp_ms" not in _with_value(line, like._replace(value=b"x"), like, "encode")
    moved = _with_value(line, like._replace(value=b"x", timestamp_ms=7), like, "encode")
    assert as_record(moved) == like._replace(value=b"x", timestamp_ms=7)
