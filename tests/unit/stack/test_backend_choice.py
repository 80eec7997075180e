from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.stack.conftest import fake_record
from tidemark.errors import UsageError
from tidemark.paths import BACKEND_VARIABLE
from tidemark.stack import StackSpec
from tidemark.stack.backend_choice import backend_to_start, spec_to_lease
from tidemark.stack.compose import docker_engine


@pytest.fixture(autouse=True)
def nothing_requested(monkeypatch):
    monkeypatch.delenv(BACKEND_VARIABLE, raising=False)


@pytest.fixture
def running(state):
    """A function that lets a stack of that backend run."""

    def run(backend: str, **more: object) -> None:
        state.make(backend)
        record = fake_record(state.home)
        record.backend, record.ready = backend, True
        for name, value in more.items():
            setattr(record, name, value)
        state.write(record)

    return run


def test_up_uses_containers_where_they_are_available(state, monkeypatch):
    monkeypatch.setattr(docker_engine, "why_unavailable", lambda: "")
    assert backend_to_start(None, home=state.home)[0] == "compose"


def test_up_uses_processes_elsewhere_and_gives_the_reason(state, monkeypatch):
    monkeypatch.setattr(docker_engine, "why_unavailable", lambda: "there is no Compose v2")
    assert backend_to_start(None, home=state.home) == ("local", "there is no Compose v2")


def test_up_uses_the_requested_backend(state, running):
    running("local")
    assert backend_to_start("compose", home=state.home) == ("compose", "requested")


def test_up_uses_the_backend_of_the_running_stack(state, running, monkeypatch):
    monkeypatch.setattr(docker_engine, "why_unavailable", lambda: "")
    running("local")
    assert backend_to_start(None, home=state.home)[0] == "local"


def test_a_lease_uses_processes_if_no_stack_runs(state):
    assert spec_to_lease(home=state.home) == StackSpec()


def test_a_lease_uses_the_running_stack(state, running):
    running("compose", workers=3, kafka_ports=[1, 2, 3])
    assert spec_to_lease(home=state.home) == StackSpec("compose", workers=3, brokers=3)


def test_a_lease_uses_the_backend_that_the_environment_requests(state, running, monkeypatch):
    running("local")
    monkeypatch.setenv(BACKEND_VARIABLE, "compose")
    assert spec_to_lease(home=state.home) == StackSpec("compose")


def test_a_lease_can_change_only_the_interpreter(state, running, tmp_path):
    running("local", workers=3)
    assert spec_to_lease(tmp_path, home=state.home) == replace(StackSpec(workers=3), python=tmp_path)


def test_an_unknown_backend_is_wrong_usage(state, monkeypatch):
    monkeypatch.setenv(BACKEND_VARIABLE, "kubernetes")
    with pytest.raises(UsageError, match="kubernetes") as error:
        spec_to_lease(home=state.home)
    assert "local, compose, external" in error.value.hint


def test_an_external_stack_must_be_recorded_first(state, monkeypatch):
    monkeypatch.setenv(BACKEND_VARIABLE, "external")
    with pytest.raises(UsageError, match="no external stack"):
        spec_to_lease(home=state.home)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"backend": "external"}, "without external addresses"),
        ({"brokers": 2}, "2 brokers"),
        ({"workers": 9}, "9 workers"),
        ({"backend": "podman"}, "podman"),
    ],
)
def test_an_impossible_spec_is_wrong_usage(wrong, says):
    with pytest.raises(UsageError, match=says) as error:
        StackSpec(**wrong)
    assert error.value.hint
