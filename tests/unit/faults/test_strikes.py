"""A schedule in words; when faults strike, and which, is the seed's choice alone."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidemark.errors import UsageError
from tidemark.faults.schedule import POINTS, WRITTEN, Sort, plan_strikes, read_schedule, write_schedule

DRIVER = Sort("driver", point=WRITTEN)
EXECUTOR = Sort("executor")


def plan(seed: int = 1, executors: int = 3, drivers: int = 2, batches: int = 20):
    return plan_strikes(random.Random(seed), [EXECUTOR] * executors + [DRIVER] * drivers, batches)


def test_the_same_seed_strikes_at_the_same_moments():
    assert plan(5) == plan(5)
    assert plan(5) != plan(6)


@pytest.mark.parametrize(
    ("executors", "drivers", "batches"), [(0, 0, 10), (3, 0, 20), (3, 2, 3), (0, 2, 1), (2, 4, 30)]
)
def test_all_strikes_are_planned_in_order_and_none_before_the_second_batch(executors, drivers, batches):
    strikes = plan(1, executors, drivers, batches)

    assert Counter(strike.sort for strike in strikes) == +Counter({EXECUTOR: executors, DRIVER: drivers})
    assert [strike.batch for strike in strikes] == sorted(strike.batch for strike in strikes)
    assert all(1 <= strike.batch <= max(batches - 1, 1) for strike in strikes)


def test_faults_of_different_kinds_are_mixed():
    orders = {tuple(strike.sort.component for strike in plan(seed, 2, 2)) for seed in range(20)}
    assert len(orders) > 3


def test_who_is_struck_is_the_seeds_choice_and_after_a_miss_it_is_the_next():
    first = {seed: plan(seed, 2, 2)[0] for seed in range(20)}
    assert {strike.choose(["a", "b"]) for strike in first.values()} == {"a", "b"}
    missed = first[0].again()
    assert {first[0].choose(["a", "b"]), missed.choose(["a", "b"])} == {"a", "b"}
    assert missed.again().choose(["a", "b"]) == first[0].choose(["a", "b"])
    assert missed.delay_s == first[0].delay_s / 2
    assert (missed.sort, missed.batch) == (first[0].sort, first[0].batch)


def test_a_fault_is_named_after_what_is_done_to_whom():
    names = [sort.name for sort in read_schedule("driver,driver:kill-twice,executors,broker:pause")]
    assert names == ["KillDriver", "KillDriverTwice", "KillExecutors", "PauseBroker"]


def test_a_schedule_is_read_with_its_defaults():
    assert read_schedule("driver*2, executor:pause@half-written~2.5,broker") == (
        Sort("driver", "kill", "written"),
        Sort("driver", "kill", "written"),
        Sort("executor", "pause", "half-written", 2.5),
        Sort("broker", "kill", "planned"),
    )
    assert read_schedule("") == ()


@pytest.mark.parametrize(("component", "action"), POINTS)
def test_every_fault_is_written_as_it_is_read(component, action):
    for point in POINTS[component, action]:
        sorts = (
            Sort(component, action, point),
            Sort(component, action, point, 2.25),
            Sort(component, action, point, 2.25),
        )
        assert read_schedule(write_schedule(sorts)) == sorts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("driver@@written", "is no fault"),
        ("driver*-1", "is no fault"),
        ("driver*0", "asks for no fault at all"),
        ("driver:pause~1.2.3", "is no fault"),
        ("fridge", "no fault that can be done"),
        ("broker:tease", "no fault that can be done"),
        ("master@written", "cannot be done at 'written'"),
    ],
)
def test_what_is_no_fault_is_refused_with_a_hint(text, said):
    with pytest.raises(UsageError, match=said) as error:
        read_schedule(f"driver,{text}")
    assert error.value.hint
