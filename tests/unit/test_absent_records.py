"""What a reader of committed records does not get: refused in a trace where it cannot be, and read by the judge."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from tests.unit.oracle.histories import LEFT_TOPIC, QUERY, RIGHT_TOPIC, contract, iso
from tidemark.campaigns.shrink.offline.held_evidence import read_evidence
from tidemark.errors import BrokenTrace
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import Batch, OutputRecord, RunDirectory
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.record_files import BrokenParquet
from tidemark.formats.seal import seal
from tidemark.formats.storage import convert_file, write_trace_as
from tidemark.formats.trace import Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.oracle import judge
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.large import reduction
from tidemark.redaction import Redactor
from tidemark.runner.one_run import _without_gaps

HEADER = Header(
    tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(2), "b": TopicSpec()}, slices=2, compacted=["b"]
)


def plain(topic="a", **changes):
    return Record(**{"topic": topic, "arrival_ms": 1, "value": "{}", "key": "k", **changes})


def sent(number, **changes):
    return plain(transaction=number, **changes)


def rolled_back(number, **changes):
    return sent(number, **{"absent": "aborted", "value": None, "sent": "{}", **changes})


def control(number, how, **changes):
    return sent(number, **{"absent": how, "value": None, "key": None, **changes})


SOUND = [
    plain(),
    sent(1),
    plain(partition=1),
    sent(1, partition=1),
    control(1, "commit", partition=1),
    control(1, "commit"),
    rolled_back(3, topic="b"),
    control(3, "abort", topic="b"),
    plain("b", absent="compacted", value=None, key="old"),
    plain("b", key="old"),
    plain(slice=1),
]


def read(path):
    with TraceReader(path) as reader:
        return list(reader)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.zst", "t.parquet"])
def test_a_trace_with_transactions_and_compaction_reads_back_as_it_was_written(tmp_path, name):
    digest = write_trace_as(tmp_path / name, HEADER, SOUND)
    assert read(tmp_path / name) == SOUND
    assert digest == write_trace(tmp_path / "lines.jsonl", HEADER, SOUND)


def test_a_trace_converted_to_parquet_and_back_is_the_same(tmp_path):
    write_trace(tmp_path / "t.jsonl", HEADER, SOUND)
    convert_file(tmp_path / "t.jsonl", tmp_path / "t.parquet", Record, has_header=True)
    convert_file(tmp_path / "t.parquet", tmp_path / "again.jsonl", Record, has_header=True)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "t.jsonl").read_bytes()


def test_columns_of_parquet_that_are_not_what_the_line_says_are_refused(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    write_trace_as(tmp_path / "t.parquet", HEADER, SOUND)
    table = pq.read_table(tmp_path / "t.parquet")
    values = table.column("value").to_pylist()
    values[6] = "{}"
    at = table.schema.get_field_index("value")
    changed = table.set_column(at, table.schema.field(at), [values])
    pq.write_table(changed, tmp_path / "t.parquet")
    with pytest.raises((BrokenTrace, BrokenParquet), match=r"not what its line says|cannot be read"):
        read(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([sent(1)], "has no control record in a/0"),
        ([sent(1), plain(slice=1), control(1, "commit", slice=1)], "has no control record in a/0"),
        ([sent(1), sent(2)], "transaction 1 has no control record"),
        ([sent(2), control(2, "commit"), sent(1), control(1, "commit")], "transaction 1 after transaction 2"),
        ([sent(1), sent(1, partition=1), control(1, "commit"), plain()], "has no control record in a/1"),
        ([sent(1), control(1, "commit"), control(1, "commit")], "has no record in a/0"),
        ([sent(1), control(1, "abort")], "ends with 'abort'"),
        ([rolled_back(1), control(1, "commit")], "ends with 'commit'"),
        ([rolled_back(1), sent(1)], "some are aborted and some are not"),
        ([rolled_back(1, value="{}")], "has no value"),
        ([control(1, "commit", sent="{}")], "has nothing that was sent"),
        ([plain(absent="aborted", value=None)], "names its transaction"),
        ([sent(1, absent="gap", value=None)], "is in no transaction"),
        ([plain(absent="gap")], "has no value"),
        ([plain(absent="compacted", value=None)], "'a' is none of `compacted`"),
        ([plain("b", absent="compacted", value=None, transaction=1)], "in no transaction"),
        ([plain("b", key=None)], "needs a key"),
        ([plain(absent="lost", value=None)], "Invalid enum value 'lost'"),
    ],
)
def test_a_trace_that_no_log_can_have_is_refused(tmp_path, records, why):
    write_trace(tmp_path / "t.jsonl", HEADER, records)
    with pytest.raises(BrokenTrace) as refused:
        read(tmp_path / "t.jsonl")
    assert why in refused.value.detail


def test_a_compacted_topic_that_the_trace_has_not_is_refused(tmp_path):
    header = msgspec.structs.replace(HEADER, compacted=["c"])
    write_trace(tmp_path / "t.jsonl", header, [])
    with pytest.raises(BrokenTrace, match="line 1"):
        read(tmp_path / "t.jsonl")


def event(name, key, seconds):
    side = "iid" if name.startswith("i") else "cid"
    return json.dumps({side: name, "user": key, "time": iso(seconds)})


def at(topic, number, **changes):
    return Record(topic=topic, arrival_ms=1_000 + number, slice=number, **changes)


TRACE = [
    # impressions 0: an earlier version of i1; 1, 2: i1 and i9, rolled back; 3: the control record; 4: i1
    at(LEFT_TOPIC, 0, key="k1", absent="compacted"),
    at(LEFT_TOPIC, 0, key="k1", absent="aborted", transaction=1, sent=event("i1", "a", 10)),
    at(LEFT_TOPIC, 0, key="k9", absent="aborted", transaction=1, sent=event("i9", "z", 11)),
    at(LEFT_TOPIC, 0, absent="abort", transaction=1),
    at(LEFT_TOPIC, 0, key="k1", value=event("i1", "a", 10)),
    # clicks 0: c1; 1: the control record
    at(RIGHT_TOPIC, 0, value=event("c1", "a", 12), transaction=2),
    at(RIGHT_TOPIC, 0, absent="commit", transaction=2),
    at(LEFT_TOPIC, 1, key="k2", value=event("i2", "b", 20)),
]
FLUSH = [
    Record(topic=LEFT_TOPIC, arrival_ms=9_000, key="f", value=event("i-flush", "s", 1000)),
    Record(topic=RIGHT_TOPIC, arrival_ms=9_000, key="f", value=event("c-flush", "t", 1000)),
]
ENDS = ((5, 2, 0), (6, 2, 10_000), (7, 3, 12_000), (7, 3, 1_000_000))
"""Of each batch the ends of impressions and clicks, and the eviction watermark in milliseconds."""
COUNTED = ("rows_in", f"{LEFT_TOPIC}_in", f"{RIGHT_TOPIC}_in", "unreadable")
PAIR, NULL_ROW = ("i1", 4, "c1", 0, 0), ("i2", 5, None, None, 3)
"""Of an output row the left id and offset, those of the right, and the batch."""


def written(offset, row):
    """A record of the output."""
    iid, io, cid, co, batch = row
    value = {"iid": iid, "ip": 0, "io": io, "cid": cid, "cp": None if cid is None else 0, "co": co}
    headers = [("query", QUERY), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
    return OutputRecord(partition=0, offset=offset, value=json.dumps(value), headers=headers)


def judged(path, *rows, waived=WAIVABLE, **changes):
    return judge(evidence(path, *rows, waived=waived, **changes))


def evidence(path, *rows, trace=TRACE, ends=(7, 3), keeps_null_event_time=False, **changes):
    """A run of these output rows; ``ends`` are the offsets up to which the trace was published."""
    join = contract("left_outer")
    join = replace(join, left=replace(join.left, keeps_null_event_time=keeps_null_event_time))
    header = Header(
        tidemark_trace=2,
        pace="backlog",
        topics={LEFT_TOPIC: TopicSpec(), RIGHT_TOPIC: TopicSpec()},
        slices=2,
        compacted=[LEFT_TOPIC],
    )
    run = RunDirectory(path)
    path.mkdir(exist_ok=True)
    write_trace(path / "trace.jsonl", header, trace)
    write_trace(path / "flush.jsonl", header, FLUSH)
    batches = [
        Batch(batch=number, watermark_ms=ms, end_offsets={LEFT_TOPIC: {"0": left}, RIGHT_TOPIC: {"0": right}})
        for number, (left, right, ms) in enumerate(ENDS)
        if (left, right) <= ends
    ]
    run.write_lines("batches", batches)
    run.write_lines("output", [written(offset, row) for offset, row in enumerate(rows)])
    manifest = Manifest(
        tidemark_evidence=2,
        contract=join.to_json(),
        delivery=Delivery.EXACTLY_ONCE,
        inputs={
            LEFT_TOPIC: InputTopic(LEFT_TOPIC, {"0": 0}, {"0": ends[0]}),
            RIGHT_TOPIC: InputTopic(RIGHT_TOPIC, {"0": 0}, {"0": ends[1]}),
        },
        pace="backlog",
        **{"waived": list(WAIVABLE), **changes},
        versions={"spark": "4.2.0"},
        query_id=QUERY,
    )
    run.write_json("manifest", manifest)
    seal(path)
    return run


@pytest.fixture(params=["small", "reduced"])
def size(request, monkeypatch):
    """Judged as it is, and as the small rest of a large run."""
    if request.param == "reduced":
        monkeypatch.setattr(reduction, "SAMPLE_ROWS", 1)


@pytest.mark.usefixtures("size")
def test_rows_of_records_behind_offsets_without_one_are_judged(tmp_path):
    verdict = judged(tmp_path, PAIR, NULL_ROW)
    assert (verdict.verdict, verdict.findings_total, verdict.inconclusive) == ("VALID", {}, [])


@pytest.mark.usefixtures("size")
def test_an_offset_without_a_record_counts_neither_as_a_row_nor_as_unreadable(tmp_path):
    verdict = judged(tmp_path, PAIR, NULL_ROW)
    counts = {name: verdict.counts[name] for name in COUNTED}
    assert counts == {"rows_in": 3, f"{LEFT_TOPIC}_in": 2, f"{RIGHT_TOPIC}_in": 1, "unreadable": 0}


@pytest.mark.usefixtures("size")
def test_an_offset_that_was_not_published_counts_for_nothing(tmp_path):
    trace = [*TRACE, *[at(LEFT_TOPIC, 1, key="k1", absent="compacted")] * 3]
    verdict = judge(evidence(tmp_path, PAIR, trace=trace, ends=(6, 2)))
    counts = {name: verdict.counts[name] for name in COUNTED}
    assert counts == {"rows_in": 3, f"{LEFT_TOPIC}_in": 2, f"{RIGHT_TOPIC}_in": 1, "unreadable": 0}


def test_a_query_with_a_sink_of_its_own_counts_no_offset_without_a_record(tmp_path):
    about = AuditedQuery(first_batch=0, from_batch=0, to_batch=3, owed_to=3)
    verdict = judged(tmp_path, PAIR, NULL_ROW, audit=about, sink="own")
    counts = {name: verdict.counts[name] for name in COUNTED}
    assert counts == {"rows_in": 5, f"{LEFT_TOPIC}_in": 3, f"{RIGHT_TOPIC}_in": 2, "unreadable": 0}


@pytest.mark.parametrize("keeps_null_event_time", [False, True])
def test_redacted_evidence_has_the_same_offsets_without_a_record(tmp_path, keeps_null_event_time):
    run = evidence(tmp_path / "clear", PAIR, NULL_ROW, keeps_null_event_time=keeps_null_event_time)
    redacted = Redactor().redact(run.path, tmp_path / "redacted")

    clear, verdict = judge(run), judge(redacted)
    assert (verdict.verdict, verdict.counts) == (clear.verdict, clear.counts)
    with TraceReader(redacted.file("trace")) as records:
        kept = [(one.absent, one.transaction, one.sent) for one in records]
    assert kept == [(one.absent, one.transaction, None) for one in TRACE]


@pytest.mark.parametrize("keeps_null_event_time", [False, True])
def test_evidence_that_is_made_smaller_has_the_same_offsets_without_a_record(tmp_path, keeps_null_event_time):
    run = evidence(tmp_path, PAIR, keeps_null_event_time=keeps_null_event_time)
    held = read_evidence(run)

    clear, verdict = judge(run), judge(held)
    assert (verdict.findings_total, verdict.counts) == (clear.findings_total, clear.counts)
    assert [one.absent for one in held.records[:5]] == ["gap", "gap", "gap", "gap", None]


def test_a_run_publishes_a_record_without_a_value_where_nothing_says_why_there_is_none(tmp_path):
    records = [plain(), plain(absent="gap", value=None, key=None), plain("b")]
    write_trace(tmp_path / "t.jsonl", HEADER, records)
    assert read(tmp_path / "t.jsonl") == records

    assert read(_without_gaps(tmp_path / "t.jsonl")) == [plain(), plain(value=None, key=None), plain("b")]
    assert _without_gaps(tmp_path / "t.jsonl") == tmp_path / "t.jsonl"


@pytest.mark.usefixtures("size")
def test_most_records_are_readable_where_most_offsets_have_no_record(tmp_path):
    goals = {"most_records_readable", "unreadable_filtered"}
    verdict = judged(tmp_path, PAIR, NULL_ROW, waived=[goal for goal in WAIVABLE if goal not in goals])
    assert not any("most_records_readable" in reason for reason in verdict.inconclusive), verdict.inconclusive


@pytest.mark.usefixtures("size")
def test_no_row_is_due_for_an_offset_without_a_record_where_rows_without_an_event_time_are_kept(tmp_path):
    verdict = judged(tmp_path, PAIR, NULL_ROW, keeps_null_event_time=True)
    assert (verdict.verdict, verdict.findings_total) == ("VALID", {})


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("rows", "findings"),
    [
        ([NULL_ROW], {"lost_rows": 1}),
        ([PAIR], {"missing_nulls": 1}),
        ([PAIR, NULL_ROW, ("i9", 2, None, None, 3)], {"phantom_rows": 1}),
        ([PAIR, NULL_ROW, ("i1", 1, "c1", 0, 0)], {"phantom_rows": 1}),
    ],
    ids=["no pair", "no NULL row", "a NULL row of what was rolled back", "a pair of what was rolled back"],
)
def test_what_is_wrong_with_rows_behind_offsets_without_a_record_is_found(tmp_path, rows, findings):
    verdict = judged(tmp_path, *rows)
    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == findings
