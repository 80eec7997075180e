"""Errors without a suitable container engine. The engines here are programs that answer wrongly."""

from __future__ import annotations

import os

import pytest

from tidemark.errors import ContainerEngineError
from tidemark.stack.compose import docker_engine


@pytest.fixture
def docker(executable, monkeypatch):
    """A function that puts a ``docker`` on PATH which does this, and nothing else beside it."""

    def put(text: str) -> None:
        folder = executable("docker", text).parent
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin")

    return put


@pytest.fixture
def engine_of(engine_that_answers):
    """A function that starts an engine which says it has this API version, and nothing else."""

    def start(api: str) -> None:
        version = {"Version": "19.03.1", "ApiVersion": api, "MinAPIVersion": "1.12"}
        engine_that_answers(lambda _method, _path: (200, version))

    return start


def refused(ask, says: str) -> ContainerEngineError:
    with pytest.raises(ContainerEngineError, match=says) as error:
        ask()
    assert "BACKEND=local" in error.value.hint
    assert error.value.exit_code == 4
    return error.value


def test_a_missing_engine_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert (
        "No such file"
        in refused(docker_engine.connect, "no container engine can be reached at unix://").detail
    )


def test_an_engine_that_is_too_old_is_an_error(engine_of):
    engine_of("1.40")
    assert "1.41" in refused(docker_engine.connect, "too old: Docker 19.03.1").detail


def test_an_engine_that_is_new_enough_is_accepted(engine_of):
    engine_of("1.41")
    assert docker_engine.connect() is docker_engine.connect()


def test_an_engine_on_another_machine_is_an_error(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://example.invalid:2375")
    assert "share folders" in refused(docker_engine.connect, "on another machine").detail


def test_a_missing_docker_command_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(docker_engine.check_compose, "no `docker` command was found")


def test_a_missing_compose_is_an_error(docker):
    docker("echo \"docker: 'compose' is not a docker command.\" >&2; exit 1")
    assert "not a docker command" in refused(docker_engine.check_compose, "no Compose v2 was found").detail


def test_compose_version_one_is_an_error(docker):
    docker("echo 1.29.2")
    refused(docker_engine.check_compose, "Compose 1.29.2 is too old")


@pytest.mark.parametrize("version", ["v2.24.0", "2.40.3", "2.40.3+ds1", "5.0.1"])
def test_a_recent_compose_is_accepted(docker, version):
    docker(f"echo {version}")
    assert docker_engine.check_compose() == version.removeprefix("v")


def test_the_reason_for_no_containers_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert (
        docker_engine.why_unavailable() == f"no container engine can be reached at unix://{tmp_path}/no.sock"
    )


def test_a_full_disk_of_the_engine_has_its_own_hint():
    from docker.errors import APIError

    with pytest.raises(ContainerEngineError) as error, docker_engine.engine_errors("make a container"):
        raise APIError("500", explanation="mkdir /var/lib/x: no space left on device")
    assert "docker system df" in error.value.hint
    assert "no space left" in error.value.detail


def test_the_current_docker_context_is_used(docker, tmp_path, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"currentContext": "rootless"}')
    docker(f'[ "$5" = rootless ] && echo unix://{tmp_path}/rootless.sock')
    refused(docker_engine.connect, "rootless.sock")


def test_the_networks_mtu_is_valid_for_ethernet():
    assert 500 < docker_engine.network_mtu() <= 1500
