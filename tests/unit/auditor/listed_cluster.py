"""A cluster whose topics are lists, in the place of Kafka's client of an audit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TIMESTAMP_CREATE_TIME

from tidemark.auditor.offset_gaps import CleanupPolicy
from tidemark.kafka import client


@dataclass
class Message:
    """As Kafka's client gives one."""

    place: tuple[int, int]
    text: str | None

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]

    def value(self) -> bytes | None:
        return None if self.text is None else self.text.encode()

    def key(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes]]:
        return []

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, 1_767_225_600_000


@dataclass
class Cluster:
    """Topics by name: the records of partition 0 by offset, where they begin, and where they end."""

    records: dict[str, dict[int, str | None]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def start_offsets(self, _broker: object, topics: list[str]) -> client.Ends:
        return {topic: {0: self.starts.get(topic, 0)} for topic in topics}

    def end_offsets(self, _broker: object, topics: list[str]) -> client.Ends:
        return {
            topic: {0: self.ends.get(topic, max(self.records[topic], default=-1) + 1)} for topic in topics
        }

    stable_offsets = end_offsets

    def partitions(self, _broker: object) -> dict[str, int]:
        return {**dict.fromkeys(self.records, 1), "__consumer_offsets": 50}

    def cleanup_policies(self, _broker: object, topics: list[str]) -> dict[str, CleanupPolicy]:
        """``delete`` if nothing else is set; ``""``: the login may not read it."""
        found = {topic: self.policies.get(topic, "delete") for topic in topics}
        return {topic: CleanupPolicy(topic, said or None, "not allowed") for topic, said in found.items()}

    def read_messages(
        self,
        _broker: object,
        topic: str,
        stable: Mapping[int, int],
        start: Mapping[int, int] | None = None,
        *,
        isolation: str = "read_committed",
    ) -> Iterator[Message]:
        self.asked.append((topic, isolation))
        for offset, text in sorted(self.records[topic].items()):
            if (start or {}).get(0, 0) <= offset < stable[0]:
                yield Message((0, offset), text)


def event(side: str, name: str, seconds: int) -> str:
    return json.dumps({side: name, "user": "a", "time": f"2026-01-01T00:00:{seconds:02}Z"})
