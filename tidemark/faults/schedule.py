"""A schedule of faults: the words that ask for them, and the plan that a seed makes of it.

A schedule is written in words, ``driver@written*2,executor@half-written,broker~1.5``: a component, an action (``kill``
if none is given), the commit point, the duration, and how often: so many times, or batch after batch until something
holds (``executor*until=30s``, ``executor*until=10batches``). The duration is in seconds: of a pause, of an outage (a
worker, master or broker that is killed) or of a fault of the network. The seed alone decides which batch is hit, or hit
first. Some actions have an amount: ``broker:delay=500ms@planned~3``.

Faults that overlap are joined by ``+``: in ``broker:pause@written~2+driver@written`` the driver is killed while the
broker is paused. All of them hit the same batch, each while those before it are in effect. A pause, an outage or a
fault of the network is in effect until it is over, a kill of a driver or an executor until the batch that it hit is
committed: what follows the kill of a driver is injected while the next driver runs the batch again. A count behind the
last is that of all of them.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tidemark.errors import UsageError
from tidemark.faults.overlaps import FaultPart, why_impossible
from tidemark.formats.faults import (
    AMOUNTS,
    KILLS,
    MOST,
    NETWORK_ACTIONS,
    POINTS,
    CommitPoint,
    FaultAction,
    FaultComponent,
)

Found = TypeVar("Found")

LONGEST_DELAY_S = 0.4
"""Calibration: a warm batch takes about 0.5 s; a fault later than this would often find it committed."""

REPLACED_AT_ONCE = (FaultComponent.DRIVER, FaultComponent.EXECUTOR, FaultComponent.EXECUTORS)
"""Once killed: such a fault has no duration."""

WITHOUT_NETEM = [(FaultComponent.EXECUTOR, action) for action in (FaultAction.DELAY, FaultAction.JITTER)]
NOT_OF_PACKETS = (
    "packets of executors are dropped, refused or throttled by firewall rules and a token bucket; to delay each takes"
    " the kernel's netem, which many kernels lack: executor:throttle slows them, broker:delay what they ask Kafka"
)

_WORD = re.compile(
    r"(?P<component>\w+)(?::(?P<action>[\w-]+)(?:=(?P<amount>\d+(?:\.\d+)?)(?P<unit>[A-Za-z%]+))?)?(?:@(?P<point>[\w-]+))?"
    r"(?:~(?P<seconds>\d+(?:\.\d+)?))?(?:\*(?:(?P<count>\d+)|until=(?P<until>\d+(?:s|batches))))?"
)


@dataclass(frozen=True)
class Until:
    """A fault is repeated until so many seconds after the first, or batches committed after that of the first."""

    amount: int
    is_seconds: bool

    def holds(self, seconds: float, batches: int) -> bool:
        """Whether it does, so many seconds and committed batches after the first."""
        return (seconds if self.is_seconds else batches) >= self.amount

    def __str__(self) -> str:
        return f"{self.amount}{'s' if self.is_seconds else 'batches'}"


@dataclass(frozen=True)
class FaultSpec:
    """A fault that is asked for, ``count`` times; ``duration_s`` is how long a pause or an outage lasts.

    ``amount`` is in the unit of its action; ``None`` where it has none. A driver is started again at once; an executor
    Spark itself replaces. ``beside`` are the faults that are injected while this one is in effect, in their order;
    their count is 1. With ``until`` it is injected again and again, batch after batch, once it was recovered from.
    """

    component: FaultComponent
    action: FaultAction = FaultAction.KILL
    point: CommitPoint = CommitPoint.PLANNED
    duration_s: float = 1.0
    count: int = 1
    amount: float | None = None
    beside: tuple[FaultSpec, ...] = ()
    until: Until | None = None

    def __post_init__(self) -> None:
        if self.amount is None and self.action in AMOUNTS:
            object.__setattr__(self, "amount", AMOUNTS[self.action][1])

    @property
    def is_of_network(self) -> bool:
        """Whether it disturbs the network, and none of the components."""
        return any(part.action in NETWORK_ACTIONS for part in self.parts)

    def disturbs(self, component: FaultComponent) -> bool:
        """Whether it disturbs the network of such a component."""
        return any(part.component is component and part.action in NETWORK_ACTIONS for part in self.parts)

    @property
    def kills_driver(self) -> bool:
        """Whether a driver is killed by it."""
        return any(
            part.component is FaultComponent.DRIVER and part.action is not FaultAction.PAUSE
            for part in self.parts
        )

    @property
    def parts(self) -> tuple[FaultSpec, ...]:
        """The faults that overlap, in their order, each by itself; of one fault it alone."""
        return (replace(self.once, beside=()), *self.beside)

    @property
    def once(self) -> FaultSpec:
        """The same, neither counted nor repeated."""
        return replace(self, count=1, until=None)

    @property
    def part(self) -> FaultPart:
        """This one alone, without duration and amount."""
        return FaultPart(self.component, self.action, self.point)

    @property
    def as_parts(self) -> list[FaultPart]:
        """The same without durations and amounts."""
        return [one.part for one in self.parts]

    def __str__(self) -> str:
        """As a schedule has it."""
        count = f"*until={self.until}" if self.until else f"*{self.count}" if self.count > 1 else ""
        return "+".join([self._typed, *(part._typed for part in self.beside)]) + count

    @property
    def _typed(self) -> str:
        action = "" if self.action is FaultAction.KILL else f":{self.action}{self._typed_amount}"
        duration = "" if self.duration_s == FaultSpec.duration_s else f"~{self.duration_s:g}"
        return f"{self.component}{action}@{self.point}{duration}"

    @property
    def _typed_amount(self) -> str:
        unit, usual = AMOUNTS.get(self.action, ("", self.amount))
        return "" if self.amount == usual else f"={self.amount:g}{unit}"


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a plan: not before ``batch``; where no point has to be met, ``delay_s`` after a batch was planned.

    ``victim`` counts through the candidates, which are in order: after the last comes the first again.
    """

    spec: FaultSpec
    batch: int
    delay_s: float
    victim: int = 0

    def choose(self, candidates: Sequence[Found]) -> Found:
        """The victim among the candidates."""
        return candidates[self.victim % len(candidates)]

    def retry(self) -> PlannedFault:
        """For the next batch, if this one was past its point, or the victim had nothing to write in it."""
        return replace(self, delay_s=self.delay_s / 2, victim=self.victim + 1)

    def of_part(self, part: FaultSpec) -> PlannedFault:
        """The same with one of its faults that overlap."""
        return replace(self, spec=part)


