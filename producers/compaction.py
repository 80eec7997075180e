"""What compaction has removed from the topics of a trace: sent, with the key of a later record, and waited for.

Kafka compacts a topic in its own time. What it has to remove has a value of its own here, so that it can be seen
whether it is still there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidemark.errors import DeadlineExceeded, TestbedError
from tidemark.waiting import wait_until

REMOVED = b"an earlier version, which compaction removes"
"""The value of what is to be removed."""

COMPACTED_S = 90.0
"""Calibration: the brokers of tidemark's stacks look for topics to compact every second, others every 15 s
(``log.cleaner.backoff.ms``)."""

READ_S = 30.0
"""Calibration: 100,000 records are read in a second."""
_BATCH = 10_000
_POLL_S = 0.1
"""So long a client waits for a batch that is not full."""


def wait_until_compacted(settings: Mapping[str, Any], places: Collection[tuple[str, int]]) -> None:
    """Wait until no partition has anything that compaction is to remove. Raises ``TestbedError`` if it stays."""
    left: dict[tuple[str, int], int] = dict.fromkeys(places, 0)

    def is_removed() -> bool:
        for place in sorted(left):
            left[place] = _still_there(settings, *place)
            if left[place]:
                return False
        return True

    try:
        wait_until(is_removed, COMPACTED_S, lambda: "compaction of the input topics", poll_s=0.5)
    except DeadlineExceeded as error:
        topic, partition = next(place for place in sorted(left) if left[place])
        raise TestbedError(
            f"{left[topic, partition]} records of {topic}/{partition} were not removed by compaction"
            f" within {COMPACTED_S:g} s",
            detail="the topic needs cleanup.policy=compact, min.cleanable.dirty.ratio=0 and segment.ms=1, as"
            " `tidemark run` and `tidemark replay --create` make it",
            hint="create the topic so, or leave out what is compacted (--compacted)",
        ) from error


def _still_there(settings: Mapping[str, Any], topic: str, partition: int) -> int:
    """How many records of a partition are still to be removed."""
    consumer = Consumer(
        {
            **settings,
            "group.id": "tidemark-producers",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + READ_S
        while time.monotonic() < deadline:
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is None:
                    found += message.value() == REMOVED
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                elif error.fatal() or not error.retriable():
                    raise TestbedError(
                        f"cannot read topic {topic!r}",
                        detail=error.str(),
                        hint="the broker's log says more: `tidemark status` names it",
                    )
        raise TestbedError(
            f"topic {topic!r} could not be read to its end within {READ_S:g} s",
            hint="`tidemark status` says whether the broker is well",
        )
    finally:
        consumer.close()
