"""A generated trace as the oracle reads it: the file, its records by slice, and their events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from producers.generate import write
from producers.settings import Settings
from tidemark.formats.contract import Side
from tidemark.formats.events import Event, read_event
from tidemark.formats.trace import Header, Record, TraceReader

SIDES = {
    "impressions": Side("impressions", "impression_id", ("user_id", "ad_id"), "impression_time", 10_000),
    "clicks": Side("clicks", "click_id", ("user_id", "ad_id"), "click_time", 20_000),
}


@dataclass(frozen=True)
class Written:
    path: Path
    sha256: str
    settings: Settings
    header: Header
    records: list[Record]

    def events(self) -> list[tuple[Record, Event | None]]:
        """Each record with what the pipelines make of its value."""
        return [(record, read_event(record.value, SIDES[record.topic])) for record in self.records]

    def slices(self) -> list[list[tuple[Record, Event]]]:
        """The readable events, slice by slice."""
        found: list[list[tuple[Record, Event]]] = [[] for _ in range(self.header.slices)]
        for record, event in self.events():
            if event is not None:
                found[record.slice].append((record, event))
        return found

    def watermarks_ms(self, keyless_filtered: tuple[str, ...] = ()) -> list[int]:
        """The watermark that each slice meets, by the rule itself, counted from what stands in the file.

        ``keyless_filtered`` are the topics whose rows without a key are dropped upstream of the watermark.
        """
        delays = dict(zip(SIDES, self.settings.delays_ms, strict=True))
        latest_us: dict[str, int] = {}
        met, watermark = [], 0
        for rows in self.slices():
            met.append(watermark)
            for record, event in rows:
                if None in event.key and record.topic in keyless_filtered:
                    continue
                latest_us[record.topic] = max(latest_us.get(record.topic, 0), event.time_us)
            reached = [latest_us[name] // 1000 - delays[name] if name in latest_us else 0 for name in delays]
            watermark = max(watermark, min(reached))
        return [*met, watermark]


@pytest.fixture
def make(tmp_path):
    """``make(**settings)``: generate, write, read back."""

    def made(**settings) -> Written:
        chosen = Settings(**settings)
        path = tmp_path / "trace.jsonl"
        sha256, _ = write(chosen, path)
        with TraceReader(path) as reader:
            return Written(path, sha256, chosen, reader.header, list(reader))

    return made
