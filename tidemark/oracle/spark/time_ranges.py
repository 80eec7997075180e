"""The arithmetic of a time bound: which times match, and when a row can match no more.

Free of everything but the contract. Times are integer microseconds, watermarks integer milliseconds. A bound
limits ``left.time - right.time``; its ends are milliseconds, inclusive unless strict. Where times are windows, the
end of a window stands for it.

State watermarks, as the last time at which a row is evictable under watermark W:

* key (``StreamingSymmetricHashJoinHelper.getStateWatermarkPredicates``): the times are equal, and one of them at
  least carries a watermark. Both sides: W. It outranks every other bound.
* value (``StreamingJoinHelper.getStateValueWatermark``): both times carry a watermark. With ``lower <= left - right
  <= upper`` a left row: W + lower - 1 ms, a right row: W - upper - 1 ms; a strict end loses the ``- 1 ms``.
* none: an open end, or a watermark on one side only (SPARK-46350).

Beside the value there may be *limits* that do not move: Spark takes a conjunct such as ``left.price > 5`` for a lower
bound of the event time, in seconds since the epoch (``placing.limits_ms``). The smallest of all rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.formats.contract import Bound, Contract

LEFT, RIGHT = 0, 1
US_PER_MS = 1000
FOREVER_US = 1 << 62
"""Further than any event time, and far enough from the end of 64 bits to be added to."""
NULL_TIME_US = 1 << 61
"""The time of a row without event time: never late, and never expired in a state that is not ordered by time."""
FIRST_FORMAT_BY_TIME = 4
"""The first state format whose rows are ordered by time. No time is the epoch there: what ``UnsafeRow.getLong`` gives
(``SymmetricHashJoinStateManagerV4.extractEventTimeFn``)."""


@dataclass(frozen=True)
class TimeRange:
    """``lower_us <= left.time_us - right.time_us <= upper_us``, inclusive; an open end is ``FOREVER_US``."""

    lower_us: int
    upper_us: int

    def holds(self, left_us: int, right_us: int) -> bool:
        """Whether two times match."""
        return self.lower_us <= left_us - right_us <= self.upper_us

    def outside_us(self, left_us: int, right_us: int) -> int:
        """How far two times are from matching: below 0 before the lower end, above 0 behind the upper one, 0 inside."""
        apart_us = left_us - right_us
        return min(apart_us - self.lower_us, 0) or max(apart_us - self.upper_us, 0)

    def partners_us(self, side: int, time_us: int) -> tuple[int, int]:
        """The times on the other side that a time of this side matches, both ends in it."""
        if side == LEFT:
            return time_us - self.upper_us, time_us - self.lower_us
        return time_us + self.lower_us, time_us + self.upper_us

    @property
    def is_open(self) -> bool:
        """Whether one end at least is open."""
        return max(-self.lower_us, self.upper_us) >= FOREVER_US

    @property
    def is_boundless(self) -> bool:
        """Whether any two times match, and missing ones too."""
        return min(-self.lower_us, self.upper_us) >= FOREVER_US


def window(bound: Bound) -> TimeRange:
    """A bound in whole microseconds, strict ends made inclusive."""
    low, high = bound.lower_ms, bound.upper_ms
    lower_us = -FOREVER_US if low is None else low * US_PER_MS + bound.lower_strict
    upper_us = FOREVER_US if high is None else high * US_PER_MS - bound.upper_strict
    return TimeRange(max(lower_us, 0), min(upper_us, 0)) if bound.equal else TimeRange(lower_us, upper_us)


def scanned(contract: Contract, limits_ms: Sequence[Sequence[int]]) -> TimeRange:
    """The window in which state format 4 looks for partners: where an end is open, a condition can close it.

    ``limits_ms`` are the numbers of each side that Spark takes for bounds on its event time. The ends are those of the
    state watermark of a side at the time of a row (``StreamingSymmetricHashJoinExec``, ``scanRangeOffsets``).
    """
    bound = window(contract.bound)
    if None in (contract.left.watermark_delay_ms, contract.right.watermark_delay_ms):
        return bound
    lower_us, upper_us = bound.lower_us, bound.upper_us
    if lower_us <= -FOREVER_US and limits_ms[LEFT]:
        lower_us = min(limits_ms[LEFT]) * US_PER_MS + 1
    if upper_us >= FOREVER_US and limits_ms[RIGHT]:
        upper_us = -min(limits_ms[RIGHT]) * US_PER_MS - 1
    return TimeRange(lower_us, upper_us)


def state_ms(contract: Contract, side: int, watermark_ms: int, limits_ms: Sequence[int] = ()) -> int | None:
    """The last time (ms) at which a row of a side is evictable under a watermark; ``None``: never."""
    watermarked = [one.watermark_delay_ms is not None for one in (contract.left, contract.right)]
    if contract.bound.equal:
        return watermark_ms if any(watermarked) else None
    if not all(watermarked):
        return None
    value_ms = bound_ms(contract.bound, side, watermark_ms)
    return min([*limits_ms, *([] if value_ms is None else [value_ms])], default=None)


def bound_ms(bound: Bound, side: int, watermark_ms: int) -> int | None:
    """The last time (ms) at which a row of a side matches no row past a watermark; ``None``: it always may."""
    if bound.equal:
        return watermark_ms
    if side == LEFT:
        reach_ms, strict = bound.lower_ms, bound.lower_strict
    else:
        reach_ms, strict = None if bound.upper_ms is None else -bound.upper_ms, bound.upper_strict
    return None if reach_ms is None else watermark_ms + reach_ms - (0 if strict else 1)


def evicted_us(contract: Contract, side: int, late_ms: int | None, limits_ms: Sequence[int] = ()) -> int:
    """The time up to which state format 4 has evicted a side before a batch, and where it does not look again.

    An eviction starts behind the state watermark of the late watermark (``scanEvictedKeys``). A row at or before it
    that is not late is never evicted; there are such rows where the bound puts the state watermark ahead of the
    watermark. The first batch of a query has none before it: ``late_ms`` is ``None`` (``IncrementalExecution``,
    SPARK-56402). In a later batch it counts, also at 0.
    """
    limit_ms = None if late_ms is None else state_ms(contract, side, late_ms, limits_ms)
    return -FOREVER_US if limit_ms is None else limit_ms * US_PER_MS


def evicted_at_ms(contract: Contract, side: int, time_us: int, limits_ms: Sequence[int] = ()) -> int | None:
    """The smallest watermark (ms) that evicts a row of a side with this time; ``None``: none does."""
    limit_ms = state_ms(contract, side, 0)
    if time_us == NULL_TIME_US or (limits_ms and time_us > min(limits_ms) * US_PER_MS):
        return None
    if limit_ms is None:
        return 0 if limits_ms else None
    return -(-time_us // US_PER_MS) - limit_ms
