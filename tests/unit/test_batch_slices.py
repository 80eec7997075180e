"""A run's trace cut by the batches that read its records: the same records share a slice, in the same order."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pipelines.inner import CONTRACT
from tests.golden.judging import EVIDENCE
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.formats.batch_slices import NO_DATA_OFF, cut_by_batches
from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import FORMAT, Batch, RunDirectory
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.trace import FORMAT as TRACE_FORMAT
from tidemark.formats.trace import Header, Record, TopicSpec, TraceReader, write_trace

LEFT, RIGHT = CONTRACT.left.topic, CONTRACT.right.topic


def record(topic: str, name: str, partition: int = 0, **changes: Any) -> Record:
    return Record(topic=topic, value=json.dumps({"id": name}), arrival_ms=1, partition=partition, **changes)


def batch(number: int, ends: dict[str, int], watermark_ms: int = 0, **changes: Any) -> Batch:
    """``ends`` are end offsets by ``topic/partition``."""
    found: dict[str, dict[str, int]] = {}
    for place, end in ends.items():
        topic, _, part = place.partition("/")
        found.setdefault(topic, {})[part] = end
    return Batch(batch=number, watermark_ms=watermark_ms, end_offsets=found, **changes)


def run_of(
    path: Path, records: list[Record], batches: list[Batch], *, start: int = 0, **header: Any
) -> RunDirectory:
    """The run directory of a run at the pace ``timed``, whose partitions begin at an offset."""
    run, many = RunDirectory(path), Counter((one.topic, one.partition) for one in records)
    given = Header(
        tidemark_trace=TRACE_FORMAT, pace="timed", topics={LEFT: TopicSpec(2), RIGHT: TopicSpec(2)}, **header
    )
    write_trace(path / "trace.jsonl", given, records)
    inputs = {
        topic: InputTopic(
            topic, {"0": start, "1": start}, {str(part): start + many[topic, part] for part in (0, 1)}
        )
        for topic in (LEFT, RIGHT)
    }
    manifest = Manifest(
        tidemark_evidence=FORMAT, contract=CONTRACT.to_json(), delivery=Delivery.EXACTLY_ONCE, inputs=inputs
    )
    run.write_json("manifest", manifest)
    run.write_lines("batches", batches)
    return run


def slices_of(path: Path) -> list[list[str]]:
    """The ids of the records of each slice."""
    with TraceReader(path) as reader:
        found: list[list[str]] = [[] for _ in range(reader.header.slices)]
        for one in reader:
            found[one.slice].append(json.loads(one.value or "")["id"])
    return found


def test_what_a_batch_read_is_a_slice(tmp_path: Path) -> None:
    records = [
        record(LEFT, "i1"),
        record(RIGHT, "c1"),
        record(LEFT, "i2"),
        record(RIGHT, "c2", 1),
        record(LEFT, "i3"),
    ]
    batches = [
        batch(0, {f"{LEFT}/0": 1}),
        batch(1, {f"{LEFT}/0": 2, f"{RIGHT}/1": 1}),
        batch(2, {f"{LEFT}/0": 2, f"{RIGHT}/1": 1}),
        batch(3, {f"{LEFT}/0": 3, f"{RIGHT}/1": 1, f"{RIGHT}/0": 1}),
    ]  # fmt: skip
    done = cut_by_batches(run_of(tmp_path, records, batches), tmp_path / "cut.jsonl")

    assert slices_of(tmp_path / "cut.jsonl") == [["i1"], ["i2", "c2"], ["c1", "i3"]]
    assert (done.header.pace, done.header.slices, done.header.counts) == ("stepped", 3, {LEFT: 3, RIGHT: 2})
    assert done.notes == []
    assert not done.left_out


@pytest.mark.parametrize("seed", range(20))
def test_published_slice_by_slice_partitions_end_where_the_batches_did(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    records = [
        record(rng.choice((LEFT, RIGHT)), str(number), rng.randrange(2), key=str(number))
        for number in range(40)
    ]
    start, ends = rng.choice((0, 7)), Counter[str]()
    many = Counter(f"{one.topic}/{one.partition}" for one in records)
    batches = []
    for number in range(8):
        for place in many if number == 7 else rng.sample(sorted(many), rng.randrange(len(many))):
            ends[place] = many[place] if number == 7 else rng.randint(ends[place], many[place])
        batches.append(batch(number, {place: start + end for place, end in ends.items()}))
    run = run_of(tmp_path, records, batches, start=start)

    cut_by_batches(run, tmp_path / "cut.jsonl")

    with TraceReader(tmp_path / "cut.jsonl") as reader:
        found = list(reader)
    published = Counter({f"{topic}/{part}": start for topic in (LEFT, RIGHT) for part in (0, 1)})
    seen = []
    for number in range(found[-1].slice + 1):
        published.update(f"{one.topic}/{one.partition}" for one in found if one.slice == number)
        seen.append(moved(published, start))
    wanted = [moved(flat(one), start) for one in batches]
    assert seen == [one for before, one in pairwise([{}, *wanted]) if one != before]
    for place in many:
        mine = [
            [one.key for one in them if f"{one.topic}/{one.partition}" == place] for them in (records, found)
        ]
        assert mine[0] == mine[1]


def flat(planned: Batch) -> dict[str, int]:
    """The ends of a batch, by ``topic/partition``."""
    return {
        f"{topic}/{part}": end for topic, parts in planned.end_offsets.items() for part, end in parts.items()
    }


def moved(ends: dict[str, int], start: int) -> dict[str, int]:
    """The ends that are beyond the beginning of their partition."""
    return {place: end for place, end in ends.items() if end > start}


@pytest.mark.parametrize("name", ["left_outer", "inner", "left_semi", "left_outer_demo"])
def test_a_run_at_the_pace_stepped_has_its_own_slices_again(name: str, tmp_path: Path) -> None:
    run = RunDirectory(EVIDENCE / name)

    cut_by_batches(run, tmp_path / "cut.jsonl")

    with TraceReader(run.file("trace")) as own, TraceReader(tmp_path / "cut.jsonl") as cut:
        assert list(cut) == list(own)
        assert cut.header.goals == own.header.goals


def test_the_input_of_an_audited_query_is_cut_by_the_batches_of_its_log(tmp_path: Path) -> None:
    run = RunDirectory(EVIDENCE / "audit_spark_3_5")

    done = cut_by_batches(run, tmp_path / "cut.jsonl")

    ends = [one.end_offsets for one in run.batches()]
    assert done.header.slices == len({json.dumps(one, sort_keys=True) for one in ends})
    assert sum(done.header.counts.values()) + sum(done.left_out.values()) == sum(
        1 for _ in TraceReader(run.file("trace"))
    )


def test_an_offset_without_a_record_is_left_out_of_an_audit_and_kept_of_a_run(tmp_path: Path) -> None:
    records = [record(LEFT, "i1"), Record(topic=LEFT, arrival_ms=1), record(LEFT, "i2")]
    run = run_of(tmp_path, records, [batch(0, {f"{LEFT}/0": 3})])
    assert cut_by_batches(run, tmp_path / "cut.jsonl").header.counts == {LEFT: 3}
    audit = RunDirectory(EVIDENCE / "audit_spark_3_5").manifest.audit
    run.write_json("manifest", msgspec.structs.replace(run.manifest, audit=audit))

    done = cut_by_batches(run, tmp_path / "cut.jsonl")

    assert slices_of(tmp_path / "cut.jsonl") == [["i1", "i2"]]
    assert done.left_out == {"offsets_without_a_record": 1}


def test_what_no_batch_read_is_left_out_and_counted(tmp_path: Path) -> None:
    run = run_of(tmp_path, [record(LEFT, "i1"), record(LEFT, "i2")], [batch(0, {f"{LEFT}/0": 1})])

    done = cut_by_batches(run, tmp_path / "cut.jsonl")

    assert slices_of(tmp_path / "cut.jsonl") == [["i1"]]
    assert done.left_out == {"read_by_no_batch": 1}


def test_a_run_that_read_nothing_is_refused(tmp_path: Path) -> None:
    for batches in ([], [batch(0, {})]):
        run = run_of(tmp_path, [record(LEFT, "i1")], batches)
        with pytest.raises(UsageError, match="no batch"):
            cut_by_batches(run, tmp_path / "cut.jsonl")
        assert not (tmp_path / "cut.jsonl").exists()


def test_a_transaction_that_two_batches_read_is_refused(tmp_path: Path) -> None:
    records = [
        record(LEFT, "i1", transaction=1),
        record(LEFT, "i2", transaction=1),
        Record(topic=LEFT, arrival_ms=1, transaction=1, absent="commit"),
    ]
    cut = tmp_path / "cut.jsonl"
    cut_by_batches(run_of(tmp_path, records, [batch(0, {f"{LEFT}/0": 3})]), cut)
    with TraceReader(cut) as reader:
        assert list(reader) == records

    run = run_of(tmp_path, records, [batch(0, {f"{LEFT}/0": 1}), batch(1, {f"{LEFT}/0": 3})])
    with pytest.raises(UsageError, match="cut through transactions") as caught:
        cut_by_batches(run, cut)

    assert "transaction 1" in caught.value.detail


def test_compacted_topics_are_cut_for_the_pace_backlog_only(tmp_path: Path) -> None:
    records = [record(LEFT, "i1", key="k"), record(LEFT, "i2", key="k")]
    run = run_of(
        tmp_path, records, [batch(0, {f"{LEFT}/0": 1}), batch(1, {f"{LEFT}/0": 2})], compacted=[LEFT]
    )

    with pytest.raises(UsageError, match="compacted topics"):
        cut_by_batches(run, tmp_path / "cut.jsonl")
    assert cut_by_batches(run, tmp_path / "cut.jsonl", "backlog").header.slices == 2


def test_it_says_in_what_a_repetition_differs(tmp_path: Path) -> None:
    records = [record(LEFT, f"i{number}") for number in range(4)]
    ends = [{f"{LEFT}/0": number} for number in (1, 2, 3, 4)]

    def notes(*batches: Batch) -> list[str]:
        return cut_by_batches(run_of(tmp_path, records, list(batches)), tmp_path / "cut.jsonl").notes

    apart = batch(0, ends[0]), batch(1, ends[0], 5), batch(2, ends[1], 5)
    assert notes(*apart) == []
    behind = batch(3, ends[2], 9)
    (said,) = notes(*apart, behind)
    assert said.startswith("1 batch with data followed one that had moved the watermark")
    assert "(first batch 3)" in said
    _, way = notes(batch(0, ends[0]), batch(1, ends[1], 5), batch(2, ends[2], 6))
    assert NO_DATA_OFF in way
    (said,) = notes(batch(0, ends[0]), batch(1, ends[1], restarted=True))
    assert said.startswith("the query was started again with batch 1,")
    # What came behind the trace is not repeated by it.
    assert notes(batch(0, ends[3]), batch(1, ends[3], 5), batch(2, ends[3], 5, restarted=True)) == []
    (said,) = notes(batch(7, ends[3]))
    assert said.startswith("the log of the query begins with batch 7")


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "cut.jsonl"
    words = ["record", "--run", str(EVIDENCE / "left_semi_readme"), "--out", str(out)]

    said = CliRunner().invoke(app, words).stdout.splitlines()

    assert [line.split()[0] for line in said] == ["trace", "counts", "slices", "trace", "note", "note"]
    assert said[2:4] == ["slices        5", f"trace         {out}"]
    told = json.loads(CliRunner().invoke(app, [*words, "--json", "--pace", "timed"]).stdout)
    assert [told["slices"], len(told["notes"])] == [5, 2]
    with TraceReader(out) as reader:
        assert reader.header.pace == "timed"


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (["--topic", "clicks=raw", "--slice-s", "3"], "--run is given with --topic, --slice-s"),
        (["--pace", "soon"], "no pace 'soon'"),
    ],
)
def test_options_about_topics_are_refused_beside_a_run(tmp_path: Path, more: list[str], match: str) -> None:
    words = ["record", "--run", str(EVIDENCE / "inner"), "--out", str(tmp_path / "cut.jsonl"), *more]

    found = CliRunner().invoke(app, words).exception

    assert isinstance(found, UsageError)
    assert match in str(found)
    assert list(tmp_path.iterdir()) == []
