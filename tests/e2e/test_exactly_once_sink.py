"""The exactly-once sink in queries on a real stack: rows once, whatever is restarted or mistaken."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.sql.functions import array, col, expr, lit, rand, struct, when

from tests.e2e.refusals import failure_of, must_refuse_an_old_batch, must_refuse_another_batch
from tests.e2e.sinks import Copy, connected, driver_of_ones_own
from tests.e2e.tasks import entries
from tests.support.environment import classic_environment
from tidemark.errors import SinkRefused
from tidemark.kafka import client as kafka
from tidemark.sink import write_exactly_once

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def session(stack):
    """One of a driver that soon gives up, because much is refused here, and trying again does not help."""
    conf = {"spark.task.maxFailures": "2"}
    with driver_of_ones_own(stack, **conf) as driver, connected(stack, driver) as session:
        yield session


@pytest.fixture
def copy(stack, session):
    return Copy(stack, session)


@pytest.mark.smoke
@pytest.mark.parametrize("how", [{"partitions": 2}, {"partitions": 3}, {"partitions": 1, "key": ()}])
def test_every_row_is_there_once_and_after_a_restart_only_the_new_ones_come(how, copy):
    copy.feed(250)
    query = copy.run(**how)
    assert copy.values() == copy.wanted()

    copy.feed(120)
    copy.run(**how)
    assert copy.values() == copy.wanted()

    known = entries(copy.bootstrap, query.id)
    assert len(known) == how["partitions"]
    assert all(entry.offsets for entry in known.values())


@pytest.mark.smoke
def test_a_batch_that_is_run_again_adds_nothing_where_sparks_own_sink_adds_duplicates(copy, stack, session):
    copy.feed(250)
    copy.run()
    copy.forget("commits")
    copy.run()
    assert copy.values() == copy.wanted()

    other = Copy(stack, session)
    other.feed(250)
    other.run_with_spark()
    other.forget("commits")
    other.run_with_spark()
    assert set(other.values()) == set(other.wanted())
    assert len(other.values()) > other.fed


def test_records_are_those_of_sparks_own_sink(copy, stack, session):
    other = Copy(stack, session)
    for sink in (copy, other):
        sink.feed(100)
        sink.output = copy.output if sink is copy else other.output
    records = copy.source().withColumn(
        "headers", array(struct(lit("h").alias("key"), lit(b"1").alias("value")))
    )
    copy.run(records)
    written = other.source().withColumn(
        "headers", array(struct(lit("h").alias("key"), lit(b"1").alias("value")))
    )
    query = written.writeStream.format("kafka").options(**other.options(), includeHeaders="true")
    query.trigger(availableNow=True).start().awaitTermination(60)

    def rows(sink):
        found = kafka.drain(sink.bootstrap, sink.output, settle_s=0.2)
        return sorted((row.key, row.value, row.partition, tuple(row.headers)) for row in found)

    assert rows(copy) == rows(other)
    assert len(rows(copy)) == 100


def test_headers_say_which_task_wrote_a_record(copy):
    copy.feed(150)
    query = copy.run(provenance=True)
    headers = [dict(row.headers) for row in kafka.drain(copy.bootstrap, copy.output, settle_s=0.2)]
    assert {found["query"] for found in headers} == {query.id}
    assert {found["batch"] for found in headers} == {"0", "1"}
    assert {found["partition"] for found in headers} == {"0", "1"}
    assert {found["attempt"] for found in headers} == {"0"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"partitions": 3}, "partitions 2 before, 3 now"),
        pytest.param({"partitions": 1, "key": ()}, "partitions 2 before, 1 now", marks=pytest.mark.long),
        ({"key": "value"}, "key expressions"),
        ({"options": {"topic": "OTHER"}}, "topic"),
    ],
)
def test_settings_changed_in_the_middle_of_a_batch_are_refused_and_between_batches_are_not(
    change, said, copy
):
    if "options" in change:
        change = {"options": {"topic": f"{copy.output}-2"}}
        kafka.create_topics(copy.bootstrap, {f"{copy.output}-2": 1})
    copy.feed(100)
    copy.run()
    copy.forget("commits")
    text = failure_of(copy, **change)
    assert "was begun with other settings" in text
    assert said in text

    copy.run()
    assert copy.values() == copy.wanted()
    if "options" not in change:
        copy.feed(100)
        copy.run(**change)
        assert copy.values() == copy.wanted()


def test_a_checkpoint_rolled_back_by_two_batches_is_refused(copy):
    copy.feed(300)
    copy.run()
    for log in ("commits", "commits", "offsets", "offsets"):
        copy.forget(log)
    assert "is older than the newest batch in Kafka" in failure_of(copy)
    assert copy.values() == copy.wanted()


def test_a_checkpoint_rolled_back_by_one_batch_is_refused_if_the_batch_is_another_now(copy):
    must_refuse_another_batch(copy)


def test_a_batch_older_than_what_brokers_remember_is_refused_unless_forced(copy):
    must_refuse_an_old_batch(copy)


def test_a_row_without_a_topic_fails_the_query_and_no_row_is_lost_after_the_repair(copy):
    copy.feed(100)
    to_sink = lit(copy.output)
    copy.extra = {"topic": None}
    spoiled = copy.source().withColumn("topic", when(col("value") != "7", to_sink))
    assert "a row has no topic" in failure_of(copy, spoiled)

    copy.run(copy.source().withColumn("topic", to_sink))
    assert copy.values() == copy.wanted()


def test_a_row_too_large_fails_the_query_and_no_row_is_lost_after_the_repair(copy):
    copy.feed(100)
    huge = when(col("value") == "7", expr("repeat('x', 2000000)")).otherwise(col("value"))
    text = failure_of(copy, copy.source().withColumn("value", huge), partitions=1, key=())
    assert "MSG_SIZE_TOO_LARGE" in text
    assert "max.request.size" in text
    assert copy.values() == []

    copy.run(partitions=1, key=())
    assert copy.values() == copy.wanted()


def test_what_would_break_the_promise_is_refused_before_the_query_starts(copy, session):
    refused = {
        "the key": {"key": rand()},
        "but no key": {"key": ()},
        "topic 'missing' does not exist": {"options": {"topic": "missing"}},
        "kafka.acks is '1'": {"options": {"kafka.acks": "1"}},
        "asyncprogresstrackingenabled": {"options": {"asyncProgressTrackingEnabled": "true"}},
    }
    for said, how in refused.items():
        with pytest.raises(SinkRefused) as error:
            copy.start(**how)
        assert said in str(error.value)
    with pytest.raises(SinkRefused, match="cast it to string or binary"):
        copy.start(copy.source().withColumn("value", lit(1)))
    with pytest.raises(SinkRefused, match="'headers' has type map<string,string>"):
        copy.start(copy.source().withColumn("headers", expr("map('a', 'b')")))
    with pytest.raises(SinkRefused, match="checkpointLocation"):
        write_exactly_once(copy.source(), {"kafka.bootstrap.servers": copy.inside, "topic": copy.output})


@pytest.mark.long  # every day: in test_sink_stopped.py
def test_the_sink_works_on_a_classic_session(stack, tmp_path):
    topic = f"classic-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {topic: 2})
    program = Path(__file__).parent / "sink_classic.py"
    for _ in range(
        2
    ):  # the second goes on where the first was stopped, in the middle of a batch as like as not
        subprocess.run(
            [sys.executable, program, stack.bootstrap_servers, topic, tmp_path / "checkpoint", "50"],
            env=classic_environment(),
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=200,
        )
    values = [int(row.value) for row in kafka.drain(stack.bootstrap_servers, topic)]
    assert len(values) >= 200
    assert sorted(values) == list(range(len(values)))
