"""Faults that overlap: how they are typed, and which are refused because they could never be injected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.errors import UsageError
from tidemark.faults.overlaps import FaultPart, can_overlap, steps
from tidemark.faults.schedule import FaultSpec, read_schedule, write_schedule
from tidemark.formats.faults import AFTER_COMMIT, POINTS, CommitPoint, FaultAction, FaultComponent

BROKER = FaultSpec(FaultComponent.BROKER, FaultAction.PAUSE, CommitPoint.WRITTEN, 2.0)
DRIVER = FaultSpec(FaultComponent.DRIVER, point=CommitPoint.WRITTEN)


def parts_of(text):
    [spec] = read_schedule(text)
    return [FaultPart(part.component, part.action, part.point) for part in spec.parts]


def test_faults_joined_by_a_plus_are_one_that_has_the_others_beside_it():
    specs = read_schedule("executor, broker:pause@written~2+driver*3,driver@planned")

    assert [spec.beside for spec in specs] == [(), (DRIVER,), ()]
    assert specs[1] == replace(BROKER, count=3, beside=(DRIVER,))
    assert specs[1].parts == (BROKER, DRIVER)
    assert specs[0].parts == (specs[0],)


@pytest.mark.parametrize(
    "text",
    [
        "broker:pause@written~2+driver@written",
        "driver@written+driver@planned*2",
        "executors:pause@planned~5+executor@planned",
        "broker:delay=300ms@planned+executor@half-written+driver@written",
        "driver:pause@no-data+broker@no-data,driver@written",
    ],
)
def test_what_overlaps_is_written_as_it_is_read(text):
    assert write_schedule(read_schedule(text)) == text


def test_spaces_around_a_plus_are_read_and_not_written():
    assert write_schedule(read_schedule("broker@planned + driver@planned")) == (
        "broker@planned+driver@planned"
    )


def test_a_network_fault_of_a_broker_anywhere_needs_the_proxy():
    text = "broker:delay+driver@written,broker+driver@planned,driver+executor:cut@planned"
    specs = read_schedule(text)
    assert [spec.is_of_network for spec in specs] == [True, False, True]
    assert [spec.disturbs(FaultComponent.BROKER) for spec in specs] == [True, False, False]
    assert [spec.disturbs(FaultComponent.EXECUTOR) for spec in specs] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("driver:kill-twice+broker@written", "kill-twice is two faults already"),
        ("broker@planned+driver@committed", "injected in a batch that is over"),
        ("driver@no-data+broker@planned", "a batch that is at no-data reads nothing"),
        ("driver@planned+driver@planned+driver@planned", "killed more than 2 times"),
        ("broker:pause@planned+driver@written", "does not come to driver@written"),
        ("executor:cut@planned+driver@written", "does not come to driver@written"),
        ("executor:cut@planned+executor:loss@planned", "executor has a fault already"),
        ("executor:cut@planned+worker@planned", "a worker that is gone"),
        ("worker@planned+executor:cut@planned", "executor has a fault already"),
        ("broker@written+driver@written+driver@planned", "does not come to driver@planned"),
        ("executor@half-written+driver@planned", "at half-written was at planned before"),
        ("driver@written+driver@half-written", "stays written"),
        ("driver@state+driver@state", "stays written"),
        ("executor@state+driver@half-written", "at state was at half-written before"),
        ("broker@planned+broker:pause@planned", "broker has a fault already"),
        ("driver:pause@planned+driver@planned", "driver has a fault already"),
        ("executors@planned+executor@planned", "no executor is left"),
        ("executors:pause@planned+executor:pause@planned", "executor has a fault already"),
        ("executors:pause@planned+executors@planned", "is killed with all others"),
        ("executor:pause@no-data+executors@no-data", "is killed with all others"),
    ],
)
def test_what_could_never_overlap_is_refused_with_the_reason_and_a_hint(text, said):
    with pytest.raises(UsageError, match="cannot be made") as error:
        read_schedule(text)
    assert said in (error.value.detail or "")
    assert error.value.hint


@pytest.mark.parametrize("text", ["driver*2+broker@written", "driver+", "+driver", "driver++broker"])
def test_a_count_in_between_and_an_empty_part_are_refused(text):
    with pytest.raises(UsageError) as error:
        read_schedule(text)
    assert error.value.hint


def test_a_step_is_what_is_injected_at_one_point_of_one_run_of_the_batch():
    assert steps(parts_of("broker:pause@written+driver@written")) == [[0, 1]]
    assert steps(parts_of("broker:delay@planned+driver@written")) == [[0], [1]]
    assert steps(parts_of("driver@planned+driver@planned")) == [[0], [1]]
    assert steps(parts_of("executor@planned+broker:delay@planned+driver@planned+executor@planned")) == [
        [0, 1, 2],
        [3],
    ]


def test_every_fault_can_overlap_with_another_one():
    every = [FaultPart(*what, point) for what, points in POINTS.items() for point in points]
    single = {
        part for part in every if part.action is not FaultAction.KILL_TWICE and part.point not in AFTER_COMMIT
    }
    pairs = [(first, then) for first in single for then in single if can_overlap([first, then])]

    assert {first for first, _ in pairs} == single
    assert {then for _, then in pairs} == single
    assert not [pair for pair in pairs if steps(pair) == [[0], [1]] and pair[0].holds_batch]
