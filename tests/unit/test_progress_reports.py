"""Progress reports as Spark writes them: lines of a listener, and event logs, plain, compressed, rolled and cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tidemark.errors import UsageError
from tidemark.sparkfiles.progress_reports import BatchReport, read_reports

QUERY, RUN = "the-query", "run-1"


def report(batch: int, *, query: str = QUERY, as_text: bool = False, ran: bool = True) -> dict[str, Any]:
    """That of a batch which read 10 records."""
    start, end = ({"orders": {"0": 10 * at}} for at in (batch, batch + 1))
    source = {
        "description": "KafkaV2[Subscribe[orders]]",
        "startOffset": start if batch else None,
        "endOffset": end if ran else start,
    }
    if as_text:  # an event log has the text of an object
        source |= {
            name: value and json.dumps(value) for name, value in source.items() if name.endswith("Offset")
        }
    return {
        "id": query,
        "runId": RUN,
        "batchId": batch,
        "durationMs": {"addBatch": 5} if ran else {"latestOffset": 1},
        "eventTime": {"watermark": f"1970-01-01T00:00:{batch:02}.500Z"},
        "sources": [source],
    }


def event(batch: int) -> str:
    """A line of an event log."""
    name = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return json.dumps({"Event": name, "progress": report(batch, as_text=True)}, separators=(",", ":"))


OTHER_EVENT = '{"Event":"SparkListenerJobEnd","Job ID":3}'
EXPECTED = [
    BatchReport(0, RUN, 500, {}, {"orders": {"0": 10}}),
    BatchReport(1, RUN, 1500, {"orders": {"0": 10}}, {"orders": {"0": 20}}),
]


def written(path: Path, lines: list[str], *, compressed: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(zstandard.compress(data) if compressed else data)
    return path


def test_reports_of_a_listener_are_read_and_triggers_without_a_batch_left_out(tmp_path):
    lines = [json.dumps(one) for one in (report(0), report(1), report(2, ran=False))]

    assert read_reports([written(tmp_path / "progress.jsonl", ["", *lines])], QUERY) == EXPECTED


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zstd"])
def test_an_event_log_has_them_among_other_events(tmp_path, compressed):
    path = written(
        tmp_path / "local-1.inprogress", [OTHER_EVENT, event(0), OTHER_EVENT, event(1)], compressed=compressed
    )

    assert read_reports([path], QUERY) == EXPECTED


def test_a_folder_stands_for_its_event_logs_and_not_for_what_lies_beside_them(tmp_path):
    written(tmp_path / "eventlog_v2_local-1" / "events_1_local-1", [event(0)])
    written(tmp_path / "eventlog_v2_local-1" / "events_2_local-1", [event(1)])
    written(tmp_path / "eventlog_v2_local-1" / "appstatus_local-1.inprogress", [])
    written(tmp_path / "eventlog_v2_local-1" / ".events_1_local-1.crc", ["nonsense"])

    assert read_reports([tmp_path], QUERY) == EXPECTED


def test_the_last_line_of_a_program_that_was_killed_is_left_out_if_it_is_cut(tmp_path):
    plain = written(tmp_path / "plain", [event(0), event(1)])
    plain.write_bytes(plain.read_bytes() + event(2)[:50].encode())
    cut = written(tmp_path / "cut", [event(0), event(1)], compressed=True)
    cut.write_bytes(cut.read_bytes() + zstandard.compress(event(2).encode())[:-9])

    assert read_reports([plain], QUERY) == EXPECTED
    assert read_reports([cut], QUERY)[:2] == EXPECTED


def test_reports_of_other_queries_only_are_refused_with_the_queries_they_are_of(tmp_path):
    path = written(tmp_path / "progress", [json.dumps(report(0, query="another"))])

    with pytest.raises(UsageError, match="no progress report of the query 'the-query'") as caught:
        read_reports([path], QUERY)
    assert "they have reports of: another" in caught.value.detail


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "Expecting value"),
        ("{}", "it is neither a progress report nor an event of Spark"),
        (json.dumps({**report(0), "sources": 7}), "TypeError"),
        (json.dumps({**report(0), "eventTime": {"watermark": "soon"}}), "its watermark is 'soon'"),
    ],
)
def test_a_line_that_is_no_report_is_named(tmp_path, line, said):
    path = written(tmp_path / "progress", [json.dumps(report(0)), line])

    with pytest.raises(UsageError, match=r"line 2 of .* cannot be read as a progress report") as caught:
        read_reports([path], QUERY)
    assert said in caught.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be read as a progress report"):
        read_reports([tmp_path / "none"], QUERY)
