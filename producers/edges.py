"""Edge rows: exactly at, just before and just after the event times at which the result of a join changes.

Pure, without I/O. Every edge row has a user of its own, so its result depends on no other row. ``W`` is the predicted
watermark after a slice, ``B`` the time bound. A click matches from ``impression_time`` to ``impression_time + B``, both
included. A row is late at ``W`` and before. An unmatched impression is evicted at ``W - B - 1 ms`` and before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from producers.draft import Draft
from producers.entities import ADS, PAGES, partition_of
from producers.settings import BASE_MS, CLICKS, IMPRESSIONS, Settings

BOUND_EDGES = ((0, 0), (-1, 0), (0, 1), (1, 0), (1, 1), (1, 1000))
"""Click times after the impression as (time bounds, microseconds); -1 means 1 ms before the impression."""

AROUND_MS = ((-1, 0), (0, 0), (0, 1), (1, 0))
"""Milliseconds and microseconds after the exact time."""


@dataclass
class EdgeMaker:
    """Makes edge rows, and counts them to give each its own user."""

    rng: Random
    settings: Settings
    users: int = 0

    def bound_edges(self) -> Iterator[list[Draft]]:
        """For each slice and each edge of the time bound, an impression with its click; all arrive on time."""
        for index in range(self.settings.wanted_slices):
            start_ms = BASE_MS + index * self.settings.span_ms
            for _ in range(self.settings.edges):
                rows: list[Draft] = []
                for bounds, micros in BOUND_EDGES:
                    seen_ms = start_ms + self.rng.randrange(self.settings.span_ms)
                    after_us = bounds * self.settings.bound_ms * 1000 + micros if bounds >= 0 else -1000
                    rows += self._pair(seen_ms, divmod(seen_ms * 1000 + after_us, 1000))
                for row in rows:
                    row.arrival_ms = row.event_ms + 1
                yield rows

    def late_edges(self, watermark_ms: int, slice_index: int) -> list[Draft]:
        """Rows of both topics around ``W`` (late at and before it), and pairs of which both or one are on time."""
        rows: list[Draft] = []
        for _ in range(self.settings.edges):
            rows += [
                self._row(topic, (watermark_ms + ms, micros))
                for ms, micros in AROUND_MS
                for topic in (IMPRESSIONS, CLICKS)
            ]
            rows += self._pair(watermark_ms + 1, (watermark_ms + 1, 0))
            rows += self._pair(watermark_ms, (watermark_ms + 1, 0))
        return self._arriving_in(rows, slice_index)

    def eviction_edges(self, before_ms: int, after_ms: int, slice_index: int) -> list[Draft]:
        """Unmatched impressions that the watermark after this slice just evicts or just keeps; none if all are late."""
        last_ms = after_ms - self.settings.bound_ms - 1
        if last_ms - 1 <= before_ms:
            return []
        rows = [
            self._row(IMPRESSIONS, (last_ms + ms, micros))
            for _ in range(self.settings.edges)
            for ms, micros in AROUND_MS
        ]
        return self._arriving_in(rows, slice_index)

    def _pair(self, seen_ms: int, clicked: tuple[int, int]) -> list[Draft]:
        impression = self._row(IMPRESSIONS, (seen_ms, 0))
        click = self._row(CLICKS, clicked)
        click.user, click.ad, click.partition = impression.user, impression.ad, impression.partition
        return [impression, click]

    def _row(self, topic: int, moment: tuple[int, int]) -> Draft:
        event_ms, sub_us = moment
        user = f"edge-{self.users}"
        self.users += 1
        ad, page = self.rng.randrange(ADS), self.rng.randrange(PAGES)
        place = partition_of(user, self.settings.partitions)
        return Draft(topic, 0, event_ms, user, ad, page, place, event_ms, is_edge=True, sub_us=sub_us)

    def _arriving_in(self, rows: list[Draft], slice_index: int) -> list[Draft]:
        start_ms = BASE_MS + slice_index * self.settings.span_ms
        for row in rows:
            row.arrival_ms = start_ms + self.rng.randrange(self.settings.span_ms)
        return rows
