"""The output of a large run that DuckDB does not read as Spark does, and what of it is handed on beyond a size."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiers import every_day
from tests.unit.oracle.test_large import both, in_parts, rows
from tidemark.errors import BrokenEvidence, BrokenTrace
from tidemark.formats.contract import Bound, Contract, Delivery, JoinKind, Output, Side
from tidemark.formats.events import write_time
from tidemark.formats.evidence import Batch, OutputRecord, RunDirectory
from tidemark.formats.field_values import double_text
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.seal import seal
from tidemark.formats.trace import FORMAT, Header, Record, TopicSpec, write_trace
from tidemark.oracle import judge
from tidemark.oracle import judgement as judging
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.input.history import read_history
from tidemark.oracle.large import reduction

pytestmark = [pytest.mark.not_smoke]

KEYS = 12
"""Each has a left row and a right row, a second apart."""
FEW_ROWS = 16
HEADERS = (("query", "q-1"), ("batch", ""), ("partition", "0"), ("attempt", "0"))
REFS = Output("iid", "cid", ("ip", "io"), ("cp", "co"))
IDS = Output("iid", "cid")
LATEST_S = 1_000_000
IDS_OF = {"impressions": "iid", "clicks": "cid"}
Event = tuple[str, Any, str, float]
"""Topic, id, key and time in seconds of an input record."""


@pytest.fixture(autouse=True)
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small sample; the tables of about every other test are in parts."""
    monkeypatch.setattr(reduction, "SAMPLE_ROWS", 4)
    in_parts(monkeypatch, 3 if zlib.crc32(request.node.name.encode()) % 2 else 1)


def pairs(
    left: Callable[[int], Any] = "l{}".format, right: Callable[[int], Any] = "c{}".format
) -> list[Event]:
    """A left row and a right row of each key, with these ids."""
    return [
        event
        for at in range(KEYS)
        for event in (("impressions", left(at), f"u{at}", 10 + at), ("clicks", right(at), f"u{at}", 11 + at))
    ]


def written(
    path: Path,
    events: Sequence[Event],
    output: Output = REFS,
    kind: str = "left_outer",
    *,
    later: Sequence[Event] = (),
) -> RunDirectory:
    """A run that read these events in its first batch, and the later ones in the next, with right output."""
    contract = Contract(
        name="run",
        kind=JoinKind(kind),
        left=Side("impressions", "iid", ("user",), "time", 0),
        right=Side("clicks", "cid", ("user",), "time", 0),
        bound=Bound(-5_000, 0),
        output=output,
    )
    last: list[Event] = [(topic, "end", f"end of {topic}", LATEST_S) for topic in IDS_OF]
    plans, watermark_ms, read = [], 0, list[Event]()
    for some in filter(None, (events, later, last)):
        read += some
        plans.append(plan(len(plans), watermark_ms, read))
        watermark_ms = round(1_000 * min(max(at for of, *_, at in read if of == topic) for topic in IDS_OF))
    plans.append(plan(len(plans), watermark_ms, read))
    header = Header(tidemark_trace=FORMAT, pace="timed", topics={topic: TopicSpec() for topic in IDS_OF})
    write_trace(path / "trace.jsonl", header, map(record, [*events, *later]))
    write_trace(path / "flush.jsonl", header, map(record, last))
    run = RunDirectory(path)
    ends = plans[-1].end_offsets
    manifest = Manifest(
        tidemark_evidence=2,
        contract=contract.to_json(),
        delivery=Delivery.EXACTLY_ONCE,
        inputs={topic: InputTopic(topic, {"0": 0}, ends[topic]) for topic in IDS_OF},
        waived=list(WAIVABLE),
        query_id="q-1",
    )
    run.write_json("manifest", manifest)
    run.write_lines("batches", plans)
    run.write_lines("output", [])
    write_output(run, rows(read_history(run)))
    return run


def record(event: Event) -> Record:
    topic, of, key, seconds = event
    value = {IDS_OF[topic]: of, "user": key, "time": write_time(round(seconds * 1_000_000))}
    return Record(topic=topic, value=json.dumps(value), arrival_ms=0)


def plan(number: int, watermark_ms: int, read: Sequence[Event]) -> Batch:
    ends = {topic: {"0": sum(of == topic for of, *_ in read)} for topic in IDS_OF}
    return Batch(batch=number, watermark_ms=watermark_ms, end_offsets=ends)


def write_output(run: RunDirectory, found: Any, headers: Sequence[tuple[str, str]] = HEADERS) -> None:
    """Write an output, of which ``found`` has batch and value of each record; seal the run."""
    records = [
        OutputRecord(
            partition=0,
            offset=offset,
            value=value if isinstance(value, str) else json.dumps(value),
            headers=[(name, str(batch) if name == "batch" else of) for name, of in headers],
        )
        for offset, (batch, value) in enumerate(found)
    ]
    run.write_lines("output", records)
    seal(run.path)


