"""Generates ad impressions and clicks in event time, with realistic proportions.

Pure, without I/O. Impressions have random times, denser in the middle of the trace than at its ends. A share of them
(the click-through rate) is clicked: mostly after a few seconds, some long after the time bound of the join, a few two
or three times. A few clicks belong to no impression.
"""

from __future__ import annotations

from itertools import cycle, islice
from math import exp
from random import Random

from producers.draft import Draft
from producers.entities import ADS, Entities, partition_of
from producers.lateness import some
from producers.settings import BASE_MS, CLICKS, IMPRESSIONS, Settings

CLICK_MEDIAN = 0.15
"""Half of all clicks follow within this fraction of the time bound (3 s of 20 s)."""

CLICK_SIGMA = 1.0
"""Standard deviation of the logarithm of the click delay: about 3 % of the clicks follow after the bound."""

CLICK_LONGEST = 4.0
"""The longest click delay, in time bounds."""

PAGE_DRAWS = 10_007
"""Pages repeat after this many impressions: no join uses them, and sampling one costs as much as sampling a user."""

SECOND_CLICK_P = 0.06
ORPHAN_CLICK_P = 0.01


def impressions(rng: Random, settings: Settings, entities: Entities) -> list[Draft]:
    """``settings.impressions`` drafts in order of event time."""
    n, users = settings.impressions, entities.users
    half = settings.duration_ms / 2
    moments = sorted([BASE_MS + int(_wave(rng.random()) * half) for _ in range(n)])
    chosen_users = rng.choices(range(len(users)), cum_weights=entities.user_weights, k=n)
    ads = rng.choices(range(len(entities.ads)), cum_weights=entities.ad_weights, k=n)
    some_pages = rng.choices(range(len(entities.pages)), cum_weights=entities.page_weights, k=PAGE_DRAWS)
    pages = islice(cycle(some_pages), n)
    place = [partition_of(user, settings.partitions) for user in users]
    return [
        Draft(IMPRESSIONS, number, moment, users[user], ad, page, place[user], moment)
        for number, (moment, user, ad, page) in enumerate(zip(moments, chosen_users, ads, pages, strict=True))
    ]


def clicks(rng: Random, settings: Settings, seen: list[Draft]) -> list[Draft]:
    """The clicks on the impressions ``seen``, in no particular order."""
    found: list[Draft] = []
    longest_ms = CLICK_LONGEST * settings.bound_ms
    median_ms = CLICK_MEDIAN * settings.bound_ms
    for index in some(rng, len(seen), settings.ctr):
        on = seen[index]
        times = 1 if rng.random() >= SECOND_CLICK_P else 2 + (rng.random() < 0.2)
        for _ in range(times):
            delay_ms = int(min(median_ms * exp(rng.gauss(0, CLICK_SIGMA)), longest_ms))
            moment = on.event_ms + delay_ms
            found.append(Draft(CLICKS, len(found), moment, on.user, on.ad, on.page, on.partition, moment))
    for index in some(rng, len(seen), ORPHAN_CLICK_P * settings.ctr):
        on, ad = seen[index], rng.randrange(ADS)
        found.append(Draft(CLICKS, len(found), on.event_ms, on.user, ad, on.page, on.partition, on.event_ms))
    return found


def _wave(x: float) -> float:
    """Maps 0..1 to 0..2 so that the middle is slightly denser than the ends."""
    return 2 * (x - 0.25 * x * (1 - x) * (2 * x - 1))
