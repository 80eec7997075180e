"""What many runs have in common, as numbers and places of dots: faults with their recoveries, and rates.

Free of judgement and of I/O. A recovery is the time from an injection to the commit of its batch, an outage included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from tidemark.formats.faults import Fault, FaultComponent

WIDTH, HEIGHT = 240, 26
"""Of a small chart, in pixels."""
MOST_DOTS = 300
EVERY_FAULT = "all"


@dataclass(frozen=True)
class Dot:
    """A dot of a small chart: its place, what is said of it, and the number of its run."""

    x: float
    y: float
    said: str
    run: int


@dataclass(frozen=True)
class FaultStatistics:
    """A sort of faults; ``point`` is empty where all points are counted. Times are in seconds, empty without any."""

    name: str
    point: str
    injected: int
    missed: int
    times: Sequence[float]
    dots: Sequence[Dot]
    runs: Sequence[int]

    @property
    def shown(self) -> Sequence[str]:
        """Least, median, 95th percentile (nearest rank) and most."""
        if not self.times:
            return ("", "", "", "")
        ordered = sorted(self.times)
        high = ordered[ceil(0.95 * len(ordered)) - 1]
        return [f"{one:,.1f}" for one in (ordered[0], median(ordered), high, ordered[-1])]


def fault_statistics(
    runs: Sequence[tuple[str, Sequence[Fault]]],
) -> tuple[list[FaultStatistics], list[FaultStatistics]]:
    """By component, all of them first, and by fault and commit point. ``runs`` are names and journals of runs."""
    every = [(at, name, fault) for at, (name, faults) in enumerate(runs) for fault in faults]
    slowest = max((fault.recovery_s or 0.0 for _, _, fault in every), default=0.0)
    components = [str(one) for one in FaultComponent]
    by_component = [
        _statistics((name, ""), [one for one in every if name in (EVERY_FAULT, one[2].component)], slowest)
        for name in (EVERY_FAULT, *components)
    ]
    kinds = sorted({(fault.label, str(fault.point)) for _, _, fault in every})
    by_point = [
        _statistics(kind, [one for one in every if (one[2].label, one[2].point) == kind], slowest)
        for kind in kinds
    ]
    return [one for one in by_component if one.injected or one.missed], by_point


def _statistics(
    kind: tuple[str, str], faults: Sequence[tuple[int, str, Fault]], slowest: float
) -> FaultStatistics:
    done = [(at, run, fault) for at, run, fault in faults if fault.injected]
    timed = [(at, run, fault, fault.recovery_s) for at, run, fault in done if fault.recovery_s is not None]
    dots = [
        Dot(_along(seconds, slowest), HEIGHT / 2, f"{run}, batch {fault.batch}: {seconds:,.1f} s", at)
        for at, run, fault, seconds in timed[:MOST_DOTS]
    ]
    times, runs = [seconds for *_, seconds in timed], list(dict.fromkeys(at for at, _, _ in faults))
    return FaultStatistics(*kind, len(done), len(faults) - len(done), times, dots, runs)


def course(values: Sequence[tuple[int, str, float | None]], unit: str) -> list[Dot]:
    """A value of one run after the other, the first on the left; the line of zero is at the bottom."""
    most = max((value for _, _, value in values if value is not None), default=0.0)
    last = max(len(values) - 1, 1)
    return [
        Dot(_along(at, last), _up(value, most), f"{name}: {value:,.1f} {unit}", run)
        for at, (run, name, value) in enumerate(values)
        if value is not None
    ]


def median_recovery_s(faults: Iterable[Fault]) -> float | None:
    """The median of the recoveries of a run."""
    times = [fault.recovery_s for fault in faults if fault.injected and fault.recovery_s is not None]
    return median(times) if times else None


def _along(value: float, most: float) -> float:
    return round(4 + (WIDTH - 8) * value / most if most > 0 else 4, 1)


def _up(value: float, most: float) -> float:
    return round(HEIGHT - 4 - (HEIGHT - 8) * value / most if most > 0 else HEIGHT - 4, 1)
