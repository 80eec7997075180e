"""When faults strike, and which, is the seed's choice alone."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidemark.chaos.strikes import KILL_DRIVER, KILL_EXECUTOR, plan_strikes


def plan(seed: int = 1, executors: int = 3, drivers: int = 2, batches: int = 20):
    return plan_strikes(random.Random(seed), executors=executors, drivers=drivers, batches=batches)


def test_the_same_seed_strikes_at_the_same_moments():
    assert plan(5) == plan(5)
    assert plan(5) != plan(6)


@pytest.mark.parametrize(
    ("executors", "drivers", "batches"), [(0, 0, 10), (3, 0, 20), (3, 2, 3), (0, 2, 1), (2, 4, 30)]
)
def test_all_strikes_are_planned_in_order_and_none_before_the_second_batch(executors, drivers, batches):
    strikes = plan(1, executors, drivers, batches)

    assert Counter(strike.fault for strike in strikes) == +Counter(
        {KILL_EXECUTOR: executors, KILL_DRIVER: drivers}
    )
    assert [strike.batch for strike in strikes] == sorted(strike.batch for strike in strikes)
    assert all(1 <= strike.batch <= max(batches - 1, 1) for strike in strikes)


def test_faults_of_different_kinds_are_mixed():
    orders = {tuple(strike.fault for strike in plan(seed, 2, 2)) for seed in range(20)}
    assert len(orders) > 3
