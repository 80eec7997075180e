"""Generates ad impressions and clicks in event time, with realistic proportions.

Times are sorted, and clicks kept, in a ``producers.spool``; otherwise without I/O. Impressions have random times,
denser in the middle of the trace than at its ends. A share of them (the click-through rate) is clicked: mostly after a
few seconds, some long after the time bound of the join, a few two or three times. A few clicks belong to no impression.
Two settings change that: a share of the impressions in bursts, and a share of them with one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from math import exp
from pathlib import Path
from random import Random

from producers.draft import Draft
from producers.entities import ADS, Entities, partition_of
from producers.key_skew import parse_key_skew
from producers.random_draws import Draws, copied, skip, some
from producers.settings import BASE_MS, CLICKS, IMPRESSIONS, Settings
from producers.spool import SortedSpool, Spool

CLICK_MEDIAN = 0.15
"""Half of all clicks follow within this fraction of the time bound (3 s of 20 s)."""

CLICK_SIGMA = 1.0
"""Standard deviation of the logarithm of the click delay: about 3 % of the clicks follow after the bound."""

CLICK_LONGEST = 4.0
"""The longest click delay, in time bounds."""

PAGE_DRAWS = 10_007
"""Pages repeat after this many impressions: no join uses them, and sampling one costs as much as sampling a user."""

CHUNK = 2_000
"""Impressions that are drawn at once."""

BURST = 0.02
"""A burst lasts this part of a slice's time; each slice has one."""

SECOND_CLICK_P = 0.06
ORPHAN_CLICK_P = 0.01


def impressions(
    rng: Random, settings: Settings, entities: Entities, moments: SortedSpool[int]
) -> Iterator[list[Draft]]:
    """``settings.impressions`` drafts in order of event time, some at a time; ``moments`` sorts their times."""
    n, half = settings.impressions, settings.duration_ms / 2
    in_burst = _burst_moments(settings)
    for first in range(0, n, CHUNK):
        some_ms = [BASE_MS + int(_wave(rng.random()) * half) for _ in range(min(CHUNK, n - first))]
        for index, moment in in_burst.below(first + len(some_ms)):
            some_ms[index - first] = moment
        moments.add(some_ms)
    of_users = copied(rng)
    skip(rng, n)
    of_ads = copied(rng)
    skip(rng, n)
    pages = cycle(rng.choices(range(len(entities.pages)), cum_weights=entities.page_weights, k=PAGE_DRAWS))
    users, ads = range(entities.users), range(len(entities.ads))
    share, one_rng = parse_key_skew(settings.key_skew).one, Random(f"{settings.seed}/one key")
    with_one_key = Draws((index, None) for index in some(one_rng, n, share))
    number = 0
    for times in moments:
        found = []
        for moment, user_number, ad, page in zip(
            times,
            of_users.choices(users, cum_weights=entities.user_weights, k=len(times)),
            of_ads.choices(ads, cum_weights=entities.ad_weights, k=len(times)),
            islice(pages, len(times)),
            strict=True,
        ):
            user = entities.user(user_number)
            place = partition_of(user, settings.partitions)
            found.append(Draft(IMPRESSIONS, number, moment, user, ad, page, place, moment))
            number += 1
        for index, _ in with_one_key.below(number):
            draft = found[index - found[0].number]
            draft.user, draft.ad = entities.user(0), 0
            draft.partition = partition_of(draft.user, settings.partitions)
        yield found


def _burst_moments(settings: Settings) -> Draws[int]:
    """The times of the impressions that come in bursts, by their indexes: one burst in each slice, somewhere in it."""
    rng = Random(f"{settings.seed}/bursts")
    length_ms = max(1, int(BURST * settings.span_ms))
    last_ms = BASE_MS + settings.duration_ms - 1
    starts_ms = [
        BASE_MS + number * settings.span_ms + rng.randrange(max(1, settings.span_ms - length_ms))
        for number in range(settings.wanted_slices if settings.bursts else 0)
    ]

    def drawn() -> Iterator[tuple[int, int]]:
        for index in some(rng, settings.impressions, settings.bursts):
            yield index, min(rng.choice(starts_ms) + rng.randrange(length_ms), last_ms)

    return Draws(drawn())


class Clicks:
    """The clicks on impressions that it is shown. ``count`` is their number, which is known before.

    Iterating gives all of them, those of no impression last.
    """

    def __init__(self, rng: Random, settings: Settings, folder: Path | None = None) -> None:
        self._drawn = [Spool(tuple[int, int], folder), Spool(tuple[int, int], folder)]
        clicks = self._drawn[0].add(_clicks(rng, settings))
        self.count = clicks + self._drawn[1].add(_orphans(rng, settings))
        self._draws = [Draws(chain.from_iterable(drawn)) for drawn in self._drawn]
        self._spools = [Spool(Draft, folder), Spool(Draft, folder)]
        self._following = [0, clicks]

    def see(self, shown: Sequence[Draft]) -> None:
        """Click on the next impressions, in their order."""
        first, end = shown[0].number, shown[-1].number + 1
        clicked = [
            (shown[index - first], shown[index - first].ad, delay_ms)
            for index, delay_ms in self._draws[0].below(end)
        ]
        orphans = [(shown[index - first], ad, 0) for index, ad in self._draws[1].below(end)]
        for kind, found in enumerate((clicked, orphans)):
            self._spools[kind].add(
                [
                    Draft(
                        CLICKS, number, on.event_ms + delay_ms, on.user, ad, on.page, on.partition,
                        on.event_ms + delay_ms,
                    )
                    for number, (on, ad, delay_ms) in enumerate(found, self._following[kind])
                ]
            )  # fmt: skip
            self._following[kind] += len(found)

    def __iter__(self) -> Iterator[list[Draft]]:
        return chain(*self._spools)

    def close(self) -> None:
        """Delete what is on disk."""
        for drawn in self._drawn:
            drawn.close()
        for spool in self._spools:
            spool.close()


def _clicks(rng: Random, settings: Settings) -> Iterator[tuple[int, int]]:
    """Index of an impression, and how long after it a click follows, in milliseconds."""
    longest_ms = CLICK_LONGEST * settings.bound_ms
    median_ms = CLICK_MEDIAN * settings.bound_ms
    for index in some(rng, settings.impressions, settings.ctr):
        times = 1 if rng.random() >= SECOND_CLICK_P else 2 + (rng.random() < 0.2)
        for _ in range(times):
            yield index, int(min(median_ms * exp(rng.gauss(0, CLICK_SIGMA)), longest_ms))


def _orphans(rng: Random, settings: Settings) -> Iterator[tuple[int, int]]:
    """Index of an impression, and the ad of a click that belongs to none: same user and time, mostly another ad."""
    for index in some(rng, settings.impressions, ORPHAN_CLICK_P * settings.ctr):
        yield index, rng.randrange(ADS)


def _wave(x: float) -> float:
    """Maps 0..1 to 0..2 so that the middle is slightly denser than the ends."""
    return 2 * (x - 0.25 * x * (1 - x) * (2 * x - 1))
