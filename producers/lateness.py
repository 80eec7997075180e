"""Lateness models: how much later than its event time a record arrives.

Pure, without I/O and clocks. ``arrival = event time + lateness``; each model of a mix adds to the lateness of a record.
A mix is written ``MODEL[:SHARE][*AMOUNT]`` joined by ``+``, for instance ``on_time+long_tail:0.05*2+burst:0.1*1.5``.
The share is the part of the trace that a model affects; the amount is in units of the pipeline's watermark delay.

====================  ================  ============================================================================
model                 share of          adds
====================  ================  ============================================================================
on_time               the events        network latency: some milliseconds, at most 1 % of the amount
uniform               the events        a delay uniformly distributed from 0 to the amount
long_tail             the events        a Pareto-distributed delay from 0: half the events wait less than 0.6 of the
                                        amount, one in a hundred more than 20 times the amount (cut off there)
burst                 the event time    outages as long as the amount of one region (a quarter of the users): its events
                                        of that time arrive together when the outage ends
straggling_partition  the event time    one partition of one topic arrives later by the amount
skewed_clock          the users         a clock that is ahead or behind by the amount. A clock that is ahead makes an
                                        event *arrive early*, which advances the watermark for all users
skewed_producer       the producers     nothing: the clock of a producer is ahead or behind by the amount, and with it
                                        the event times, and Kafka's timestamps, of what it sends. A topic has 16
                                        producers, a user's events of it are sent by one of them
====================  ================  ============================================================================
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from producers.draft import Draft
from producers.random_draws import Draws, copied, exhaust, skip, some
from tidemark.errors import UsageError

DEFAULT_LATENESS = (
    "on_time+uniform:0.15*1+long_tail:0.12*1+burst:0.2*1.5+straggling_partition:0.3*0.5+skewed_clock:0.02*0.1"
)
LONGEST_TAIL = 20
"""The long tail is cut off at this many amounts: a row beyond is late in any case."""
PRODUCERS = 16
"""The producers of each topic, of which a share has a clock that is wrong."""


@dataclass(frozen=True)
class Stretch:
    """The range of event time that models apply to, and the number of partitions of each topic."""

    start_ms: int
    duration_ms: int
    partitions: int


@dataclass(frozen=True)
class Lateness:
    """One model of a mix: its name, share and amount."""

    model: str
    share: float
    amount: float


Delay = Callable[[Sequence[Draft], int], None]
"""Delays the next drafts; the number is the index of the first of them."""

Model = Callable[[Random, int, "Dose"], Delay]
"""Takes from a random stream what a model draws for so many drafts."""


@dataclass(frozen=True)
class Dose:
    """A model's settings in this trace, with the amount in milliseconds."""

    share: float
    amount_ms: int
    stretch: Stretch


def parse_lateness(text: str) -> list[Lateness]:
    """The mix that ``text`` names; raises ``UsageError``."""
    mix = []
    for term in text.split("+"):
        match = re.fullmatch(r"\s*(\w+)(?::([\d.]+))?(?:\*([\d.]+))?\s*", term)
        if match is None or match[1] not in MODELS:
            raise UsageError(
                f"{term.strip()!r} is not a lateness model",
                hint=f"write MODEL[:SHARE][*AMOUNT], joined by '+'; models: {', '.join(MODELS)}",
            )
        try:
            share, amount = float(match[2] or 1), float(match[3] or 1)
        except ValueError as error:
            raise UsageError(
                f"{term.strip()!r} has an invalid number", hint="for instance long_tail:0.05*2"
            ) from error
        if share > 1:
            raise UsageError(
                f"{term.strip()!r} has a share of {share:g}", hint="a share lies between 0 and 1"
            )
        mix.append(Lateness(match[1], share, amount))
    return mix


class MakeLate:
    """Adds the lateness of every model of a mix to the arrival times of ``count`` drafts, which come in chunks."""

    def __init__(
        self, rng: Random, count: int, mix: Sequence[Lateness], unit_ms: int, stretch: Stretch
    ) -> None:
        self._first = 0
        self._models = [
            MODELS[item.model](rng, count, Dose(item.share, round(item.amount * unit_ms), stretch))
            for item in mix
        ]

    def __call__(self, drafts: Sequence[Draft]) -> None:
        """Delay the next drafts, in their order."""
        for delay in self._models:
            delay(drafts, self._first)
        self._first += len(drafts)


