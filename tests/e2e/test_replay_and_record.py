"""Traces into a real Kafka and out of it, and the client that reads what a query wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidemark import paths
from tidemark.errors import EXIT_USAGE, OpenTransaction, UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.trace import Base64, Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.kafka import client as kafka
from tidemark.kafka.record import RecordOptions, record
from tidemark.runner.programs import Program, program_environment
from tidemark.runner.trace_replay import ReplayOptions, replay_stepped

ANSWER_S = 60.0


@pytest.fixture
def topics(stack):
    """``topics(name=partitions, ...)``: topics of this test's own, logical name -> topic."""
    made: list[str] = []

    def create(**layout: int) -> dict[str, str]:
        names = {logical: f"{logical}-{uuid.uuid4().hex[:8]}" for logical in layout}
        kafka.create_topics(stack.bootstrap_servers, {names[name]: n for name, n in layout.items()})
        made.extend(names.values())
        return names

    yield create
    kafka.delete_topics(stack.bootstrap_servers, made)


def run(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", *module.split(), *map(str, arguments)],
        env=program_environment(None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        cwd=paths.root(),
    )


def generated(path: Path, *options: str) -> Path:
    done = run("producers generate", "--out", path, "--impressions", 300, "--slices", 6, *options)
    assert done.returncode == 0, done.stderr
    return path


def published(stack, trace: Path, names: dict[str, str], *options: object) -> dict[str, object]:
    pairs = [f"--topic={logical}={topic}" for logical, topic in names.items()]
    done = run("producers replay", trace, "--bootstrap", stack.bootstrap_servers, *pairs, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read(path: Path) -> list[Record]:
    with TraceReader(path) as reader:
        return list(reader)


def in_one_slice(records: list[Record]) -> list[Record]:
    for item in records:
        item.slice = 0
    return records


@pytest.mark.smoke
def test_recording_what_was_replayed_gives_the_trace_again(stack, topics, tmp_path):
    trace = generated(tmp_path / "there.jsonl")
    names = topics(impressions=2, clicks=2)
    contract = Contract.from_json(json.loads(run("pipelines left_outer", "--describe").stdout))

    assert published(stack, trace, names, "--pace", "backlog")["records"] == len(read(trace))
    options = RecordOptions(topics=names, contract=contract)
    _, header = record(stack.bootstrap_servers, options, tmp_path / "back.jsonl", lambda _done: None)

    assert read(tmp_path / "back.jsonl") == in_one_slice(read(trace))
    assert header.topics == {"impressions": TopicSpec(2), "clicks": TopicSpec(2)}


def test_everything_that_a_record_can_have_survives(stack, topics, tmp_path):
    names = topics(a=2)
    odd = [
        Record(topic="a", arrival_ms=1),  # a tombstone of 1970
        Record(topic="a", arrival_ms=2, value="", key=""),
        Record(
            topic="a",
            arrival_ms=3,
            value="käse \u0000 \U0001f9c0",
            headers=[("h", "1"), ("h", None), ("", ""), ("h", Base64(b"\xff\x00\xc3"))],
        ),
        Record(topic="a", arrival_ms=4, value_base64="/wD+", key_base64="gA==", partition=1),
        Record(topic="a", arrival_ms=5, value="ahead", timestamp_ms=9_999_999_999_999, partition=1),
        Record(topic="a", arrival_ms=9_999_999_999_999, value="behind", timestamp_ms=7, partition=1),
    ]
    header = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(2)})
    write_trace(tmp_path / "odd.jsonl", header, odd)

    published(stack, tmp_path / "odd.jsonl", names)
    record(stack.bootstrap_servers, RecordOptions(topics=names), tmp_path / "back.jsonl", lambda _done: None)

    messages = kafka.read_messages(stack.bootstrap_servers, names["a"], {0: 3})
    assert [message.headers() for message in messages if message.headers()] == [
        [("h", b"1"), ("h", None), ("", b""), ("h", b"\xff\x00\xc3")]
    ]
    [shown] = [row for row in kafka.read_all(stack.bootstrap_servers, names["a"]) if row.headers]
    assert shown.headers == odd[2].headers
    back = read(tmp_path / "back.jsonl")
    odd[4].arrival_ms, odd[4].timestamp_ms = 9_999_999_999_999, None  # Kafka knows one time of a record
    assert back == odd


