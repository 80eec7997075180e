"""Which faults strike, and from which batch on: the seed's choice alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

LONGEST_DELAY_S = 0.4
"""Calibration: a warm batch takes about 1 s; a strike later than this would often find it over."""

KILL_EXECUTOR = "KillExecutor"
KILL_DRIVER = "KillDriver"


@dataclass(frozen=True)
class Strike:
    """One planned fault: not before ``batch``; an executor dies ``delay_s`` after that batch was planned."""

    fault: str
    batch: int
    delay_s: float


def plan_strikes(rng: random.Random, *, executors: int, drivers: int, batches: int) -> list[Strike]:
    """So many strikes of each kind, mixed, spread over about ``batches`` batches; the very first is left in peace."""
    count, last = executors + drivers, max(batches - 1, 1)
    wanted = sorted(rng.sample(range(1, last + 1), min(count, last)) + [last] * max(0, count - last))
    faults = [KILL_EXECUTOR] * executors + [KILL_DRIVER] * drivers
    rng.shuffle(faults)
    return [
        Strike(fault, batch, rng.uniform(0.0, LONGEST_DELAY_S))
        for fault, batch in zip(faults, wanted, strict=True)
    ]
