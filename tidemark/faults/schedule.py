"""Faults as data: what is done to which part, at which commit point of a batch, and from which batch on.

A schedule is written in words, ``driver@written*2,executor@half-written,broker~1.5``: a part, what is done to it
(``kill`` if not said), the commit point, for how long (seconds, of a pause or an outage), and how often. Which batch is
hit is the seed's choice alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tidemark.errors import UsageError

Found = TypeVar("Found")

LONGEST_DELAY_S = 0.4
"""Calibration: a warm batch takes about 0.5 s; a strike later than this would often find it over."""

PLANNED = "planned"
"""``offsets/N`` is there, ``commits/N`` is not; for a driver: nor has anything of it come out."""
HALF_WRITTEN = "half-written"
"""Some sink partitions of the batch have written, others have not."""
WRITTEN = "written"
"""Every sink partition has written, and the batch is not committed."""
NO_DATA = "no-data"
"""The batch reads nothing: only the watermark has moved."""

POINTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("driver", "kill"): (WRITTEN, PLANNED, HALF_WRITTEN, NO_DATA),
    ("driver", "kill-twice"): (WRITTEN, PLANNED, HALF_WRITTEN, NO_DATA),
    ("driver", "pause"): (PLANNED, NO_DATA),
    ("executor", "kill"): (PLANNED, HALF_WRITTEN, NO_DATA),
    ("executor", "pause"): (PLANNED, HALF_WRITTEN, NO_DATA),
    ("executors", "kill"): (PLANNED, NO_DATA),
    ("worker", "kill"): (PLANNED, NO_DATA),
    ("master", "kill"): (PLANNED, NO_DATA),
    ("broker", "kill"): (PLANNED, HALF_WRITTEN, WRITTEN, NO_DATA),
    ("broker", "pause"): (PLANNED, HALF_WRITTEN, WRITTEN, NO_DATA),
}
"""(part, action) -> the commit points at which it can be done, the default first. ``executors`` are all of them at
once; a driver is killed twice if the next one is killed, too, while it runs the batch again."""

_WORD = re.compile(
    r"(?P<part>\w+)(?::(?P<action>[\w-]+))?(?:@(?P<point>[\w-]+))?(?:~(?P<seconds>\d+(?:\.\d+)?))?(?:\*(?P<count>\d+))?"
)


@dataclass(frozen=True)
class Sort:
    """A sort of fault; ``seconds`` is how long a pause or an outage lasts: Spark itself replaces an executor."""

    component: str
    action: str = "kill"
    point: str = PLANNED
    seconds: float = 1.0

    @property
    def name(self) -> str:
        """As the journal has it: ``KillDriver``, ``KillDriverTwice``."""
        verb, _, how_often = self.action.partition("-")
        return f"{verb.capitalize()}{self.component.capitalize()}{how_often.capitalize()}"

    @property
    def once(self) -> Sort:
        """The first half of one that is done twice; else the same."""
        return replace(self, action=self.action.removesuffix("-twice"))

    def __str__(self) -> str:
        """As a schedule has it."""
        action = "" if self.action == "kill" else f":{self.action}"
        seconds = "" if self.seconds == Sort.seconds else f"~{self.seconds:g}"
        return f"{self.component}{action}@{self.point}{seconds}"


@dataclass(frozen=True)
class Strike:
    """One planned fault: not before ``batch``; where no point is to be met, ``delay_s`` after a batch was planned.

    Of those that may be struck, which are in order, ``whom`` counts to who is: after the last comes the first again.
    """

    sort: Sort
    batch: int
    delay_s: float
    whom: int = 0

    def choose(self, found: Sequence[Found]) -> Found:
        """Whom of them to strike."""
        return found[self.whom % len(found)]

    def again(self) -> Strike:
        """For the next batch, when this one came too late, or to one who had nothing to write in its batch."""
        return replace(self, delay_s=self.delay_s / 2, whom=self.whom + 1)


def read_schedule(text: str) -> tuple[Sort, ...]:
    """The faults of a schedule in words, in its order. Raises ``UsageError`` for what is none."""
    found: list[Sort] = []
    for word in filter(None, (component.strip() for component in text.split(","))):
        read = _WORD.fullmatch(word)
        if read is None:
            raise UsageError(
                f"{word!r} is no fault",
                detail="a fault is PART[:ACTION][@POINT][~SECONDS][*COUNT]",
                hint="for example: driver@written*2,executor@half-written,broker~1.5",
            )
        points = POINTS.get((read["part"], read["action"] or "kill"))
        if points is None:
            known = ", ".join(sorted({f"{component}:{action}" for component, action in POINTS}))
            raise UsageError(f"{word!r} is no fault that can be done", hint=f"known are {known}")
        point = read["point"] or points[0]
        if point not in points:
            raise UsageError(
                f"{word!r} cannot be done at {point!r}", hint=f"its commit points are {', '.join(points)}"
            )
        if read["count"] is not None and not int(read["count"]):
            raise UsageError(f"{word!r} asks for no fault at all", hint="leave it out, or say *1 or more")
        sort = Sort(read["part"], read["action"] or "kill", point, float(read["seconds"] or Sort.seconds))
        found += [sort] * int(read["count"] or 1)
    return tuple(found)


def write_schedule(sorts: Sequence[Sort]) -> str:
    """The reverse of :func:`read_schedule`."""
    counts = {sort: sorts.count(sort) for sort in sorts}
    return ",".join(f"{sort}*{count}" if count > 1 else str(sort) for sort, count in counts.items())


def plan_strikes(rng: random.Random, sorts: Sequence[Sort], batches: int) -> list[Strike]:
    """All of them, mixed, spread over about ``batches`` batches; the very first is left in peace."""
    count, last = len(sorts), max(batches - 1, 1)
    wanted = sorted(rng.sample(range(1, last + 1), min(count, last)) + [last] * max(0, count - last))
    mixed = list(sorts)
    rng.shuffle(mixed)
    return [
        Strike(sort, batch, rng.uniform(0.0, LONGEST_DELAY_S), rng.randrange(len(sorts)))
        for sort, batch in zip(mixed, wanted, strict=True)
    ]