def test_a_recording_can_be_cut_into_slices(stack, topics, tmp_path):
    trace = generated(tmp_path / "there.jsonl")
    names = topics(impressions=2, clicks=2)
    published(stack, trace, names, "--pace", "backlog")

    options = RecordOptions(topics=names, slice_s=30, pace="stepped")
    _, header = record(stack.bootstrap_servers, options, tmp_path / "back.jsonl", lambda _done: None)

    back = read(tmp_path / "back.jsonl")
    assert header.pace == "stepped"
    assert [r.slice for r in back] == sorted(r.slice for r in back)
    assert {r.slice for r in back} == set(range(header.slices))
    stretches = [r.arrival_ms // 30_000 for r in back]
    assert stretches == sorted(stretches)
    assert len(set(stretches)) == header.slices


@pytest.mark.smoke
def test_a_slice_is_published_when_told_and_not_before(stack, topics, tmp_path):
    trace = generated(tmp_path / "t.jsonl")
    names = topics(impressions=2, clicks=2)
    pairs = [f"--topic={logical}={topic}" for logical, topic in names.items()]
    arguments = [
        "producers",
        "replay",
        str(trace),
        "--bootstrap",
        stack.bootstrap_servers,
        *pairs,
        "--interactive",
    ]

    def there() -> int:
        ends = kafka.end_offsets(stack.bootstrap_servers, names.values())
        return sum(end for parts in ends.values() for end in parts.values())

    sizes = [0] * 6
    for item in read(trace):
        sizes[item.slice] += 1
    with Program(arguments, tmp_path / "log") as publisher:
        for number, size in enumerate(sizes):
            assert there() == sum(sizes[:number])
            assert publisher.ask(f"publish {number}", ANSWER_S) == {"published": number, "records": size}
            assert there() == sum(sizes[: number + 1])


def test_timed_replay_ends_when_its_parent_does(stack, topics, tmp_path):
    trace = generated(tmp_path / "t.jsonl")
    names = topics(impressions=2, clicks=2)
    pairs = [f"--topic={logical}={topic}" for logical, topic in names.items()]
    address = ["--bootstrap", stack.bootstrap_servers]
    child = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "producers",
            "replay",
            str(trace),
            *address,
            *pairs,
            "--pace=timed",
            "--end-with-stdin",
        ],
        env=program_environment(None),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(2)
        child.stdin.close()
        assert child.wait(10) == 130
    finally:
        child.kill()
        child.wait()


class Query:
    """What a streaming query does to its checkpoint: a batch for what is new, then one without data."""

    def __init__(self, bootstrap: str, names: dict[str, str], folder: Path) -> None:
        self.bootstrap, self.names, self.folder = bootstrap, names, folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        self.ended = threading.Event()
        self.batch, self.watermark_ms = 0, 0
        self.thread = threading.Thread(target=self._go, daemon=True)

    def _go(self) -> None:
        seen: kafka.Ends = {}
        while not self.ended.wait(0.05):
            ends = kafka.end_offsets(self.bootstrap, self.names.values())
            if ends != seen:
                seen = ends
                self._batch(ends, self.watermark_ms + 1)
                self._batch(ends, self.watermark_ms)

    def _batch(self, ends: kafka.Ends, after_ms: int) -> None:
        meta = json.dumps({"batchWatermarkMs": self.watermark_ms})
        sources = [
            json.dumps({topic: {str(p): end for p, end in parts.items()}}) for topic, parts in ends.items()
        ]
        (self.folder / "offsets" / str(self.batch)).write_text("\n".join(["v1", meta, *sources]))
        (self.folder / "commits" / str(self.batch)).write_text(f'v1\n{{"nextBatchWatermarkMs": {after_ms}}}')
        self.batch, self.watermark_ms = self.batch + 1, after_ms


def test_a_stepped_replay_follows_a_query_by_its_checkpoint(stack, topics, tmp_path):
    trace = generated(tmp_path / "t.jsonl")
    names = topics(impressions=2, clicks=2)
    query = Query(stack.bootstrap_servers, names, tmp_path / "checkpoint")
    options = ReplayOptions(
        broker={"bootstrap.servers": stack.bootstrap_servers}, topics=names, checkpoint=query.folder,
        batch_s=ANSWER_S,
    )  # fmt: skip
    query.thread.start()
    try:
        done = replay_stepped(trace, options)
    finally:
        query.ended.set()
        query.thread.join()
    assert done.records == len(read(trace))
    assert done.batches >= 2 * 6
    with pytest.raises(UsageError, match="is not the checkpoint"):
        replay_stepped(trace, replace(options, checkpoint=tmp_path))


