"""A broker that is chosen by its role: which it is, that another takes over, and where there can be none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.campaigns.soak_faults import can_be_drawn
from tidemark.errors import SinkFailed, UsageError
from tidemark.faults import component
from tidemark.faults.commit_points import RunningBatch
from tidemark.faults.overlaps import FaultPart, can_overlap
from tidemark.faults.schedule import PlannedFault, read_schedule
from tidemark.formats.faults import IN_ROLE, LINK_FAULTS, POINTS, Fault, FaultComponent
from tidemark.runner import RunOptions
from tidemark.runner.one_run import _must_be_possible
from tidemark.stack import StackSpec


class Stack:
    """Three brokers; what was done to them."""

    def __init__(self):
        self.said = []

    def components(self, kind):
        return ["broker", "broker-2", "broker-3"]

    def __getattr__(self, name):
        return lambda victim: self.said.append((name, victim))


class Target:
    """A query whose output's partitions, and whose ledger, these nodes have, one answer after the other."""

    driver = "driver"

    def __init__(self, *nodes):
        self.stack, self.progress, self.rested = Stack(), self, []
        self._nodes = list(nodes)

    def brokers(self, role, batch):
        found = self._nodes.pop(0) if len(self._nodes) > 1 else self._nodes[0]
        if found is None:
            raise SinkFailed("no coordinator")
        return found

    def injected(self, fault, batch, proof):
        spec = fault.spec
        return Fault(
            component=spec.component, action=spec.action, point=spec.point, at_utc="", injected=True,
            batch=batch, proof=dict(proof),
        )  # fmt: skip

    def rest(self, seconds):
        self.rested.append(seconds)


def planned(text, victim=0):
    [spec] = read_schedule(text)
    return PlannedFault(spec, 1, 0.0, victim)


@pytest.mark.parametrize("role", IN_ROLE)
def test_the_broker_that_has_the_role_is_out_until_another_has_it(role, monkeypatch):
    target = Target({0: 3, 1: 2}, {0: 3, 1: 2}, None, {0: 3, 1: -1}, {0: 3, 1: 1})
    monkeypatch.setattr(component, "at_point", lambda *_, **_more: _There())

    line = component.inject_into_component(
        target, planned(f"{role}@planned~2", victim=1), RunningBatch(1, {}), unless=lambda: None
    )

    assert target.stack.said == [("kill", "broker-2"), ("start", "broker-2")]
    assert line.proof["component_name"] == "broker-2"
    assert line.proof["role"] == {"partition": 1, "node": 2}
    assert line.proof["moved_to"] == 1
    assert target.rested == [2.0]
    assert line.killed(FaultComponent.BROKER)
    assert not replace_component(line, FaultComponent.WORKER).killed(FaultComponent.BROKER)


class _There:
    """A batch at its point."""

    def __enter__(self):
        return {"ends": {}}

    def __exit__(self, *_):
        return None


def replace_component(line, other):
    return Fault(component=other, action=line.action, point=line.point, at_utc="", injected=True)


def test_a_stack_of_one_broker_and_a_sink_without_a_ledger_are_refused():
    three = StackSpec("local", brokers=3)
    for role in IN_ROLE:
        options = RunOptions("inner", faults=f"worker@planned,{role}@planned")
        _must_be_possible(options, three)
        with pytest.raises(UsageError, match="the stack has one broker") as error:
            _must_be_possible(options, StackSpec("local"))
        assert "tidemark up --brokers 3" in error.value.hint
    own = replace(RunOptions("inner", faults="coordinator@planned"), sink="spark")
    with pytest.raises(UsageError, match="the sink of this run is spark"):
        _must_be_possible(own, three)
    _must_be_possible(replace(own, faults="leader@planned"), three)


def test_two_brokers_are_not_out_at_once_whatever_their_roles():
    [leader, broker] = (read_schedule(text)[0].part for text in ("leader@planned", "broker@planned"))
    assert not can_overlap([leader, broker])
    assert can_overlap([leader, read_schedule("driver@planned")[0].part])


def test_a_soak_draws_roles_on_a_stack_of_several_brokers_alone():
    every = [FaultPart(*what, point) for what, points in POINTS.items() for point in points]

    def components(**more):
        return {one.component for one in every if can_be_drawn(one, links=LINK_FAULTS, **more)}

    assert not components(brokers=1) & set(IN_ROLE)
    assert components(brokers=3) >= set(IN_ROLE)
    assert components(brokers=3, sink="spark") & set(IN_ROLE) == {FaultComponent.LEADER}