def output_of(run: RunDirectory) -> list[tuple[int, Any]]:
    return [(int(one.header("batch") or 0), json.loads(one.value or "")) for one in run.output()]


def as_numbers(fields: dict[str, Any]) -> str:
    return json.dumps(fields | {name: int(fields[name]) for name in ("iid", "cid") if fields[name]})


def as_doubles(fields: dict[str, Any]) -> str:
    return json.dumps({name: float(of) if name == "iid" else of for name, of in fields.items()})


ODD = {
    "numbers": (pairs(str, lambda at: str(100 + at)), as_numbers, HEADERS),
    "a double": (pairs(lambda at: double_text(1e7 * (at + 1))), as_doubles, HEADERS),
    "an escape": (pairs("l{}ü".format), json.dumps, HEADERS),
    "headers": (pairs(), json.dumps, (HEADERS[1], HEADERS[0], *HEADERS[2:])),
}
"""Right records that DuckDB does not read as Spark does: events, how a value is written, and headers."""


@pytest.mark.parametrize("odd", ODD)
def test_right_rows_that_duckdb_does_not_read_are_right(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "DIRTY_ROWS", FEW_ROWS)
    events, how, headers = ODD[odd]
    run = written(tmp_path, events)
    write_output(run, [(batch, how(fields)) for batch, fields in output_of(run)], headers)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["verdict"] == "VALID"


