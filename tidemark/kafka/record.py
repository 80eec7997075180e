"""Records the topics of any Kafka cluster as a trace.

All partitions are merged by record timestamp; each keeps its own order. Records with equal timestamps are ordered by
topic, then by partition, as in a generated trace, so ``record(replay(trace))`` gives the same trace. The topics are
read at ``read_committed``, up to their last stable offsets at the start, in bounded memory.

A trace has two things that Kafka does not store: slices, which are cut by arrival time if ``slice_s`` is given, and
event times, which are read from the values if there is a contract. Bytes that are not valid UTF-8 are kept as base64 in
values, keys and headers.
"""

from __future__ import annotations

import base64
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.events import read_event
from tidemark.formats.trace import FORMAT, Header, Pace, Record, TopicSpec, TraceReader, write_trace
from tidemark.kafka import client as kafka
from tidemark.kafka.connection import Broker

Progress = Callable[[int], None]
PROGRESS_EVERY = 10_000
_ANY_SLICES = 2**31


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What to record: logical name -> topic, in the order of the trace's header; ``slice_s`` 0 gives one slice."""

    topics: Mapping[str, str]
    pace: Pace = "timed"
    slice_s: float = 0
    contract: Contract | None = None


def record(broker: Broker, options: RecordOptions, path: Path, progress: Progress) -> tuple[str, Header]:
    """Write the topics' records to the trace ``path``; returns its SHA-256 and its header.

    Raises ``UsageError`` if a topic is missing or all are empty.
    """
    stable = kafka.stable_offsets(broker, options.topics.values())
    topics = {name: TopicSpec(len(stable[topic])) for name, topic in options.topics.items()}
    header = Header(tidemark_trace=FORMAT, pace=options.pace, topics=topics, slices=_ANY_SLICES)
    cutter = _Cutter(options.slice_s)
    # The first line has the numbers of slices and records, which are known only at the end: a draft is copied.
    draft = path.with_name(f".{path.name}.draft")
    try:
        write_trace(draft, header, cutter.cut(_merged(broker, options, stable), progress))
        if not cutter.counts:
            raise UsageError(
                f"there is nothing to record: {', '.join(options.topics.values())} hold no records",
                hint="records of an open or aborted transaction are not read",
            )
        header.slices = cutter.slices
        header.counts = {name: cutter.counts[name] for name in topics}
        header.generator = "tidemark.kafka.record"
        with TraceReader(draft) as reader:
            return write_trace(path, header, reader), header
    finally:
        draft.unlink(missing_ok=True)


class _Cutter:
    """Assigns each record its slice, and counts slices and records."""

    def __init__(self, slice_s: float) -> None:
        self._slice_ms = round(slice_s * 1000)
        self.slices = 1
        self.counts: Counter[str] = Counter()

    def cut(self, records: Iterator[Record], progress: Progress) -> Iterator[Record]:
        stretch: int | None = None
        for number, item in enumerate(records, 1):
            if self._slice_ms:
                now = item.arrival_ms // self._slice_ms
                self.slices += stretch is not None and now != stretch
                stretch = now
                item.slice = self.slices - 1
            self.counts[item.topic] += 1
            if number % PROGRESS_EVERY == 0:
                progress(number)
            yield item


def _merged(broker: Broker, options: RecordOptions, stable: kafka.Ends) -> Iterator[Record]:
    """All partitions by arrival. ``heapq.merge`` is stable: equal arrivals keep the order of topics and partitions."""
    streams = [
        _partition(kafka.read_messages(broker, topic, {partition: end}), name, options.contract)
        for name, topic in options.topics.items()
        for partition, end in stable[topic].items()
    ]
    return heapq.merge(*streams, key=lambda item: item.arrival_ms)


def _partition(messages: Iterator[Message], name: str, contract: Contract | None) -> Iterator[Record]:
    """The records of one partition. Arrival times never decrease, even where record timestamps do."""
    side = contract.side(name) if contract else None
    latest_ms = 1
    for message in messages:
        shown = kafka.output_record(message)
        has_none = message.timestamp()[0] == TIMESTAMP_NOT_AVAILABLE
        latest_ms = max(latest_ms, shown.timestamp_ms)
        value, value_base64 = text_or_base64(message.value())
        key, key_base64 = text_or_base64(message.key())
        event = read_event(value, side) if side is not None and side.decode is None else None
        yield Record(
            topic=name,
            value=value,
            value_base64=value_base64,
            key=key,
            key_base64=key_base64,
            arrival_ms=latest_ms,
            timestamp_ms=None if has_none or shown.timestamp_ms == latest_ms else shown.timestamp_ms,
            event_ms=event.time_us // 1000 if event else None,
            partition=shown.partition,
            headers=shown.headers,
        )


def text_or_base64(data: bytes | str | None) -> tuple[str | None, str | None]:
    """The bytes of a key or value as text or, if they are not valid UTF-8, as base64."""
    if not isinstance(data, bytes):
        return data, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()
