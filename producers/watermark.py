"""Predicts the watermark of a trace with pace ``stepped`` before it is published.

Pure, without I/O. Each slice is one batch, followed by a no-data batch. While slice ``k + 1`` is read, the late
watermark and the eviction watermark are therefore both the watermark after slice ``k``: with policy ``min``, the
minimum over the inputs of (greatest event time, floored to milliseconds, minus the delay). It never decreases, and is
0 until every input has had a row.
"""

from __future__ import annotations

from collections.abc import Sequence


class PredictedWatermark:
    """Observe the rows of a slice, then close it. ``value_ms`` is then the watermark for the next slice."""

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self.delays_ms = tuple(delays_ms)
        self.latest_ms: list[int | None] = [None] * len(self.delays_ms)
        self.value_ms = 0

    def observe(self, side: int, event_ms: int) -> None:
        """Count a row of input ``side`` that reaches the watermark node."""
        latest = self.latest_ms[side]
        if latest is None or event_ms > latest:
            self.latest_ms[side] = event_ms

    def close_slice(self) -> int:
        """End the slice; returns the watermark after it."""
        reached = [
            0 if latest is None else latest - delay
            for latest, delay in zip(self.latest_ms, self.delays_ms, strict=True)
        ]
        self.value_ms = max(self.value_ms, min(reached))
        return self.value_ms
