"""Arranges drafts in slices: cuts them by arrival time, adds the edge rows, sorts, predicts which rows are late.

Pure, without I/O. Slices are intervals of arrival time of equal length; the last one also has all later records. An
empty slice is left out, because no batch would follow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from producers.draft import Draft, Flaw, arrival_order
from producers.edges import EdgeMaker
from producers.settings import BASE_MS, Settings
from tidemark.formats.watermark import WatermarkTracker

UNCERTAIN_BATCHES = 3
"""Two for Spark's rule for the late watermark, and one because batches are not cut where slices are."""


@dataclass
class Arrivals:
    """The finished slices; for pace ``stepped``, the late watermark of each and the number of late rows."""

    slices: list[list[Draft]] = field(default_factory=list)
    watermarks_ms: list[int] = field(default_factory=list)
    late: int = 0


def arrange(drafts: Iterable[Draft], settings: Settings, edges: EdgeMaker) -> Arrivals:
    """Cut the drafts into slices and add edge rows around the watermark that each slice will have."""
    predicted, arrivals = WatermarkTracker(settings.delays_ms), Arrivals()
    for index, rows in enumerate(_cut(drafts, settings)):
        if not rows:
            continue
        before_ms = predicted.watermark_ms
        if before_ms:
            rows += edges.late_edges(before_ms, index)
        _observe(rows, predicted)
        after_ms = predicted.advance()
        rows += edges.eviction_edges(before_ms, after_ms, index)
        rows.sort(key=arrival_order)
        arrivals.slices.append(rows)
        arrivals.watermarks_ms.append(before_ms)
        arrivals.late += _late(rows, before_ms)
    return arrivals


def late_in_any_backlog(arrivals: Arrivals, settings: Settings) -> int:
    """The rows that a catch-up drops as late, wherever its batches begin. A batch has about as many records as a slice.

    The late watermark of a batch stems from the batch two before it. A row is therefore late in any case if the
    watermark had passed it ``UNCERTAIN_BATCHES`` batches of records earlier.
    """
    predicted = WatermarkTracker(settings.delays_ms)
    records = sum(map(len, arrivals.slices))
    step = max(records // len(arrivals.slices) // 4, 1)
    reached: list[int] = []
    found = index = 0
    for rows in arrivals.slices:
        for row in rows:
            if index % step == 0:
                reached.append(predicted.advance())
            index += 1
            if row.flaw is not Flaw.NONE:
                continue
            predicted.observe(row.topic, row.event_ms)
            known = len(reached) - 1 - 4 * UNCERTAIN_BATCHES
            found += known >= 0 and row.event_ms <= reached[known]
    return found


def _cut(drafts: Iterable[Draft], settings: Settings) -> list[list[Draft]]:
    slices: list[list[Draft]] = [[] for _ in range(settings.wanted_slices)]
    span_ms, last = settings.span_ms, settings.wanted_slices - 1
    for draft in drafts:
        slices[min(max((draft.arrival_ms - BASE_MS) // span_ms, 0), last)].append(draft)
    return slices


def _observe(rows: list[Draft], predicted: WatermarkTracker) -> None:
    """Advance the predicted watermark by these rows.

    Some join kinds filter rows without a key below the watermark, others do not. If such a row were the latest of its
    input, the watermark would depend on the join kind: it is given its key back.
    """
    keyless = []
    for row in rows:
        if row.flaw is Flaw.NONE:
            predicted.observe(row.topic, row.event_ms)
        elif row.flaw is Flaw.NULL_KEY:
            keyless.append(row)
    for row in keyless:
        latest_ms = predicted.latest_ms[row.topic]
        if latest_ms is None or row.event_ms > latest_ms:
            row.flaw = Flaw.NONE
            predicted.observe(row.topic, row.event_ms)


def _late(rows: Iterable[Draft], watermark_ms: int) -> int:
    """The number of rows with a key and a time at or before the watermark; one microsecond after it is not late."""
    return sum(
        1
        for row in rows
        if row.event_ms <= watermark_ms
        and row.flaw is Flaw.NONE
        and (row.event_ms < watermark_ms or not row.sub_us)
    )
