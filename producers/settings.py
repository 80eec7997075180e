"""What a generated trace is made from: one frozen object, checked when it is built.

Free of I/O. Everything that decides the bytes of a trace is here; the same settings give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.draft import MOST_PARTITIONS
from producers.lateness import DEFAULT_LATENESS, parse_lateness
from tidemark.errors import UsageError
from tidemark.formats.trace import PACES, Pace

BASE_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: where the event time of every generated trace starts. No clock is read."""

TOPICS = ("impressions", "clicks")
IMPRESSIONS, CLICKS = 0, 1

SLICES = ((1_000, 4), (5_000, 6))
"""Impressions below which so many slices do; a larger trace gets ``MOST_SLICES``. A slice costs a run a second."""

MOST_SLICES = 12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The dials of the generator. Shares are fractions of the records; delays and bound are the pipeline's
    own.
    """

    seed: int = 1
    impressions: int = 20_000
    ctr: float = 0.45
    slices: int = 0
    pace: Pace = "stepped"
    lateness: str = DEFAULT_LATENESS
    partitions: int = 2
    unreadable: float = 0.01
    null_keys: float = 0.01
    duplicates: float = 0.01
    edges: int = 1
    delays_ms: tuple[int, int] = (10_000, 20_000)
    bound_ms: int = 20_000

    def __post_init__(self) -> None:
        _at_least(1, impressions=self.impressions, partitions=self.partitions)
        _at_least(
            0, slices=self.slices, edges=self.edges, bound=self.bound_ms, watermark_delay=min(self.delays_ms)
        )
        if self.partitions > MOST_PARTITIONS:
            raise UsageError(f"partitions is {self.partitions}", hint=f"give {MOST_PARTITIONS} or less")
        for name in ("ctr", "unreadable", "null_keys", "duplicates"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}", hint="a share lies between 0 and 1")
        parse_lateness(self.lateness)

    @property
    def unit_ms(self) -> int:
        """The unit that lateness is dialled in: the longest watermark delay, for it rules under the policy
        ``min``.
        """
        return max(*self.delays_ms, 1)

    @property
    def span_ms(self) -> int:
        """The event time that passes in one slice: long enough that what arrives early in it can expire at
        its end.
        """
        return max(3 * max(self.unit_ms, self.bound_ms) // 2, 1_000)

    @property
    def wanted_slices(self) -> int:
        """The slices asked for, or as many as suit the size."""
        return self.slices or next((few for below, few in SLICES if self.impressions < below), MOST_SLICES)

    @property
    def duration_ms(self) -> int:
        """The event time that the impressions cover."""
        return self.wanted_slices * self.span_ms


def parse_pace(text: str) -> Pace:
    """The pace of that name; raises ``UsageError``."""
    for pace in PACES:
        if pace == text:
            return pace
    raise UsageError(f"there is no pace {text!r}", hint=f"choose one of {', '.join(PACES)}")


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise UsageError(f"{name} is {value}", hint=f"give {least} or more")
