"""Random settings of the generator, and the pools that their recorded traces have instead of Faker's.

``python -m tests.unit.producers.trace_settings`` writes the digests of the traces anew. It is needed only when the
generator is to give other traces: the recorded ones say that it gives the same.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random
from unittest.mock import patch

from producers import entities
from producers.entities import CAMPAIGNS, NAMES, PAGES, USER_AGENTS, Pools
from producers.generate import write
from producers.lateness import DEFAULT_LATENESS, MODELS
from producers.settings import Settings
from tidemark.formats.trace import PACES

DIGESTS = Path(__file__).with_name("trace_digests.jsonl")
TRACES = 160
SHARES = (0, 0, 0.01, 0.01, 0.2, 1)


def random_settings(seed: int) -> Settings:
    """Settings of a small trace: mixes of lateness, shares from none to all, any pace, one slice or many."""
    rng = Random(f"settings/{seed}")
    terms = [
        f"{rng.choice(tuple(MODELS))}:{rng.choice((0, 0.05, 0.3, 1))}*{rng.choice((0.05, 0.5, 1, 3))}"
        for _ in range(rng.randint(1, 5))
    ]
    return Settings(
        seed=rng.randrange(1_000),
        impressions=rng.choice((1, 2, 7, 60, 400, 1_200, 3_000)),
        ctr=rng.choice((0, 0.45, 0.45, 1)),
        slices=rng.choice((0, 0, 1, 3, 40)),
        pace=rng.choice(PACES),
        lateness=rng.choice((DEFAULT_LATENESS, "+".join(terms), "+".join(terms))),
        partitions=rng.choice((1, 2, 2, 5)),
        unreadable=rng.choice(SHARES),
        null_keys=rng.choice(SHARES),
        duplicates=rng.choice(SHARES),
        edges=rng.choice((0, 1, 1, 3)),
        delays_ms=(rng.choice((0, 10_000)), rng.choice((300, 20_000))),
        bound_ms=rng.choice((0, 50, 20_000)),
    )


@contextmanager
def plain_pools() -> Iterator[None]:
    """Pools that no version of Faker changes."""
    pools = Pools(
        names=[f"näme{number}" for number in range(NAMES)],
        campaigns=[f"campaign {number}" for number in range(CAMPAIGNS)],
        pages=[f"page/{number}?q=\"\\" for number in range(PAGES)],
        user_agents=[f"agent ({number}; \u00e9)" for number in range(USER_AGENTS)],
    )  # fmt: skip
    with patch.object(entities, "make_pools", lambda _seed: pools):
        yield


def record() -> None:
    """Generate every trace, and write its settings and its digest."""
    lines = []
    with tempfile.TemporaryDirectory() as folder, plain_pools():
        for seed in range(TRACES):
            settings = random_settings(seed)
            sha256, _ = write(settings, Path(folder) / "trace.jsonl")
            lines.append(json.dumps({"settings": asdict(settings), "sha256": sha256}) + "\n")
    DIGESTS.write_text("".join(lines))


if __name__ == "__main__":
    record()