def test_the_commands_create_publish_and_record(stack, topics, tmp_path):
    trace = generated(tmp_path / "t.jsonl", "--pace", "backlog")
    names = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("impressions", "clicks")}
    pairs = [f"--topic={logical}={topic}" for logical, topic in names.items()]
    address = f"--bootstrap={stack.bootstrap_servers}"
    try:
        missing = run("tidemark replay", trace, address, *pairs)
        assert missing.returncode == EXIT_USAGE
        assert "there is no topic" in missing.stderr
        assert run("tidemark replay", trace, address, *pairs, "--create").returncode == 0
        done = run("tidemark record", address, *pairs, "--out", tmp_path / "back.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        assert (
            sum(json.loads(done.stdout)["counts"].values())
            == len(read(trace))
            == len(read(tmp_path / "back.jsonl"))
        )
    finally:
        kafka.delete_topics(stack.bootstrap_servers, names.values())


def test_what_does_not_fit_is_refused_with_a_hint(stack, topics, tmp_path):
    names = topics(a=1)
    header = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(1)})
    write_trace(tmp_path / "large.jsonl", header, [Record(topic="a", arrival_ms=1, value="x" * 2_000_000)])
    write_trace(
        tmp_path / "wide.jsonl", Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(2)}), []
    )
    write_trace(tmp_path / "zero.jsonl", header, [Record(topic="a", arrival_ms=0)])
    for name, words in (
        ("large", "a record is too large for topic"),
        ("wide", "has 1 partitions; the trace needs 2"),
        ("zero", "has the timestamp 0"),
    ):
        arguments = [
            tmp_path / f"{name}.jsonl",
            "--bootstrap",
            stack.bootstrap_servers,
            f"--topic=a={names['a']}",
        ]
        refused = run("producers replay", *arguments)
        assert refused.returncode == EXIT_USAGE, refused.stderr
        assert words in refused.stderr
        assert "hint: " in refused.stderr
        assert "Traceback" not in refused.stderr


def test_topics_keep_records_of_any_age(stack, topics):
    name = topics(a=1)["a"]
    resource = ConfigResource(ResourceType.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    settings = next(iter(admin.describe_configs([resource]).values())).result(ANSWER_S)
    assert {key: settings[key].value for key in kafka.TOPIC_SETTINGS} == kafka.TOPIC_SETTINGS


def test_a_topic_that_exists_or_is_missing_is_said(stack, topics):
    name = topics(a=1)["a"]
    with pytest.raises(UsageError, match="it exists"):
        kafka.create_topics(stack.bootstrap_servers, {name: 1})
    with pytest.raises(UsageError, match="there is no topic 'never-made'"):
        kafka.end_offsets(stack.bootstrap_servers, ["never-made"])
    kafka.delete_topics(stack.bootstrap_servers, ["never-made"])


def transactional(stack) -> Producer:
    name = uuid.uuid4().hex
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(ANSWER_S)
    return producer


def test_drain_skips_what_was_aborted_and_counts_control_records_as_read(stack, topics):
    name = topics(a=2)["a"]
    producer = transactional(stack)
    for value, commit in (("1", True), ("2", False), ("3", True), ("4", False)):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(name, value, partition=partition)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(ANSWER_S)
    for reading in (kafka.drain, kafka.read_all):
        found = list(reading(stack.bootstrap_servers, name))
        assert sorted((r.partition, r.value) for r in found) == [(0, "1"), (0, "3"), (1, "1"), (1, "3")]


def test_drain_waits_for_an_open_transaction_and_says_so(stack, topics):
    name = topics(a=1)["a"]
    producer = transactional(stack)
    producer.begin_transaction()
    producer.produce(name, "hanging", partition=0)
    producer.flush()
    with pytest.raises(OpenTransaction, match=r"end \{0: 1\}, last stable \{0: 0\}"):
        list(kafka.drain(stack.bootstrap_servers, name, timeout_s=1.5))
    assert list(kafka.read_all(stack.bootstrap_servers, name)) == []
    producer.commit_transaction(ANSWER_S)
    assert [r.value for r in kafka.drain(stack.bootstrap_servers, name)] == ["hanging"]


def test_drain_looks_again_before_it_believes_that_nothing_comes(stack, topics):
    name = topics(a=1)["a"]
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    producer.produce(name, "early", partition=0)
    producer.flush()
    found = []
    for item in kafka.drain(stack.bootstrap_servers, name, settle_s=2):
        found.append(item.value)
        if item.value == "early":
            late = threading.Timer(
                1, lambda: (producer.produce(name, b"\xff late", partition=0), producer.flush())
            )
            late.start()
    assert found == ["early", "\\xff late"]
