"""The watermark that a trace will have under the pace ``stepped``, known before it is published.

Free of I/O. Each slice is one batch, followed by a no-data batch, so while slice ``k + 1`` is read both
watermarks (the one for late rows and the one for eviction) are what they became after slice ``k``: under
the policy ``min`` the least over the inputs of (greatest event time seen, floored to milliseconds, minus
the delay), never going back, and 0 until every input has been seen.
"""

from __future__ import annotations

from collections.abc import Sequence


class PredictedWatermark:
    """Observe the rows of a slice, then close it. ``value_ms`` is the watermark that the next slice meets."""

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self.delays_ms = tuple(delays_ms)
        self.latest_ms: list[int | None] = [None] * len(self.delays_ms)
        self.value_ms = 0

    def observe(self, side: int, event_ms: int) -> None:
        """A row of input ``side`` that reaches the watermark node."""
        latest = self.latest_ms[side]
        if latest is None or event_ms > latest:
            self.latest_ms[side] = event_ms

    def close_slice(self) -> int:
        """The watermark after the slice."""
        reached = [
            0 if latest is None else latest - delay
            for latest, delay in zip(self.latest_ms, self.delays_ms, strict=True)
        ]
        self.value_ms = max(self.value_ms, min(reached))
        return self.value_ms
