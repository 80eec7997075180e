"""The trace format: round trips, and errors that name the broken line or file."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import BrokenTrace, UsageError
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.trace import (
    Base64,
    Header,
    Record,
    TopicSpec,
    TraceReader,
    header_value,
    trace_sha256,
    write_trace,
)

HEADER = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(3), "b": TopicSpec()}, slices=4)
TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)))
RECORDS = st.lists(
    st.builds(
        Record,
        topic=st.sampled_from(["a", "b"]),
        arrival_ms=st.integers(1, 2**48),
        value=st.none() | TEXT,
        key=st.none() | TEXT,
        headers=st.lists(st.tuples(TEXT, st.none() | TEXT | st.binary().map(Base64)), max_size=3),
        timestamp_ms=st.none() | st.integers(1, 2**48),
        event_ms=st.none() | st.integers(-(2**48), 2**48),
        slice=st.just(0),
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.zst"])
@given(records=RECORDS)
def test_a_trace_reads_back_as_it_was_written(folder, name, records):
    sha256 = write_trace(folder / name, HEADER, records)
    with TraceReader(folder / name) as reader:
        assert reader.header == HEADER
        assert list(reader) == records
    assert trace_sha256(folder / name) == sha256


def test_bytes_that_are_not_text_are_stored_as_base64():
    record = Record(topic="a", arrival_ms=1, value_base64="/wA=", key_base64="/g==")
    assert (record.value_bytes(), record.key_bytes()) == (b"\xff\x00", b"\xfe")


@given(value=st.none() | st.binary())
def test_any_header_value_survives_a_round_trip(value):
    record = Record(topic="a", arrival_ms=1, headers=[("h", header_value(value))])
    [(_, back)] = msgspec.json.decode(msgspec.json.encode(record), type=Record).header_values()
    assert (back.encode() if isinstance(back, str) else back) == value


def test_header_bytes_that_are_not_text_differ_from_the_text_that_shows_them():
    headers = [("h", header_value(b"\\xff")), ("h", header_value(b"\xff"))]
    assert headers == [("h", "\\xff"), ("h", Base64(b"\xff"))]
    assert msgspec.json.encode(headers[1]) == b'["h",{"base64":"/w=="}]'
    shown = OutputRecord(partition=0, offset=0, headers=headers)
    assert shown.header("h") == "\\xff"
    assert shown.header("other") is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"topic": "a"', "truncated"),
        ('{"topic": "a"}', "arrival_ms"),
        ('{"topic": "c", "arrival_ms": 1}', "not in the header"),
        ('{"topic": "b", "arrival_ms": 1, "partition": 1}', "partition 1"),
        ('{"topic": "a", "arrival_ms": 1, "slice": 4}', "slice 4"),
        ('{"topic": "a", "arrival_ms": 1, "slice": 0}', "slice 0 after slice 2"),
        ('{"topic": "a", "arrival_ms": 1, "colour": "red"}', "colour"),
        ("[1, 2]", "object"),
    ],
)
def test_the_error_for_a_broken_line_has_its_number(tmp_path, line, why):
    path = tmp_path / "t.jsonl"
    good = '{"topic": "a", "arrival_ms": 1, "slice": 2}'
    header = '{"tidemark_trace": 2, "pace": "backlog", "topics": {"a": {}, "b": {}}, "slices": 4}'
    path.write_text(f"{header}\n{good}\n\n{line}\n{good}\n")
    with TraceReader(path) as reader, pytest.raises(BrokenTrace) as broken:
        list(reader)
    assert "line 4 of" in broken.value.message
    assert why in broken.value.detail


@pytest.mark.parametrize(
    "text", ["", "{}", "nothing", '{"tidemark_trace": 3, "pace": "backlog", "topics": {"a": {}}}']
)
def test_the_error_for_a_broken_header_has_line_1(tmp_path, text):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(BrokenTrace, match="line 1 of"):
        TraceReader(tmp_path / "t.jsonl")


def test_a_missing_trace_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="there is no trace"):
        TraceReader(tmp_path / "none.jsonl")


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    def fails():
        yield Record(topic="a", arrival_ms=1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        write_trace(tmp_path / "t.jsonl", HEADER, fails())
    assert list(tmp_path.iterdir()) == []


def test_a_hundred_thousand_records_are_written_and_read_in_a_second_of_work(tmp_path):
    n = 100_000
    value = '{"impression_id":"i-0000001","user_id":"someone-1","impression_time":"2026-01-01T00:00:00.000Z"}'
    records = (
        Record(topic="a", arrival_ms=1_000 + i, value=value, key="k", partition=i % 3) for i in range(n)
    )
    start_s = time.process_time()
    write_trace(tmp_path / "t.jsonl", HEADER, records)
    with TraceReader(tmp_path / "t.jsonl") as reader:
        assert sum(1 for _ in reader) == n
    assert time.process_time() - start_s < 3  # 0.25 s where nothing else runs


def compressed_trace(path: Path) -> bytes:
    write_trace(path, HEADER, (Record(topic="a", arrival_ms=n, key=f"{n:x}") for n in range(1, 40_000)))
    return path.read_bytes()


@pytest.mark.parametrize("cut", [1, 40, 40_000])
def test_a_truncated_compressed_trace_is_broken(tmp_path, cut):
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(compressed_trace(path)[:-cut])
    with TraceReader(path) as reader, pytest.raises(BrokenTrace, match=r"t\.jsonl\.zst' cannot be") as broken:
        list(reader)
    assert "ends within a zstd frame" in broken.value.detail
    with pytest.raises(BrokenTrace, match=r"t\.jsonl\.zst' cannot be decompressed"):
        trace_sha256(path)


@pytest.mark.parametrize("content", [b"", b"no zstd frame"])
def test_a_compressed_trace_without_a_frame_is_broken(tmp_path, content):
    (tmp_path / "t.jsonl.zst").write_bytes(content)
    with pytest.raises(BrokenTrace, match=r"t\.jsonl\.zst' cannot be decompressed"):
        TraceReader(tmp_path / "t.jsonl.zst")


def test_a_compressed_trace_of_several_frames_is_read_completely(tmp_path):
    plain, path = tmp_path / "t.jsonl", tmp_path / "t.jsonl.zst"
    records = [Record(topic="a", arrival_ms=n) for n in range(1, 100)]
    sha256 = write_trace(plain, HEADER, records)
    path.write_bytes(
        b"".join(zstandard.compress(line) for line in plain.read_bytes().splitlines(keepends=True))
    )
    with TraceReader(path) as reader:
        assert list(reader) == records
    assert trace_sha256(path) == sha256
