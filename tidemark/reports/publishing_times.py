"""When a record was published, as its trace says: Kafka's timestamp of it, and its slice.

Decides nothing. The timestamp of a record is the one that its producer set: in a run that of the trace, so that it is
as far from the event time as the record was late; in an audit, and of records that were recorded, a time of the wall
clock. When the broker had it is not kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidemark.formats.events import write_time
from tidemark.formats.evidence import TRACES, RunDirectory
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.trace import Record, TraceReader
from tidemark.oracle.spark.time_ranges import NULL_TIME_US, US_PER_MS

_NEAR_MS = 86_400_000
"""What is further from its event time than a day has nothing to do with it."""


@dataclass(frozen=True)
class Published:
    """A record's timestamp (0: none), the number of its slice, from 0, and how many slices its trace has."""

    timestamp_ms: int
    slice: int
    slices: int

    def text(self, time_us: int) -> str:
        """The same in words, with how far it is from an event time; begins with a comma, unless there is nothing."""
        said = ""
        if self.timestamp_ms > 0:
            said = f", Kafka's timestamp {write_time(self.timestamp_ms * US_PER_MS)}"
            apart_ms = self.timestamp_ms - time_us // US_PER_MS
            if time_us != NULL_TIME_US and 0 < abs(apart_ms) < _NEAR_MS:
                apart = f"{abs(apart_ms)} ms" if abs(apart_ms) < 1000 else f"{abs(apart_ms) / 1000:.6g} s"
                said += f" ({apart} {'after' if apart_ms > 0 else 'before'} it)"
        return said + (f", slice {self.slice + 1:,} of {self.slices:,}" if self.slices > 1 else "")


def published(record: Record, slices: int) -> Published:
    """What is known of a record of a trace with so many slices."""
    timestamp_ms = record.arrival_ms if record.timestamp_ms is None else record.timestamp_ms
    return Published(timestamp_ms, record.slice, slices)


def publishing_times(run: RunDirectory, places: Collection[str]) -> dict[str, Published]:
    """What is known of the records at these places (``topic/partition/offset``); the sentinels are no slice's."""
    found: dict[str, Published] = {}
    position = first_offsets(run.manifest.inputs)
    for name in TRACES:
        if name == "flush" and not run.file(name).is_file():
            continue
        with TraceReader(run.file(name)) as trace:
            slices = trace.header.slices if name == "trace" else 1
            for record in trace:
                place = record.topic, record.partition
                offset = position.get(place, 0)
                position[place] = offset + 1
                if (text := f"{record.topic}/{record.partition}/{offset}") in places:
                    found.setdefault(text, published(record, slices))
    return found
