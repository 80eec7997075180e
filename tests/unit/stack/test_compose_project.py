"""Compose that fails or hangs is one error with its output. The ``docker`` here is a program that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.stack.compose import compose_project

HANGS = 'sh -c "echo \\$\\$ > {0}; while :; do sleep 0.1; done" "$@"'
"""Like the docker command, it starts Compose as a child with the same arguments. Writes its process id."""


@pytest.fixture
def docker(executable, monkeypatch):
    """A function that puts a ``docker`` on PATH which does this."""

    def put(text: str) -> None:
        monkeypatch.setenv("PATH", f"{executable('docker', text).parent}{os.pathsep}{os.environ['PATH']}")

    return put


@pytest.fixture
def planned(state, stack_record):
    """A stack's folder before anything is started."""
    state.make()
    state.write(stack_record)
    return state


def test_composes_output_is_in_the_error_and_not_on_the_terminal(docker, planned, capfd):
    docker("echo 'no such image' >&2; exit 17")
    with pytest.raises(DaemonDied, match="Compose could not start broker, master") as error:
        compose_project.up(planned, ["broker", "master"])
    assert error.value.detail == "no such image"
    assert capfd.readouterr() == ("", "")
    assert error.value.__cause__.__cause__ is None


def test_compose_gets_the_files_the_variables_and_the_services(docker, planned, tmp_path):
    docker(f'echo "$@" > {tmp_path}/words')
    compose_project.up(planned, ["broker"])
    variables = planned.path / "compose.env"
    arguments = ["compose", "-f", "compose.yaml", "--env-file", str(variables), "up", "--detach", "broker"]
    assert (tmp_path / "words").read_text().split() == arguments
    assert f"TIDEMARK_STATE='{planned.path}'" in variables.read_text().splitlines()


def test_compose_that_hangs_is_ended(docker, planned, tmp_path, monkeypatch):
    started = tmp_path / "started"
    monkeypatch.setattr(compose_project, "UP_S", 1)
    docker(f"echo waiting >&2; {HANGS.format(started)}; exit 1")
    with pytest.raises(DeadlineExceeded, match="after 1 s waiting for Compose to start broker") as error:
        compose_project.up(planned, ["broker"])
    assert error.value.detail == "waiting"
    assert not Path("/proc", started.read_text().strip(), "exe").exists()
