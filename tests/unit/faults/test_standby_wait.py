"""A driver is killed when another one is there on which its query goes on, or when it is known that there is none."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.faults.test_injector import (
    Output,
    Words,
    batches,
    begin_in_batch_1,
    planned,
    until,
)
from tidemark.errors import UsageError
from tidemark.faults import injector as injectors
from tidemark.faults.injector import FaultInjector
from tidemark.faults.schedule import read_schedule
from tidemark.faults.target import FaultTarget
from tidemark.runner import RunOptions
from tidemark.runner.one_run import _must_be_possible
from tidemark.stack import StackSpec
from tidemark.stack.spec import External

__all__ = ["batches"]

THEIRS = StackSpec("external", external=External("b:9092", "sc://d:1", str(Path(__file__).parent)))


class Settled:
    """Stands for ``Standby.is_settled``: false until ``told`` is set. ``asked`` counts the calls."""

    def __init__(self):
        self.told, self.asked = threading.Event(), 0

    def __call__(self):
        self.asked += 1
        return self.told.is_set()


def injector_of(batches, stack, fault, standby, say=lambda _text: None):
    target = FaultTarget(stack, lambda: "driver", batches.checkpoint, Output())
    target = replace(target, standby_is_settled=standby)
    return FaultInjector(target, [fault], say, 10.0)


def test_a_driver_is_not_killed_before_its_standby_is_settled(batches):
    stack, standby = Words(), Settled()
    injector = injector_of(batches, stack, planned("driver", action="kill"), standby)
    begin_in_batch_1(batches, injector)
    until(lambda: standby.asked > 5, "the standby to be asked for")
    assert stack.said == []
    assert not injector.is_armed()  # so no batch is published that would be lost to it
    standby.told.set()
    until(injector.is_armed, "the injector to arm")
    batches.commit(1)
    batches.plan(2, 11)
    until(lambda: injector.journal, "the fault in the journal")
    batches.commit(2)
    [fault] = injector.finish()
    assert (fault.batch, fault.injected, fault.proof["recovered_on"]) == (2, True, "driver")


def test_a_fault_that_kills_no_driver_does_not_wait(batches):
    stack, standby = Words(), Settled()
    injector = injector_of(batches, stack, planned("executor"), standby)
    begin_in_batch_1(batches, injector)
    until(lambda: injector.journal, "the fault in the journal")
    batches.commit(1)
    [fault] = injector.finish()
    assert fault.injected
    assert "recovered_on" not in fault.proof
    assert standby.asked == 0


def test_a_run_that_ends_while_a_standby_is_awaited_ends(batches):
    standby = Settled()
    injector = injector_of(batches, Words(), planned("driver"), standby)
    begin_in_batch_1(batches, injector)
    until(lambda: standby.asked, "the standby to be asked for")
    [fault] = injector.finish()
    assert not fault.injected
    injector.check()


def test_a_slow_standby_is_not_waited_for(batches, monkeypatch):
    monkeypatch.setattr(injectors, "STANDBY_S", 0.2)
    stack, heard = Words(), []
    stack.logs = lambda _name, _lines: "the end of its log"
    injector = injector_of(batches, stack, planned("driver"), Settled(), heard.append)
    begin_in_batch_1(batches, injector)
    until(injector.is_armed, "the injector to arm")
    assert heard == ["the next fault in the driver does not wait: its standby took more than 0.2 s"]
    batches.commit(1)
    injector.finish()
    injector.check()


@pytest.mark.parametrize(
    ("faults", "kills"),
    [
        ("driver@written", True), ("driver:kill-twice", True), ("driver:pause@planned", False),
        ("executor", False), ("broker:cut@written+driver@written", True),
        ("driver:pause@planned+broker:cut@planned", False),
    ],
)  # fmt: skip
def test_which_faults_kill_a_driver(faults, kills):
    [spec] = read_schedule(faults)
    assert spec.kills_driver is kills


@pytest.mark.parametrize(
    ("options", "stack", "why"),
    [
        ({"app": "python job.py"}, StackSpec("local"), "the driver is the job's own"),
        ({"driver": "mine"}, StackSpec("local"), "the driver 'mine' is somebody else's"),
        ({}, THEIRS, "the stack is external"),
        ({"watermark_stands_at_most_s": 9.0}, StackSpec("local"), "no slice is published"),
    ],
)
def test_runs_that_cannot_have_a_standby_are_refused(options, stack, why):
    with pytest.raises(UsageError, match="cannot have a standby") as raised:
        _must_be_possible(RunOptions("inner", standby=True, **options), stack)
    assert why in str(raised.value.detail)


def test_a_run_with_a_standby_has_its_own_driver_and_says_so_in_its_command():
    options = RunOptions("inner", standby=True)
    assert options.has_own_driver
    assert options.command().endswith(" --standby")
    _must_be_possible(replace(options, watermark_stands_at_most_s=9.0, pace="timed"), StackSpec("local"))
