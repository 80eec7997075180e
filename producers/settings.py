"""The settings of a generated trace: one frozen object, validated when it is created.

Pure, without I/O. The settings decide every byte of a trace: the same settings give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.draft import MOST_PARTITIONS
from producers.lateness import DEFAULT_LATENESS, parse_lateness
from tidemark.errors import UsageError
from tidemark.formats.trace import PACES, Pace

BASE_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the first event time of every generated trace. No clock is read."""

TOPICS = ("impressions", "clicks")
IMPRESSIONS, CLICKS = 0, 1

SLICES = ((1_000, 4), (5_000, 6))
"""(impressions, slices) of a trace with fewer impressions; a larger one has ``MOST_SLICES``. A slice takes a second."""

MOST_SLICES = 12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The generator's settings. Shares are fractions of the records; delays and bound are those of the pipeline."""

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
        """The unit of lateness amounts: the longest watermark delay, which is decisive under the policy ``min``."""
        return max(*self.delays_ms, 1)

    @property
    def span_ms(self) -> int:
        """The event time of one slice: long enough that a row from its start can be evicted at its end."""
        return max(3 * max(self.unit_ms, self.bound_ms) // 2, 1_000)

    @property
    def wanted_slices(self) -> int:
        """The number of slices that was set or, if none was, one that suits the size."""
        return self.slices or next((few for below, few in SLICES if self.impressions < below), MOST_SLICES)

    @property
    def duration_ms(self) -> int:
        """The range of event time of the impressions."""
        return self.wanted_slices * self.span_ms


def parse_pace(text: str) -> Pace:
    """The pace of that name; raises ``UsageError`` if there is none."""
    for pace in PACES:
        if pace == text:
            return pace
    raise UsageError(f"there is no pace {text!r}", hint=f"choose one of {', '.join(PACES)}")


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise UsageError(f"{name} is {value}", hint=f"give {least} or more")