def _on_time(rng: Random, count: int, dose: Dose) -> Delay:
    jitter = [int(dose.amount_ms * 0.01 * (step / 256) ** 3) for step in range(257)]
    own = copied(rng)
    skip(rng, count)

    def delay(drafts: Sequence[Draft], _first: int) -> None:
        for draft, wait_ms in zip(drafts, own.choices(jitter, k=len(drafts)), strict=True):
            draft.arrival_ms += wait_ms

    return delay


def _uniform(rng: Random, count: int, dose: Dose) -> Delay:
    def waits(rng: Random) -> Iterator[tuple[int, int]]:
        for index in some(rng, count, dose.share):
            yield index, int(rng.random() * dose.amount_ms)

    return _delayed_by(rng, waits)


def _long_tail(rng: Random, count: int, dose: Dose) -> Delay:
    def waits(rng: Random) -> Iterator[tuple[int, int]]:
        for index in some(rng, count, dose.share):
            yield index, int(min(rng.paretovariate(1.5) - 1, LONGEST_TAIL) * dose.amount_ms)

    return _delayed_by(rng, waits)


def _delayed_by(rng: Random, waits: Callable[[Random], Iterator[tuple[int, int]]]) -> Delay:
    """Delays of some drafts, in milliseconds, by their indexes."""
    own = Draws(waits(copied(rng)))
    exhaust(waits(rng))

    def delay(drafts: Sequence[Draft], first: int) -> None:
        for index, wait_ms in own.below(first + len(drafts)):
            drafts[index - first].arrival_ms += wait_ms

    return delay


def _burst(rng: Random, _count: int, dose: Dose) -> Delay:
    length_ms = max(dose.amount_ms, 1)
    room_ms = max(dose.stretch.duration_ms - length_ms, 1)
    number = max(1, round(dose.share * dose.stretch.duration_ms / length_ms)) if dose.share else 0
    outages = sorted(
        (dose.stretch.start_ms + rng.randrange(room_ms), rng.randrange(4)) for _ in range(number)
    )

    def delay(drafts: Sequence[Draft], _first: int) -> None:
        times_ms = [draft.event_ms for draft in drafts]
        since = bisect_left(outages, (min(times_ms) - length_ms + 1, 0))
        until = bisect_left(outages, (max(times_ms) + 1, 0))
        for start_ms, region in outages[since:until]:
            end_ms = start_ms + length_ms
            for draft in drafts:
                if start_ms <= draft.event_ms < end_ms and crc32(draft.user.encode()) & 3 == region:
                    draft.arrival_ms += end_ms - draft.event_ms

    return delay


def _straggling_partition(rng: Random, _count: int, dose: Dose) -> Delay:
    topic, partition = rng.randrange(2), rng.randrange(dose.stretch.partitions)
    length_ms = int(dose.share * dose.stretch.duration_ms)
    start_ms = dose.stretch.start_ms + rng.randrange(max(dose.stretch.duration_ms - length_ms, 1))
    end_ms = start_ms + length_ms

    def delay(drafts: Sequence[Draft], _first: int) -> None:
        for draft in drafts:
            if draft.topic == topic and draft.partition == partition and start_ms <= draft.event_ms < end_ms:
                draft.arrival_ms += dose.amount_ms

    return delay


def _skewed_clock(rng: Random, _count: int, dose: Dose) -> Delay:
    salt, chosen_below = rng.getrandbits(32), dose.share * 0x7FFFFFFF

    def delay(drafts: Sequence[Draft], _first: int) -> None:
        for draft in drafts:
            lot = crc32(draft.user.encode(), salt)
            if (lot >> 1) < chosen_below:
                draft.arrival_ms += dose.amount_ms if lot & 1 else -dose.amount_ms

    return delay


def _skewed_producer(rng: Random, _count: int, dose: Dose) -> Delay:
    producers = [(topic, number) for topic in range(2) for number in range(PRODUCERS)]
    many = max(1, round(dose.share * len(producers))) if dose.share else 0
    skew_ms = {one: rng.choice((1, -1)) * dose.amount_ms for one in rng.sample(producers, many)}
    salt = rng.getrandbits(32)

    def delay(drafts: Sequence[Draft], _first: int) -> None:
        for draft in drafts:
            ahead_ms = skew_ms.get((draft.topic, crc32(draft.user.encode(), salt) % PRODUCERS), 0)
            draft.event_ms += ahead_ms
            draft.skew_ms += ahead_ms

    return delay


MODELS: dict[str, Model] = {
    "on_time": _on_time,
    "uniform": _uniform,
    "long_tail": _long_tail,
    "burst": _burst,
    "straggling_partition": _straggling_partition,
    "skewed_clock": _skewed_clock,
    "skewed_producer": _skewed_producer,
}
