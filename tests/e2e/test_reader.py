"""The error of a reader that gets no more records: the topic was deleted, or the broker is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Message, Producer

from tests.e2e.own_broker import OwnBroker, own_broker
from tidemark.errors import DeadlineExceeded, OpenTransaction, TestbedError
from tidemark.kafka import client as kafka

RECORDS = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    with own_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def reader_at_the_end(broker: OwnBroker, topic: str) -> Iterator[Message]:
    """A reader that has read all records, and waits for one more."""
    kafka.create_topics(broker.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=0)
    producer.flush()
    reader = kafka.read_messages(broker.bootstrap, topic, {0: RECORDS + 1})
    assert [next(reader).offset() for _ in range(RECORDS)] == list(range(RECORDS))
    return reader


def test_a_reader_reports_that_its_topic_was_deleted(broker, monkeypatch):
    monkeypatch.setattr(kafka, "DRAIN_S", 20.0)
    reader = reader_at_the_end(broker, "deleted")
    kafka.delete_topics(broker.bootstrap, ["deleted"])

    with pytest.raises(TestbedError, match="topic 'deleted' was deleted while it was read") as raised:
        next(reader)
    assert not isinstance(raised.value, DeadlineExceeded)
    assert f"read up to {{0: {RECORDS}}}; last error: " in raised.value.detail


def test_a_reader_at_its_deadline_reports_that_its_topic_was_deleted(broker, monkeypatch):
    monkeypatch.setattr(kafka, "DRAIN_S", 1.0)
    reader = reader_at_the_end(broker, "deleted-late")
    kafka.delete_topics(broker.bootstrap, ["deleted-late"])

    with pytest.raises(TestbedError, match="topic 'deleted-late' was deleted while it was read"):
        next(reader)


def test_a_reader_of_an_existing_topic_does_not_report_a_deletion(broker, monkeypatch):
    monkeypatch.setattr(kafka, "DRAIN_S", 6.0)
    with pytest.raises(
        DeadlineExceeded, match="timed out after 6 s waiting for the committed records of 'there'"
    ) as raised:
        next(reader_at_the_end(broker, "there"))
    assert isinstance(raised.value, OpenTransaction)
    assert "transaction" in raised.value.hint


def test_a_reader_whose_broker_is_gone_reports_the_last_error(broker, monkeypatch):
    monkeypatch.setattr(kafka, "DRAIN_S", 6.0)
    reader = reader_at_the_end(broker, "unreachable")
    broker.kill()
    try:
        with pytest.raises(DeadlineExceeded, match="timed out after 6 s waiting for") as raised:
            next(reader)
    finally:
        broker.start()
    assert raised.value.detail.startswith("last error: ")
    assert "broker" in raised.value.detail.lower()
    assert not isinstance(raised.value, OpenTransaction)
    assert "transaction" not in raised.value.hint
