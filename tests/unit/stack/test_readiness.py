"""The round trip through the brokers: made again while a broker does not answer, and ended by what no time mends."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import KafkaRefused, TestbedError
from tidemark.kafka.connection import NO_ANSWER
from tidemark.stack import readiness

HERE = "127.0.0.1:9092"


def failing(monkeypatch, *codes):
    """A round trip that fails so, one time after the other, and is made then; gives the topics of all attempts."""
    topics, left = [], list(codes)

    def made(_broker, topic, _brokers, _unless):
        topics.append(topic)
        if left:
            raise KafkaException(KafkaError(left.pop(0)))

    monkeypatch.setattr(readiness, "await_brokers", lambda *_: None)
    monkeypatch.setattr(readiness, "_write_and_read", made)
    return topics


def never():
    """What would end the wait."""


@pytest.mark.parametrize("code", NO_ANSWER)
def test_a_round_trip_that_no_broker_answered_is_made_again_with_its_topic(monkeypatch, code):
    topics = failing(monkeypatch, code, code)

    readiness.round_trip(HERE, never)

    assert len(topics) == 3
    assert len(set(topics)) == 1


def test_any_other_error_of_kafka_ends_the_round_trip(monkeypatch):
    topics = failing(monkeypatch, KafkaError.INVALID_REPLICATION_FACTOR)

    with pytest.raises(TestbedError, match=f"could not be written to and read from the broker at {HERE}"):
        readiness.round_trip(HERE, never)
    assert len(topics) == 1


def test_a_right_that_is_missing_ends_the_round_trip(monkeypatch):
    topics = failing(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaRefused):
        readiness.round_trip(HERE, never)
    assert len(topics) == 1


def test_what_ends_the_wait_is_raised_between_two_attempts(monkeypatch):
    topics = failing(monkeypatch, *[KafkaError._TRANSPORT] * 1000)

    def died():
        if len(topics) == 2:
            raise TestbedError("the broker died", hint="see its log")

    with pytest.raises(TestbedError, match="the broker died"):
        readiness.round_trip(HERE, died)


def test_a_topic_that_an_earlier_request_has_created_is_there():
    created: Future[None] = Future()
    created.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
    readiness._must_be_there(created)

    refused: Future[None] = Future()
    refused.set_exception(KafkaException(KafkaError(KafkaError.POLICY_VIOLATION)))
    with pytest.raises(KafkaException):
        readiness._must_be_there(refused)