def read_schedule(text: str) -> tuple[FaultSpec, ...]:
    """The faults of a schedule in words, in its order. Raises ``UsageError`` for a word that is none."""
    return tuple(_read_together(word) for word in filter(None, (word.strip() for word in text.split(","))))


def _read_together(text: str) -> FaultSpec:
    """One fault, or those that overlap."""
    first, *rest = (_read_word(word.strip()) for word in text.split("+"))
    if not rest:
        return first
    if any(part.count > 1 or part.until for part in (first, *rest[:-1])):
        raise UsageError(
            f"{text!r} has a count between faults that overlap",
            hint="write it behind the last: it is the count of all of them",
        )
    beside = tuple(part.once for part in rest)
    together = replace(first, count=rest[-1].count, until=rest[-1].until, beside=beside)
    if why := why_impossible(together.as_parts):
        raise UsageError(f"{text!r} cannot be made", detail=why.reason, hint=why.hint)
    return together


def _read_word(word: str) -> FaultSpec:
    read = _WORD.fullmatch(word)
    if read is None:
        raise UsageError(
            f"{word!r} is no fault",
            detail="a fault is COMPONENT[:ACTION[=AMOUNT]][@POINT][~SECONDS][*COUNT]; + joins faults that overlap",
            hint="for example: driver@written*2,executor@half-written*until=30s,broker~1.5+driver@planned",
        )
    asked = read["component"], read["action"] or FaultAction.KILL
    component, action = next((known for known in POINTS if known == asked), (None, None))
    if component is None or action is None:
        known = ", ".join(sorted(f"{component}:{action}" for component, action in POINTS))
        detail = NOT_OF_PACKETS if asked in WITHOUT_NETEM else ""
        raise UsageError(f"{word!r} cannot be injected", detail=detail, hint=f"faults are {known}")
    points = POINTS[component, action]
    point = next((known for known in points if known == (read["point"] or points[0])), None)
    if point is None:
        raise UsageError(
            f"{word!r} cannot be injected at {read['point']!r}",
            hint=f"its commit points are {', '.join(points)}",
        )
    amount = _amount(word, action, read["amount"], read["unit"])
    count, until = int(read["count"] or 1), _until(read["until"])
    if not count or (until and not until.amount):
        raise UsageError(f"{word!r} asks for no fault at all", hint="leave it out, or give *1 or more")
    _must_last(word, component, action, read["seconds"])
    duration_s = float(read["seconds"] or FaultSpec.duration_s)
    return FaultSpec(component, action, point, duration_s, count, amount, until=until)


