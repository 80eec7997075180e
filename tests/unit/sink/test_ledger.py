"""Ledger entries: how they are stored, and the checks that refuse a write that contradicts them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from tidemark.errors import SinkRefused
from tidemark.sink.driver.in_flight import check_age, read_offsets
from tidemark.sink.ledger import NONE, LedgerEntry, Names, group_metadata, read_entry
from tidemark.sink.ledger_checks import Task, check_entry, check_fingerprint
from tidemark.sink.records import KEYS, KeySum, check_columns, records

TASK = Task(query="q", run="r", batch=5, partition=0, attempt=0, partitions=2)
MINE = LedgerEntry(6, 2, 10, "00", "aa", "layout", "out", "cluster", "r")


def test_an_entry_is_stored_as_ascii_and_read_back():
    stored = replace(MINE, topic="ü").to_metadata()
    assert stored.isascii()
    assert read_entry("g", 6, stored) == replace(MINE, topic="ü")
    assert read_entry("g", NONE, None) is None


@pytest.mark.parametrize("metadata", ["", None, "somebody's", '{"v":2}', "[]"])
def test_an_offset_that_the_sink_did_not_write_is_refused(metadata):
    with pytest.raises(SinkRefused, match="another application commits offsets"):
        read_entry("g", 6, metadata)


def test_group_metadata_is_what_a_consumer_without_members_returns():
    group = Names("tidemark", "4a6e0f2e", "0").group(3)
    consumer = Consumer({"group.id": group, "bootstrap.servers": "localhost:1", "log_level": 0})
    assert group == "tidemark.4a6e0f2e.0.3"
    assert group_metadata(group) == consumer.consumer_group_metadata()
    consumer.close()


def test_the_previous_batch_may_have_been_written_with_other_settings():
    check_entry(
        replace(MINE, next_batch=5, partitions=8, layout="other", topic="old", offsets="bb"), MINE, TASK
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"next_batch": 7}, "rolled back"),
        ({"partitions": 3}, "partitions 3 before, 2 now"),
        ({"layout": "other"}, "key expressions"),
        ({"topic": "old"}, "topic 'old' before, 'out' now"),
        ({"cluster": "old"}, "cluster 'old' before"),
        ({"offsets": "bb"}, "rolled back by one batch"),
    ],
)
def test_a_batch_that_was_begun_with_other_settings_is_refused(change, said):
    with pytest.raises(SinkRefused) as refused:
        check_entry(replace(MINE, **change), MINE, TASK)
    assert said in str(refused.value)


def test_unknown_source_offsets_are_not_compared():
    check_entry(replace(MINE, offsets=""), MINE, TASK)
    check_entry(MINE, replace(MINE, offsets=""), TASK)


def batch(*hashes):
    return pa.RecordBatch.from_pydict(
        {"value": ["v"] * len(hashes), KEYS: pa.array(hashes, pa.int64())},
    )


def fingerprint(*batches):
    keys = KeySum()
    for one in batches:
        keys.add(one)
    return keys


def test_a_fingerprint_does_not_depend_on_row_order_or_arrow_batches():
    one = fingerprint(batch(1, -2, 3), batch(2**63 - 1, -(2**63)))
    other = fingerprint(batch(-(2**63), 3, 2**63 - 1, 1, -2))
    assert (str(one), one.rows) == (str(other), other.rows)
    assert int(str(one), 16) == (1 - 2 + 3 - 1) % 2**64


def test_a_partition_with_other_keys_is_refused():
    keys = fingerprint(batch(1, 2))
    there = replace(MINE, rows=2, keys=str(keys))
    check_fingerprint(there, fingerprint(batch(2), batch(1)), TASK)
    with pytest.raises(SinkRefused, match="2 rows now, 2 in Kafka, with other keys"):
        check_fingerprint(there, fingerprint(batch(1, 3)), TASK)
    with pytest.raises(SinkRefused, match="3 rows now, 2 in Kafka\n"):
        check_fingerprint(there, fingerprint(batch(1, 2, 0)), TASK)


OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{}}\n{"in":{"0":5}}\n-\n'


def test_a_batch_fingerprint_covers_the_offsets_but_not_the_timestamp():
    again = read_offsets(10, OFFSETS.replace("1767225600000", "1767225600001"))
    other = read_offsets(10, OFFSETS.replace('"0":5', '"0":6'))
    assert again.offsets == read_offsets(10, OFFSETS).offsets != other.offsets


def test_a_batch_older_than_the_offset_retention_is_refused():
    batch = read_offsets(10, OFFSETS)
    check_age(batch, 86_400 * 5, datetime(2026, 1, 5, tzinfo=UTC))
    with pytest.raises(SinkRefused, match=r"batch 10 was begun 5\.5 days ago"):
        check_age(batch, 86_400 * 5, datetime(2026, 1, 6, 12, tzinfo=UTC))
    check_age(batch, float("inf"), datetime(2027, 1, 6, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"key": "string"}, "t", "no column 'value'"),
        ({"value": "int"}, "t", "cast it to string or binary"),
        ({"value": "string"}, None, "no output topic is set"),
        (
            {"value": "string", "headers": "map<string,string>"},
            "t",
            "'headers' has type map<string,string>",
        ),
        ({"value": "string", "user": "string"}, "t", "'user' is not a field"),
    ],
)
def test_columns_that_do_not_make_a_kafka_record_are_refused(columns, topic, said):
    with pytest.raises(SinkRefused, match=said):
        check_columns(columns, topic)


def test_a_row_becomes_a_record():
    rows = pa.RecordBatch.from_pydict(
        {
            "value": ["ü", None],
            "key": [None, "k"],
            "topic": ["a", "b"],
            "partition": pa.array([None, 3], pa.int32()),
            "headers": [[{"key": "h", "value": b"1"}], None],
        }
    )
    assert list(records(rows, None, [("batch", b"7")])) == [
        ("a", "ü".encode(), None, -1, [("h", b"1"), ("batch", b"7")]),
        ("b", None, b"k", 3, [("batch", b"7")]),
    ]
    assert [record[0] for record in records(rows, "fixed", [])] == ["fixed", "fixed"]


def test_a_row_without_a_topic_is_refused():
    rows = pa.RecordBatch.from_pydict({"value": ["v"], "topic": pa.array([None], pa.string())})
    with pytest.raises(SinkRefused, match="a row has no topic"):
        list(records(rows, None, []))
