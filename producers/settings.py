"""The settings of a generated trace: one frozen object, validated when it is created.

Pure, without I/O. The settings decide every byte of a trace: the same settings give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from producers.draft import MOST_PARTITIONS
from producers.key_skew import MILD, parse_key_skew
from producers.lateness import DEFAULT_LATENESS, parse_lateness
from producers.silence import parse_silence
from tidemark.errors import UsageError
from tidemark.formats.trace import PACES, Pace

BASE_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the first event time of every generated trace. No clock is read."""

TOPICS = ("impressions", "clicks")
IMPRESSIONS, CLICKS = 0, 1

SLICES = ((1_000, 4), (5_000, 6))
"""(impressions, slices) of a trace with fewer impressions; a larger one has ``MOST_SLICES``. A slice takes a second."""

MOST_SLICES = 12
MOST_SLICES_BY_RATE = 10_000
"""A rate of events that needs more slices is a mistake."""

SHARES = (
    "ctr", "unreadable", "null_keys", "duplicates", "changed_duplicates", "moved_duplicates", "bursts",
    "transactions", "aborted", "compacted",
)  # fmt: skip
"""The settings that are fractions."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The generator's settings. Shares are fractions of the records; delays and bound are those of the pipeline.

    ``events_per_second`` of 0 means as many as the slices are long for.
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
    changed_duplicates: float = 0.0
    moved_duplicates: float = 0.0
    key_skew: str = MILD
    silent: str = ""
    events_per_second: float = 0.0
    bursts: float = 0.0
    transactions: float = 0.0
    aborted: float = 0.0
    compacted: float = 0.0

    def __post_init__(self) -> None:
        _at_least(1, impressions=self.impressions, partitions=self.partitions)
        _at_least(
            0, slices=self.slices, edges=self.edges, bound=self.bound_ms, watermark_delay=min(self.delays_ms)
        )
        if self.partitions > MOST_PARTITIONS:
            raise UsageError(f"partitions is {self.partitions}", hint=f"give {MOST_PARTITIONS} or less")
        for name in SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}", hint="a share lies between 0 and 1")
        parse_lateness(self.lateness)
        parse_key_skew(self.key_skew)
        parse_silence(self.silent, TOPICS)
        self._must_go_together()

    def _must_go_together(self) -> None:
        if self.moved_duplicates and self.partitions < 2:
            raise UsageError(
                f"moved_duplicates is {self.moved_duplicates:g}, and a topic has one partition",
                hint="give --partitions 2 or more: the second record goes to another partition",
            )
        if self.compacted and self.pace != "backlog":
            raise UsageError(
                f"compacted is {self.compacted:g}, and the pace is {self.pace}",
                detail="Kafka compacts the records before the query starts",
                hint="give --pace backlog",
            )
        if not self.events_per_second:
            return
        if self.slices:
            raise UsageError(
                f"events_per_second is {self.events_per_second:g}, and slices is {self.slices}",
                hint="leave out one of them: the rate says how long a trace is, and so how many slices it has",
            )
        if self.events_per_second < 0 or self.wanted_slices > MOST_SLICES_BY_RATE:
            raise UsageError(
                f"events_per_second is {self.events_per_second:g}",
                detail=f"with {self.impressions:,} impressions"
                + (
                    f" a trace would have {self.wanted_slices:,} slices" if self.events_per_second > 0 else ""
                ),
                hint="give more than that, or fewer impressions",
            )

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
        """The number of slices that was set or, if none was, one that suits the rate of events, or the size."""
        if self.events_per_second > 0:
            return -(-self.duration_ms // self.span_ms)
        return self.slices or next((few for below, few in SLICES if self.impressions < below), MOST_SLICES)

    @property
    def duration_ms(self) -> int:
        """The range of event time of the impressions."""
        if self.events_per_second > 0:
            return max(1, round(1000 * self.impressions * (1 + self.ctr) / self.events_per_second))
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
