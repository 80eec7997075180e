"""Recording the messages of a partition: arrival times and record timestamps."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.formats.trace import Record
from tidemark.kafka.record import _partition


def recorded(*timestamps: tuple[int, int]) -> list[Record]:
    messages = [
        Message(topic="a", partition=0, offset=offset, value=b"v", timestamp=timestamp)
        for offset, timestamp in enumerate(timestamps)
    ]
    return list(_partition(iter(messages), "a", None))


@pytest.mark.parametrize("timestamp_ms", [0, 1, 7])
def test_an_old_timestamp_is_kept(timestamp_ms):
    first, second = recorded((TIMESTAMP_CREATE_TIME, 100), (TIMESTAMP_CREATE_TIME, timestamp_ms))
    assert (first.arrival_ms, first.timestamp_ms) == (100, None)
    assert (second.arrival_ms, second.timestamp_ms) == (100, timestamp_ms)


def test_a_timestamp_of_0_is_kept_for_the_first_record():
    [only] = recorded((TIMESTAMP_CREATE_TIME, 0))
    assert (only.arrival_ms, only.timestamp_ms) == (1, 0)


def test_a_record_without_a_timestamp_has_none_beside_its_arrival():
    _, second = recorded((TIMESTAMP_CREATE_TIME, 100), (TIMESTAMP_NOT_AVAILABLE, -1))
    assert (second.arrival_ms, second.timestamp_ms) == (100, None)
