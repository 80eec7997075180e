"""The entities of the events: users, ads with their campaigns, pages, user agents.

Pure, without I/O. Faker generates each pool once from the seed, and events sample the pools, so a million events need
no more calls of Faker than a thousand. Popularity follows Zipf's law with a flattened head: a few users and ads are
frequent, most are rare, and no single key dominates the join, unless it is asked for (``producers.key_skew``).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from faker import Faker

from producers.key_skew import MILD, parse_key_skew

# No Firefox among the browsers: Faker gives its Gecko engine dates up to the year 9999.
CAMPAIGNS = 40
ADS = 400
PAGES = 300
USER_AGENTS = 200
NAMES = 1_000
IMPRESSIONS_PER_USER = 4


class Pools(NamedTuple):
    """The pools that Faker generated."""

    names: list[str]
    campaigns: list[str]
    pages: list[str]
    user_agents: list[str]


class Entities:
    """The pools of one trace and the cumulative weights to sample them with.

    ``users`` is the number of users; a name is made when it is used, because there may be millions.
    """

    def __init__(self, seed: int, impressions: int, key_skew: str = MILD) -> None:
        pools = make_pools(seed)
        self.names = pools.names
        self.users = max(20, impressions // IMPRESSIONS_PER_USER)
        self.ads = [f"ad-{number:03d}" for number in range(1, ADS + 1)]
        self.campaign_of_ad = [pools.campaigns[number % CAMPAIGNS] for number in range(ADS)]
        self.pages = pools.pages
        self.user_agents = pools.user_agents
        if exponent := parse_key_skew(key_skew).exponent:
            self.user_weights = zipf_weights(self.users, exponent=exponent, flat=0)
            self.ad_weights = zipf_weights(ADS, exponent=exponent, flat=0)
        else:
            self.user_weights = zipf_weights(self.users, exponent=0.9, flat=10)
            self.ad_weights = zipf_weights(ADS, exponent=1.0, flat=3)
        self.page_weights = zipf_weights(PAGES, exponent=1.0, flat=2)

    def user(self, number: int) -> str:
        """The name of a user."""
        return f"{self.names[number % NAMES]}-{number}"

    def agent_of(self, user: str) -> int:
        """The user agent of a user, as an index into ``user_agents``: always the same for the same user."""
        return crc32(user.encode()) % USER_AGENTS


@lru_cache(maxsize=4)
def make_pools(seed: int) -> Pools:
    """The pools for a seed; they do not depend on the size of the trace."""
    fake = Faker("en_US")
    fake.seed_instance(seed)
    browsers = (fake.chrome, fake.chrome, fake.safari, fake.opera, fake.internet_explorer)
    return Pools(
        names=[fake.user_name() for _ in range(NAMES)],
        campaigns=[f"{number:02d}-{fake.slug(fake.bs())}" for number in range(1, CAMPAIGNS + 1)],
        pages=[fake.uri() for _ in range(PAGES)],
        user_agents=[browsers[number % len(browsers)]() for number in range(USER_AGENTS)],
    )


def zipf_weights(n: int, *, exponent: float, flat: float) -> Sequence[float]:
    """Cumulative weights ``1 / (rank + flat) ** exponent`` of ``n`` ranks, for ``Random.choices``."""
    return array("d", accumulate((rank + flat) ** -exponent for rank in range(1, n + 1)))


def partition_of(user: str, partitions: int) -> int:
    """The partition that a user's records go to."""
    return crc32(user.encode()) % partitions