def _must_last(word: str, component: FaultComponent, action: FaultAction, seconds: str | None) -> None:
    """Refuse a duration of what is over at once."""
    if seconds is not None and component in REPLACED_AT_ONCE and action in KILLS:
        raise UsageError(
            f"{word!r} has a duration, and a kill of the {component} has none",
            hint=f"leave out ~{seconds}, or pause it for that time: {component}:{FaultAction.PAUSE}~{seconds}",
        )


def _until(text: str | None) -> Until | None:
    if text is None:
        return None
    return Until(int(text.removesuffix("batches").removesuffix("s")), is_seconds=not text.endswith("batches"))


def _amount(word: str, action: FaultAction, number: str | None, unit: str | None) -> float | None:
    if number is None:
        return None
    if action not in AMOUNTS:
        raise UsageError(
            f"{word!r} has an amount, and {action} has none",
            hint=f"leave out ={number}{unit}; an amount have {', '.join(AMOUNTS)}",
        )
    wanted, usual = AMOUNTS[action]
    if unit != wanted or not 1 <= float(number) <= MOST.get(wanted, math.inf):
        most = f" and at most {MOST[wanted]}" if wanted in MOST else ""
        raise UsageError(
            f"{number}{unit} is no amount of {action}",
            hint=f"at least 1{wanted}{most}, for example ={usual:g}{wanted}",
        )
    return float(number)


def write_schedule(specs: Iterable[FaultSpec]) -> str:
    """The reverse of :func:`read_schedule`; a fault that comes more than once is written once, with its count.

    One that is repeated until something holds has no count, and is written each time.
    """
    counts: dict[FaultSpec, int] = {}
    for spec in specs:
        one = replace(spec, count=1)
        counts[one] = counts.get(one, 0) + spec.count
    return ",".join(
        text
        for one, count in counts.items()
        for text in ([str(one)] * count if one.until else [str(replace(one, count=count))])
    )


def plan_faults(rng: random.Random, specs: Iterable[FaultSpec], batches: int) -> list[PlannedFault]:
    """Every fault, ``count`` times, mixed and spread over about ``batches`` batches; none in the very first."""
    mixed = [replace(spec, count=1) for spec in specs for _ in range(spec.count)]
    count, last = len(mixed), max(batches - 1, 1)
    wanted = sorted(rng.sample(range(1, last + 1), min(count, last)) + [last] * max(0, count - last))
    rng.shuffle(mixed)
    return [
        PlannedFault(spec, batch, rng.uniform(0.0, LONGEST_DELAY_S), rng.randrange(count))
        for spec, batch in zip(mixed, wanted, strict=True)
    ]
