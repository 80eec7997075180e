"""Faults of the network are refused, before anything is made, where they cannot be injected."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tidemark.errors import FetchError, UsageError
from tidemark.formats.faults import LINK_ACTIONS, LINK_FAULTS, FaultAction, FaultComponent
from tidemark.runner import RunOptions, possible_faults
from tidemark.runner.one_run import _must_be_possible
from tidemark.runner.possible_faults import needs_proxy, possible_link_faults
from tidemark.stack import StackSpec
from tidemark.stack.local import packet_links

CUT = RunOptions("inner", faults="driver,broker:cut@planned")


@pytest.fixture
def without_go(monkeypatch, tmp_path):
    """A machine without Go, on which the network proxy was not built before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))


@pytest.mark.usefixtures("without_go")
@pytest.mark.parametrize("fault", ["broker:delay", "broker:jitter@written", "broker:throttle=8kB@planned"])
def test_what_makes_bytes_wait_takes_the_proxy_in_containers_too(fault):
    options = RunOptions("inner", faults=f"driver,{fault}")
    assert needs_proxy(options.fault_specs, "compose")
    with pytest.raises(FetchError, match="built with Go, and there is none"):
        _must_be_possible(options, StackSpec("compose"))
    [_, spec] = options.fault_specs
    assert (spec.component, spec.action) not in possible_link_faults("compose")


@pytest.mark.usefixtures("without_go")
@pytest.mark.parametrize(
    "fault", ["broker:cut", "broker:loss@written", "executor:cut-sent@written", "executor:throttle"]
)
def test_the_packet_filter_of_a_container_takes_nothing_of_this_machine(fault):
    options = RunOptions("inner", faults=fault)
    assert not needs_proxy(options.fault_specs, "compose")
    _must_be_possible(options, StackSpec("compose"))
    [spec] = options.fault_specs
    assert (spec.component, spec.action) in possible_link_faults("compose")


@pytest.mark.usefixtures("without_go")
def test_a_machine_without_go_cannot_build_it():
    with pytest.raises(FetchError, match="built with Go, and there is none"):
        _must_be_possible(CUT, StackSpec("local"))


OF_EXECUTOR = RunOptions("inner", faults="driver+executor:cut@planned,executor:throttle")


def test_where_the_packet_filter_is_out_of_reach_links_of_executors_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match="between driver and executors cannot be disturbed") as error:
        _must_be_possible(OF_EXECUTOR, StackSpec("local"))
    assert "iptables" in f"{error.value.detail} {error.value.hint}"
    assert not needs_proxy(OF_EXECUTOR.fault_specs, "local")


def test_packets_to_kafka_are_lost_by_the_packet_filter(monkeypatch):
    needed = []

    def why_impossible(**what):
        needed.append(what)
        return "no module statistic"

    monkeypatch.setattr(packet_links, "why_impossible", why_impossible)
    monkeypatch.setattr(possible_faults, "must_be_buildable", lambda: None)
    with pytest.raises(UsageError, match="packets between Spark and Kafka cannot be disturbed") as error:
        _must_be_possible(RunOptions("inner", faults="broker:loss=5%@planned"), StackSpec("local"))
    assert error.value.detail == "no module statistic"
    assert needed == [{"of_executors": False, "throttles": False}]
    assert possible_link_faults("local") == {
        (FaultComponent.BROKER, action)
        for action in LINK_ACTIONS[FaultComponent.BROKER]
        if action is not FaultAction.LOSS
    }


def test_without_traffic_control_a_throttled_executor_alone_is_impossible(monkeypatch):
    monkeypatch.setattr(
        packet_links, "why_impossible", lambda *, throttles, **_: "no tc" if throttles else ""
    )
    monkeypatch.setattr(possible_faults, "must_be_buildable", lambda: None)
    missing = {
        one for one in LINK_FAULTS - possible_link_faults("local") if one[0] is not FaultComponent.REGISTRY
    }
    assert missing == {(FaultComponent.EXECUTOR, FaultAction.THROTTLE)}


def test_the_link_of_a_registry_needs_one_and_leaves_that_to_kafka_alone(monkeypatch):
    monkeypatch.setattr(possible_faults, "must_be_buildable", lambda: None)
    options = RunOptions("inner", faults="registry:cut@planned")
    with pytest.raises(UsageError, match="the run has no schema registry") as error:
        _must_be_possible(options, StackSpec("local"))
    assert "--registry" in error.value.hint
    with_one = replace(options, registry=True)
    _must_be_possible(with_one, StackSpec("local", registry=True))
    assert with_one.needs_proxied_registry
    assert not needs_proxy(with_one.fault_specs, "local")
    assert not any(component is FaultComponent.REGISTRY for component, _ in possible_link_faults("local"))


@pytest.mark.usefixtures("without_go")
def test_other_faults_need_no_proxy():
    options = RunOptions("inner", faults="broker:pause@planned")
    assert not needs_proxy(options.fault_specs, "local")
    _must_be_possible(options, StackSpec("local"))