@pytest.mark.parametrize("wrong", every_day(["pair", "place", "batch", "twice"], ["pair", "place"]))
def test_a_wrong_row_that_duckdb_does_not_read_is_found(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records have their headers in another order; one of them is wrong."""
    monkeypatch.setattr(reduction, "DIRTY_ROWS", FEW_ROWS)
    run = written(tmp_path, pairs())
    found = output_of(run)
    by_left = {fields["iid"]: fields for _, fields in found}
    batch, fields = found[5]
    other = by_left["l9"]
    more = {
        "pair": (batch, fields | {name: other[name] for name in ("cid", "cp", "co")}),
        "place": (batch, fields | {"co": other["co"]}),
        "batch": (batch + 1, fields),
        "twice": (batch, fields),
    }[wrong]
    write_output(run, sorted([*found, more], key=lambda one: one[0]), ODD["headers"][2])

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole["findings"] == part["findings"]
    assert len(part["findings"]) == 1
    assert part["verdict"] == "INVALID"


def test_what_is_named_by_a_wrong_row_is_handed_on_before_what_lost_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "DIRTY_ROWS", FEW_ROWS)
    run = written(tmp_path, pairs(), kind="inner")
    (batch, fields), (_, other) = output_of(run)[:2]
    wrong = fields | {name: other[name] for name in ("cid", "cp", "co")}
    write_output(run, [(batch, wrong)])

    whole, part, _ = both(run, monkeypatch)

    assert whole["findings_total"] == {"lost_rows": KEYS, "phantom_rows": 1}
    assert part["findings_total"]["phantom_rows"] == 1
    assert any("more keys have rows that are not as they should be" in one for one in part["inconclusive"])


def with_double_partitions(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {name: None if fields[name] is None else float(fields[name]) for name in ("ip", "cp")}


def twice(events: list[Event]) -> list[Event]:
    return [event for event in events for _ in range(2)]


DOUBTFUL = {
    "places that are no whole numbers": (pairs(), REFS, with_double_partitions),
    "events that were sent twice": (twice(pairs()), IDS, dict),
    "ids that other keys have, too": (pairs(lambda at: f"l{at % 5}", lambda at: f"c{at % 4}"), IDS, dict),
    "ids of the left that other keys have": (pairs(lambda at: f"l{at // 2}"), IDS, dict),
    "no ids": (pairs(lambda _: None, lambda _: None), IDS, dict),
    "no left ids": (pairs(lambda _: None), IDS, dict),
    "no right ids": (pairs(right=lambda _: None), IDS, dict),
}
"""Right output of which only the judge of small runs knows which row each record is."""


@pytest.mark.parametrize("doubtful", every_day(list(DOUBTFUL), list(DOUBTFUL)[:3]))
def test_a_key_of_records_that_may_be_several_rows_is_judged_as_a_whole_or_not_at_all(
    doubtful: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, output, how = DOUBTFUL[doubtful]
    run = written(tmp_path, events, output)
    write_output(run, [(batch, how(fields)) for batch, fields in output_of(run)])

    whole, part, was_reduced = both(run, monkeypatch)
    monkeypatch.setattr(reduction, "DIRTY_ROWS", FEW_ROWS)
    _, some, _ = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["verdict"] == "VALID"
    assert some["findings_total"] == {}
    assert some["verdict"] == "UNKNOWN"
    assert any("none of these was looked at, nor were" in one for one in some["inconclusive"])


NAMELESS: list[Event] = [
    *pairs(),
    ("impressions", "l", "beside", 10),
    ("clicks", None, "beside", 11),
    ("impressions", None, "behind", 10),
    ("clicks", "c", "behind", 11),
    ("impressions", None, "nameless", 10),
    ("clicks", None, "nameless", 11),
    ("impressions", "alone", "alone", 10),
]
"""Pairs with an event without an id, and a left row that is alone."""


@pytest.mark.parametrize(
    "kind", every_day(["inner", "left_outer", "full_outer", "left_semi"], ["left_outer"])
)
def test_a_pair_of_an_event_without_an_id_is_no_null_row(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, NAMELESS, Output("iid", None) if kind == "left_semi" else IDS, kind)
    found = output_of(run)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["verdict"] == "VALID"

    write_output(run, [one for one in found if one[1] != {"iid": "l", "cid": None}])
    whole, part, _ = both(run, monkeypatch)

    assert whole == part
    assert whole["findings_total"] == ({} if kind == "left_semi" else {"lost_rows": 1})


def test_a_row_behind_a_pair_of_an_event_without_an_id_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "SAMPLE_ROWS", 0)
    later: list[Event] = [("impressions", "l", "beside", 30), ("clicks", None, "beside", 31)]
    run = written(tmp_path, pairs(), IDS, later=later)
    found = output_of(run)
    at = found.index((1, {"iid": "l", "cid": None}))
    found.insert(7, found.pop(at))
    write_output(run, found)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole == part
    assert whole["findings_total"] == {"misordered_rows": KEYS - 7}


def test_few_keys_are_dirty_because_of_events_without_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NULL row of a key that has no such event is known."""
    monkeypatch.setattr(reduction, "DIRTY_ROWS", FEW_ROWS)
    alone: list[Event] = [("impressions", f"a{at}", f"alone {at}", 10) for at in range(KEYS)]
    run = written(tmp_path, [*alone, ("impressions", "l", "beside", 10), ("clicks", None, "beside", 11)], IDS)

    whole, part, _ = both(run, monkeypatch)

    assert whole == part
    assert whole["verdict"] == "VALID"


@pytest.mark.parametrize("headers", [(HEADERS[1], ("query", "other")), (HEADERS[1], *HEADERS)])
def test_a_record_of_no_batch_is_found_whatever_is_handed_on(
    headers: Sequence[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "DIRTY_ROWS", 0)
    run = written(tmp_path, pairs())
    right = list(run.output())
    write_output(run, output_of(run)[:1], headers)
    wrong = [replace_offset(one, len(right)) for one in run.output()]
    run.write_lines("output", [*right, *wrong])
    seal(run.path)

    whole, part, was_reduced = both(run, monkeypatch)

    assert was_reduced
    assert whole["findings_total"] == part["findings_total"] == {"corrupt_rows": 1}


def replace_offset(record: OutputRecord, offset: int) -> OutputRecord:
    return OutputRecord(partition=record.partition, offset=offset, value=record.value, headers=record.headers)


def errors_of(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What the judgement raises of a run, as a small one and as a large one."""
    found: list[BaseException] = []
    for reduced in (lambda _run, **_engine: None, lambda run, **_engine: reduction.reduced(run, large=-1)):
        monkeypatch.setattr(judging, "reduced", reduced)
        with pytest.raises((BrokenEvidence, BrokenTrace)) as caught:
            judge(run)
        found.append(caught.value)
    return found


@pytest.mark.parametrize(("name", "kind"), [("trace", BrokenTrace), ("output", BrokenEvidence)])
def test_a_damaged_file_is_the_same_error_in_a_large_run(
    name: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, pairs())
    path = run.file(name)
    path.write_bytes(path.read_bytes()[:-20])

    small, large = errors_of(run, monkeypatch)

    assert type(small) is type(large) is kind
    assert str(small) == str(large)


def test_a_damaged_compressed_file_is_not_taken_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, pairs())
    run.file("output").unlink()
    (tmp_path / "output.jsonl.zst").write_bytes(b"no frame")

    small, large = errors_of(run, monkeypatch)

    assert isinstance(large, BrokenEvidence)
    assert str(small) == str(large)


def test_a_time_that_is_too_large_for_a_window_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, pairs())
    manifest = run.manifest
    contract = Contract.from_json(manifest.contract)
    manifest.contract = replace(contract, bound=Bound(equal=True, window_ms=10_000)).to_json()
    run.write_json("manifest", manifest)
    lines = run.file("trace").read_text().splitlines()
    value = json.dumps({"iid": "l0", "user": "u0", "time": 9_223_372_036_854})
    lines[1] = json.dumps(json.loads(lines[1]) | {"value": value})
    run.file("trace").write_text("\n".join(lines) + "\n")

    for error in errors_of(run, monkeypatch):
        assert isinstance(error, BrokenEvidence)
        assert error.message == "the evidence cannot be read"
        assert error.detail
        assert error.hint
