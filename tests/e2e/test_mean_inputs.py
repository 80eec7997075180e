"""Mean inputs on a real stack: transactions, rollbacks and compaction in the log, and what a run makes of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from producers.kafka_out import KafkaOut
from producers.replay import publish_all
from tests.e2e.test_joins import rows_of
from tests.e2e.test_replay_and_record import generated, published
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Record, TraceReader
from tidemark.kafka import client as kafka

pytestmark = [pytest.mark.e2e]

LOG = ("--transactions", "0.2", "--aborted", "0.1")
INPUTS = {
    "payloads": ("--changed-duplicates", "0.05", "--moved-duplicates", "0.05"),
    "one key": ("--key-skew", "one:0.1"),
    "zipf": ("--key-skew", "zipf:1.5"),
    "silence": ("--silent", "clicks:0.4"),
    "rate": ("--events-per-second", "5", "--bursts", "0.3"),
    "clock": ("--lateness", "on_time+uniform:0.2*1+skewed_producer:0.1*1"),
    "transactions": LOG,
    "compacted": (*LOG, "--compacted", "0.2"),
}


def visible(broker, topics: dict[str, str], isolation: str) -> dict[tuple[str, int], dict[int, bytes | None]]:
    """By topic and partition, the value at each offset at which a reader of this isolation finds a record."""
    ends = kafka.end_offsets(broker, topics.values())
    found: dict[tuple[str, int], dict[int, bytes | None]] = defaultdict(dict)
    for name, topic in topics.items():
        for message in kafka.read_messages(broker, topic, ends[topic], isolation=isolation):
            found[name, message.partition()][message.offset()] = message.value()
    return found


def said(trace: Path, *, committed: bool) -> dict[tuple[str, int], dict[int, bytes | None]]:
    """The same as the trace says it."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    found: dict[tuple[str, int], dict[int, bytes | None]] = defaultdict(dict)
    with TraceReader(trace) as reader:
        for record in reader:
            place = record.topic, record.partition
            if record.absent is None:
                found[place][ends[place]] = record.value_bytes()
            elif record.absent == "aborted" and not committed:
                found[place][ends[place]] = (record.sent or "").encode()
            ends[place] += 1
    return found


@pytest.fixture
def topics(stack):
    """Topics of this test's own, some of them compacted, as `tidemark run` makes them."""
    made: list[str] = []

    def create(name: str, *, compacted: bool) -> dict[str, str]:
        names = {logical: f"{logical}-{name}" for logical in ("impressions", "clicks")}
        made.extend(names.values())
        kafka.create_topics(
            stack.bootstrap_servers, dict.fromkeys(names.values(), 2), made if compacted else ()
        )
        return names

    yield create
    kafka.delete_topics(stack.bootstrap_servers, made)


@pytest.mark.parametrize("compacted", [False, True], ids=["transactions", "compacted"])
def test_the_log_has_what_the_trace_says_at_each_offset(compacted, stack, topics, tmp_path):
    more = ("--compacted", "0.2", "--pace", "backlog") if compacted else ("--pace", "backlog")
    trace = generated(tmp_path / "trace.jsonl", *LOG, *more)
    names = topics(f"log-{tmp_path.name}", compacted=compacted)
    published(stack, trace, names)

    with TraceReader(trace) as reader:
        ends: dict[str, dict[int, int]] = {name: {0: 0, 1: 0} for name in names}
        for record in reader:
            ends[record.topic][record.partition] += 1
    assert kafka.end_offsets(stack.bootstrap_servers, names.values()) == {
        names[name]: parts for name, parts in ends.items()
    }
    assert visible(stack.bootstrap_servers, names, kafka.READ_COMMITTED) == said(trace, committed=True)
    if not compacted:  # the cleaner removes what was rolled back, too
        everything = visible(stack.bootstrap_servers, names, "read_uncommitted")
        assert everything == said(trace, committed=False)


def test_a_client_publishes_one_trace_with_transactions_after_the_other(stack, topics, tmp_path):
    names = topics(f"twice-{tmp_path.name}", compacted=False)
    place = {"topic": "clicks", "arrival_ms": 1_000, "transaction": 1}
    records = [Record(**place, absent="aborted", sent="{}"), Record(**place, absent="abort")]
    with KafkaOut(stack.bootstrap_servers, names) as out:
        for _ in range(3):
            publish_all(records, out, lambda _: None)

    assert kafka.end_offsets(stack.bootstrap_servers, [names["clicks"]]) == {names["clicks"]: {0: 6, 1: 0}}
    assert not visible(stack.bootstrap_servers, names, kafka.READ_COMMITTED)


@pytest.mark.long
@pytest.mark.parametrize("options", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("pace", ["stepped", "backlog"])
def test_a_sound_join_raises_no_alarm_over_a_mean_input(options, pace, run_pipeline):
    if "--compacted" in options and pace != "backlog":
        options = LOG
    verdict = run_pipeline("left_outer", pace=pace, seed=3, impressions=750, generator=options).verdict

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict


@pytest.mark.long
def test_replaying_a_trace_repeats_its_transactions_and_its_compaction(run_pipeline, tmp_path):
    options = INPUTS["compacted"]
    first = run_pipeline(
        "left_outer", pace="backlog", seed=4, impressions=400, generator=options, run_dir=tmp_path / "first"
    )
    again = run_pipeline("left_outer", trace=tmp_path / "first" / "trace.jsonl", run_dir=tmp_path / "again")

    assert first.verdict.verdict == again.verdict.verdict == "VALID"
    runs = [RunDirectory(one.run_dir) for one in (first, again)]
    ends = [{name: about.end_offsets for name, about in run.manifest.inputs.items()} for run in runs]
    assert ends[0] == ends[1]
    assert {value for _, value in rows_of(first.run_dir)} == {value for _, value in rows_of(again.run_dir)}


QUERY = """
from dataclasses import replace

from pyspark.sql.functions import struct, to_json

from pipelines.left_outer import CONTRACT as BUNDLED
from pipelines.left_outer import build
from tidemark import Delivery

CONTRACT = replace(BUNDLED, delivery=Delivery.EXACTLY_ONCE)


def start(spark, io):
    from tidemark.sink import write_exactly_once

    sides = [
        spark.readStream.format("kafka").options(**io.source(name)).options(**OPTIONS).load()
        for name in ("impressions", "clicks")
    ]
    records = build(*sides).select(to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value"))
    options = {
        "kafka.bootstrap.servers": io.bootstrap, "topic": io.output, "checkpointLocation": io.checkpoint,
    }
    return write_exactly_once(records, options, provenance=True).trigger(**io.trigger).start()


OPTIONS = {}
"""


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_query_that_reads_what_was_rolled_back_is_invalid(isolation, run_pipeline, tmp_path):
    file = tmp_path / "own_query.py"
    file.write_text(QUERY.replace("OPTIONS = {}", f'OPTIONS = {{"kafka.isolation.level": "{isolation}"}}'))

    verdict = run_pipeline(file, pace="backlog", seed=3, impressions=400, generator=LOG).verdict

    if isolation == "read_committed":
        assert (verdict.verdict, verdict.findings) == ("VALID", []), verdict
    else:
        assert verdict.verdict == "INVALID"
        assert verdict.findings_total["phantom_rows"] > 10
