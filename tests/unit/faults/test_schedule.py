"""A schedule in words, and the plan that a seed makes of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tidemark.cli.run_commands import with_kills
from tidemark.errors import UsageError
from tidemark.faults.schedule import (
    REPLACED_AT_ONCE,
    FaultSpec,
    plan_faults,
    read_schedule,
    write_schedule,
)
from tidemark.formats.faults import KILLS, POINTS, CommitPoint, FaultAction, FaultComponent, fault_label

DRIVER = FaultSpec(FaultComponent.DRIVER, point=CommitPoint.WRITTEN)
EXECUTOR = FaultSpec(FaultComponent.EXECUTOR)


def plan(seed: int = 1, executors: int = 3, drivers: int = 2, batches: int = 20):
    specs = [replace(EXECUTOR, count=executors), replace(DRIVER, count=drivers)]
    return plan_faults(random.Random(seed), specs, batches)


def test_the_same_seed_makes_the_same_plan():
    assert plan(5) == plan(5)
    assert plan(5) != plan(6)


@pytest.mark.parametrize(
    ("executors", "drivers", "batches"), [(0, 0, 10), (3, 0, 20), (3, 2, 3), (0, 2, 1), (2, 4, 30)]
)
def test_all_faults_are_planned_in_order_and_none_before_the_second_batch(executors, drivers, batches):
    faults = plan(1, executors, drivers, batches)

    assert Counter(fault.spec for fault in faults) == +Counter({EXECUTOR: executors, DRIVER: drivers})
    assert [fault.batch for fault in faults] == sorted(fault.batch for fault in faults)
    assert all(1 <= fault.batch <= max(batches - 1, 1) for fault in faults)


def test_faults_of_different_kinds_are_mixed():
    orders = {tuple(fault.spec.component for fault in plan(seed, 2, 2)) for seed in range(20)}
    assert len(orders) > 3


def test_the_victim_is_the_seeds_choice_and_a_retry_takes_the_next():
    first = {seed: plan(seed, 2, 2)[0] for seed in range(20)}
    assert {fault.choose(["a", "b"]) for fault in first.values()} == {"a", "b"}
    retried = first[0].retry()
    assert {first[0].choose(["a", "b"]), retried.choose(["a", "b"])} == {"a", "b"}
    assert retried.retry().choose(["a", "b"]) == first[0].choose(["a", "b"])
    assert retried.delay_s == first[0].delay_s / 2
    assert (retried.spec, retried.batch) == (first[0].spec, first[0].batch)


def test_the_label_of_a_fault_is_its_action_and_its_component():
    specs = read_schedule("driver,driver:kill-twice,executors,broker:pause,broker:cut,broker:cut-requests")
    labels = [fault_label(spec.component, spec.action) for spec in specs]
    assert labels == ["kill driver", "kill driver twice", "kill all executors", "pause broker",
        "cut network of broker", "cut requests to broker",
    ]  # fmt: skip


def test_no_two_faults_have_the_same_label():
    assert len({fault_label(*what) for what in POINTS}) == len(POINTS)


def test_a_schedule_is_read_with_its_defaults():
    kill, pause = FaultAction.KILL, FaultAction.PAUSE
    assert read_schedule("driver*2, executor:pause@half-written~2.5,broker") == (
        FaultSpec(FaultComponent.DRIVER, kill, CommitPoint.WRITTEN, count=2),
        FaultSpec(FaultComponent.EXECUTOR, pause, CommitPoint.HALF_WRITTEN, 2.5),
        FaultSpec(FaultComponent.BROKER, kill, CommitPoint.PLANNED),
    )
    assert read_schedule("") == ()


@pytest.mark.parametrize(("component", "action"), POINTS)
def test_every_fault_is_written_as_it_is_read(component, action):
    for point in POINTS[component, action]:
        once, specs = FaultSpec(component, action, point), [FaultSpec(component, action, point)]
        if component not in REPLACED_AT_ONCE or action not in KILLS:
            specs.append(FaultSpec(component, action, point, 2.25, count=2))
        assert read_schedule(write_schedule(specs)) == (*specs,)
        assert write_schedule([once, *specs]) == ",".join(map(str, [replace(once, count=2), *specs[1:]]))


def test_an_amount_is_read_and_written_in_its_unit_and_has_a_usual_one():
    text = "broker:delay=500ms@written~3,broker:throttle=64kB@planned,broker:jitter@planned,executor:loss=5%@planned"
    specs = read_schedule(text)
    assert [spec.amount for spec in specs] == [500.0, 64.0, 200.0, 5.0]
    assert write_schedule(specs) == text
    assert read_schedule("broker:delay=200ms") == read_schedule("broker:delay")


@pytest.mark.parametrize(
    ("text", "holds", "holds_not"),
    [
        ("executor@planned*until=30s", (30.0, 0), (29.9, 99)),
        ("broker:pause@planned+driver@planned*until=10batches", (0.0, 10), (999.0, 9)),
    ],
)
def test_a_fault_that_is_repeated_until_something_holds_is_read_and_written(text, holds, holds_not):
    [spec] = read_schedule(text)
    assert write_schedule([spec]) == text
    assert write_schedule([spec, spec]) == f"{text},{text}"
    assert spec.until.holds(*holds)
    assert not spec.until.holds(*holds_not)
    assert (spec.once.until, str(spec.once)) == (None, text.partition("*")[0])
    assert all(part.until is None for part in spec.parts)


def test_kill_executors_and_kill_drivers_are_words_for_a_schedule():
    assert with_kills("", 0, 0) == ""
    assert read_schedule(with_kills("broker", 3, 2)) == (
        replace(EXECUTOR, count=3), replace(DRIVER, count=2), FaultSpec(FaultComponent.BROKER)
    )  # fmt: skip


@pytest.mark.parametrize("action", ["delay", "jitter"])
def test_an_executor_is_not_delayed_and_the_error_says_why_and_what_is(action):
    with pytest.raises(UsageError, match="cannot be injected") as error:
        read_schedule(f"executor:{action}@planned")
    assert "netem" in error.value.detail
    assert "executor:throttle" in error.value.detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broker:cut=5ms", "has an amount, and cut has none"),
        ("broker:delay=5kB", "is no amount of delay"),
        ("broker:throttle=0kB", "is no amount of throttle"),
        ("executor:loss=150%", "is no amount of loss"),
        ("broker:delay=5", "is no fault"),
        ("driver@@written", "is no fault"),
        ("driver*-1", "is no fault"),
        ("driver*0", "asks for no fault at all"),
        ("driver*until=0s", "asks for no fault at all"),
        ("driver*until=5", "is no fault"),
        ("executor@planned*until=5s+driver@planned", "has a count between faults that overlap"),
        ("driver:pause~1.2.3", "is no fault"),
        ("driver@written~10", "has a duration, and a kill of the driver has none"),
        ("driver:kill-twice~10", "has a duration, and a kill of the driver has none"),
        ("executors:kill@planned~0.5", "has a duration, and a kill of the executors has none"),
        ("fridge", "cannot be injected"),
        ("broker:tease", "cannot be injected"),
        ("master@written", "cannot be injected at 'written'"),
    ],
)
def test_what_is_no_fault_is_refused_with_a_hint(text, said):
    with pytest.raises(UsageError, match=said) as error:
        read_schedule(f"driver,{text}")
    assert error.value.hint
