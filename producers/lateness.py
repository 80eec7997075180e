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
====================  ================  ============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from random import Random
from zlib import crc32

from producers.draft import Draft
from tidemark.errors import UsageError

DEFAULT_LATENESS = (
    "on_time+uniform:0.15*1+long_tail:0.12*1+burst:0.2*1.5+straggling_partition:0.3*0.5+skewed_clock:0.02*0.1"
)
LONGEST_TAIL = 20
"""The long tail is cut off at this many amounts: a row beyond is late in any case."""


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


Model = Callable[[Random, Sequence[Draft], "Dose"], None]


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


def make_late(
    rng: Random, drafts: Sequence[Draft], mix: Sequence[Lateness], unit_ms: int, stretch: Stretch
) -> None:
    """Add the lateness of every model of ``mix`` to the arrival times of the drafts."""
    for item in mix:
        MODELS[item.model](rng, drafts, Dose(item.share, round(item.amount * unit_ms), stretch))


def some(rng: Random, n: int, share: float) -> Iterator[int]:
    """Indexes below ``n``, each picked with probability ``share``; the cost grows with the number picked, not ``n``."""
    if share >= 1:
        yield from range(n)
    elif share > 0:
        scale, index = 1 / log(1 - share), -1
        while True:
            index += 1 + int(log(1 - rng.random()) * scale)
            if index >= n:
                return
            yield index


def _on_time(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    jitter = [int(dose.amount_ms * 0.01 * (step / 256) ** 3) for step in range(257)]
    for draft, wait_ms in zip(drafts, rng.choices(jitter, k=len(drafts)), strict=True):
        draft.arrival_ms += wait_ms


def _uniform(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    for index in some(rng, len(drafts), dose.share):
        drafts[index].arrival_ms += int(rng.random() * dose.amount_ms)


def _long_tail(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    for index in some(rng, len(drafts), dose.share):
        amounts = min(rng.paretovariate(1.5) - 1, LONGEST_TAIL)
        drafts[index].arrival_ms += int(amounts * dose.amount_ms)


def _burst(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    length_ms = max(dose.amount_ms, 1)
    outages = max(1, round(dose.share * dose.stretch.duration_ms / length_ms)) if dose.share else 0
    room_ms = max(dose.stretch.duration_ms - length_ms, 1)
    for _ in range(outages):
        start_ms = dose.stretch.start_ms + rng.randrange(room_ms)
        end_ms, region = start_ms + length_ms, rng.randrange(4)
        for draft in drafts:
            if start_ms <= draft.event_ms < end_ms and crc32(draft.user.encode()) & 3 == region:
                draft.arrival_ms += end_ms - draft.event_ms


def _straggling_partition(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    topic, partition = rng.randrange(2), rng.randrange(dose.stretch.partitions)
    length_ms = int(dose.share * dose.stretch.duration_ms)
    start_ms = dose.stretch.start_ms + rng.randrange(max(dose.stretch.duration_ms - length_ms, 1))
    end_ms = start_ms + length_ms
    for draft in drafts:
        if draft.topic == topic and draft.partition == partition and start_ms <= draft.event_ms < end_ms:
            draft.arrival_ms += dose.amount_ms


def _skewed_clock(rng: Random, drafts: Sequence[Draft], dose: Dose) -> None:
    salt = rng.getrandbits(32)
    skew_ms: dict[str, int] = {}
    for draft in drafts:
        skew = skew_ms.get(draft.user)
        if skew is None:
            lot = crc32(draft.user.encode(), salt)
            chosen = (lot >> 1) < dose.share * 0x7FFFFFFF
            skew = skew_ms[draft.user] = (dose.amount_ms if lot & 1 else -dose.amount_ms) if chosen else 0
        draft.arrival_ms += skew


MODELS: dict[str, Model] = {
    "on_time": _on_time,
    "uniform": _uniform,
    "long_tail": _long_tail,
    "burst": _burst,
    "straggling_partition": _straggling_partition,
    "skewed_clock": _skewed_clock,
}
