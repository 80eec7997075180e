"""The arithmetic of a time bound: which times match, and when a row can match no more.

Free of everything but the contract. Times are integer microseconds, watermarks integer milliseconds. A bound
limits
``left.time - right.time``; its ends are milliseconds, inclusive unless strict.

State watermarks (``StreamingJoinHelper.getStateValueWatermark``): with ``lower <= left - right <= upper`` and
watermark W, a left row is evictable at ``time <= W + lower - 1 ms`` and a right row at ``time <= W - upper -
1 ms``; a strict end loses the ``- 1 ms``; an open end leaves that side without eviction. A row at or before a
watermark is late.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.contract import Bound

US_PER_MS = 1000
FOREVER_US = 1 << 62
"""Further than any event time, and far enough from the end of 64 bits to be added to."""


@dataclass(frozen=True)
class Window:
    """``lower_us <= left.time_us - right.time_us <= upper_us``, inclusive; an open end is ``FOREVER_US``."""

    lower_us: int
    upper_us: int

    def holds(self, left_us: int, right_us: int) -> bool:
        """Whether two times match."""
        return self.lower_us <= left_us - right_us <= self.upper_us


def window(bound: Bound) -> Window:
    """A bound in whole microseconds, strict ends made inclusive."""
    low, high = bound.lower_ms, bound.upper_ms
    return Window(
        -FOREVER_US if low is None else low * US_PER_MS + bound.lower_strict,
        FOREVER_US if high is None else high * US_PER_MS - bound.upper_strict,
    )


def left_state_ms(bound: Bound, watermark_ms: int) -> int | None:
    """The last event time (ms) at which a left row is evictable under a watermark; ``None``: never."""
    if bound.lower_ms is None:
        return None
    return watermark_ms + bound.lower_ms - (0 if bound.lower_strict else 1)


def right_state_ms(bound: Bound, watermark_ms: int) -> int | None:
    """The last event time (ms) at which a right row is evictable under a watermark; ``None``: never."""
    if bound.upper_ms is None:
        return None
    return watermark_ms - bound.upper_ms - (0 if bound.upper_strict else 1)


def left_expiry_ms(bound: Bound, time_us: int) -> int | None:
    """The smallest watermark (ms) that evicts a left row of this time; ``None``: none does."""
    state_ms = left_state_ms(bound, 0)
    return None if state_ms is None else -(-time_us // US_PER_MS) - state_ms


def right_expiry_ms(bound: Bound, time_us: int) -> int | None:
    """The smallest watermark (ms) that evicts a right row of this time; ``None``: none does."""
    state_ms = right_state_ms(bound, 0)
    return None if state_ms is None else -(-time_us // US_PER_MS) - state_ms
