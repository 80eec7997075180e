"""Faults of the network are refused, before anything is made, where there is no proxy for them."""

from __future__ import annotations

import os

import pytest

from tidemark.errors import FetchError, UsageError
from tidemark.runner import RunOptions
from tidemark.runner.one_run import _must_be_possible
from tidemark.stack import StackSpec

CUT = RunOptions("inner", faults="driver,broker:cut@planned")


def test_containers_have_no_proxy():
    with pytest.raises(UsageError, match="the network of the backend compose cannot be disturbed") as error:
        _must_be_possible(CUT, StackSpec("compose"))
    assert "--backend local" in error.value.hint


def test_a_machine_without_go_cannot_build_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(FetchError, match="built with Go, and there is none"):
        _must_be_possible(CUT, StackSpec("local"))


OF_EXECUTOR = RunOptions("inner", faults="driver+executor:cut@planned,executor:throttle")


def test_where_the_packet_filter_is_out_of_reach_links_of_executors_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match="between driver and executors cannot be disturbed") as error:
        _must_be_possible(OF_EXECUTOR, StackSpec("local"))
    assert "iptables" in f"{error.value.detail} {error.value.hint}"
    assert not OF_EXECUTOR.needs_proxy


def test_what_cannot_be_done_to_links_in_containers_is_refused():
    with pytest.raises(UsageError, match="cannot be throttled in containers") as error:
        _must_be_possible(OF_EXECUTOR, StackSpec("compose"))
    assert "loss" in error.value.hint
    _must_be_possible(RunOptions("inner", faults="executor:cut-sent@written"), StackSpec("compose"))


def test_other_faults_need_no_proxy(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    options = RunOptions("inner", faults="broker:pause@planned")
    assert not options.needs_proxy
    _must_be_possible(options, StackSpec("local"))
