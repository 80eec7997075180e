"""The container engine: found, asked whether it will do, and spoken to through its API.

Free of stacks. Docker Engine 20.10 or later with Compose v2 as a plugin of the ``docker`` command. It has to run on
this machine, because containers and tests share folders.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from tidemark.errors import ContainerEngineError

OLDEST_API = (1, 41)
"""Docker 20.10."""
OLDEST_COMPOSE = (2, 24)
"""The first that knows ``!override``, which three-brokers.yaml needs."""
_ASK_S = 30
"""Calibration: the client answers in 0.1 s, also where the engine does not."""
_CALL_S = 120
"""Calibration: a container is stopped within 5 s, created within 1 s; a machine with a full disk may hang."""
_clients: dict[str, docker.APIClient] = {}
_OR_LOCAL = "or take local processes: `make up BACKEND=local`"
_HINT = f"start the engine, {_OR_LOCAL}"


def connect() -> docker.APIClient:
    """The client of the engine; raises ``ContainerEngineError`` if none answers, or one that will not do.

    There is one for each address in a process, closed at its end: threads may share it.
    """
    address = _address()
    if address not in _clients:
        _clients[address] = _connect(address)
    return _clients[address]


def _connect(address: str) -> docker.APIClient:
    if not address.startswith("unix://"):
        raise ContainerEngineError(
            f"the container engine is on another machine: {address}",
            detail="containers and tests share folders, so that both have to be on one machine",
            hint=f"unset DOCKER_HOST, choose another `docker context`, {_OR_LOCAL}",
        )
    try:
        with socket.socket(socket.AF_UNIX) as knock:  # the library leaves a socket open where nobody answers
            knock.settimeout(_ASK_S)
            knock.connect(address.removeprefix("unix://"))
        client = docker.APIClient(base_url=address, version="auto", timeout=_CALL_S)
        with ExitStack() as refused:
            refused.callback(client.close)
            _must_be_new_enough(client.version())
            refused.pop_all()
            return client
    except (DockerException, OSError) as error:
        hint = "add yourself to the group of its socket (often `docker`), or " if _denied(error) else ""
        raise ContainerEngineError(
            f"no container engine answers at {address}", detail=_innermost(error), hint=f"{hint}{_HINT}"
        ) from error


def _must_be_new_enough(version: Mapping[str, object]) -> None:
    if _numbers(str(version["ApiVersion"])) < OLDEST_API:
        raise ContainerEngineError(
            f"the container engine is too old: Docker {version['Version']}",
            detail=f"its API is {version['ApiVersion']}, needed is {'.'.join(map(str, OLDEST_API))}",
            hint=f"install Docker Engine 20.10 or later, {_OR_LOCAL}",
        )


@atexit.register
def _close() -> None:
    for client in _clients.values():
        client.close()


def check_compose() -> str:
    """The version of Compose; raises ``ContainerEngineError`` if there is none, or one that is too old."""
    if shutil.which("docker") is None:
        raise ContainerEngineError(
            "there is no `docker` command",
            detail="nothing of that name is on PATH",
            hint="install Docker Engine with Compose v2 (Debian: docker.io; Compose is a plugin of its own there), "
            f"{_OR_LOCAL}",
        )
    try:
        asked = subprocess.run(
            ["docker", "compose", "version", "--short"],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ContainerEngineError(
            "`docker compose version` does not answer", detail=str(error), hint=_HINT
        ) from error
    version = asked.stdout.strip().removeprefix("v")
    if asked.returncode != 0 or not version[:1].isdigit():
        raise ContainerEngineError(
            "there is no Compose v2",
            detail=(asked.stderr or asked.stdout).strip(),
            hint=f"install the plugin docker-compose-plugin (docker-compose 1.x will not do), {_OR_LOCAL}",
        )
    if _numbers(version) < OLDEST_COMPOSE:
        raise ContainerEngineError(
            f"Compose {version} is too old",
            detail=f"needed is {'.'.join(map(str, OLDEST_COMPOSE))}",
            hint=f"update the plugin docker-compose-plugin, {_OR_LOCAL}",
        )
    return version


def why_not() -> str:
    """Why stacks in containers are not to be had here; empty if they are."""
    try:
        connect()
        check_compose()
    except ContainerEngineError as error:
        return error.message
    return ""


@contextmanager
def asked(what: str) -> Iterator[None]:
    """Turn what the engine says into an ``ContainerEngineError``; ``what`` was asked of it."""
    try:
        yield
    except (DockerException, RequestException) as error:
        said = str(error.explanation) if isinstance(error, APIError) and error.explanation else ""
        full = "no space left" in (said or str(error)).lower()
        raise ContainerEngineError(
            f"the container engine did not {what}",
            detail=said or _innermost(error),
            hint="make room on the engine's disk: `docker system df` shows what takes it" if full else _HINT,
        ) from error


def network_mtu() -> int:
    """The MTU of the interface of the default route: a container network with a larger one loses packets."""
    try:
        routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
        interface = next(route[0] for route in routes if route[1] == "00000000")
        return min(1500, int(Path("/sys/class/net", interface, "mtu").read_text()))
    except (OSError, StopIteration, ValueError, IndexError):
        return 1500


def _address() -> str:
    """Where the engine is, as the ``docker`` command would find it: DOCKER_HOST, the current context, the default."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    folder = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    try:
        context = json.loads((folder / "config.json").read_text()).get("currentContext", "default")
    except (OSError, ValueError, AttributeError):
        context = "default"
    context = os.environ.get("DOCKER_CONTEXT", context)
    if context != "default" and shutil.which("docker"):
        asked_for = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", context]
        done = subprocess.run(asked_for, capture_output=True, text=True, timeout=_ASK_S, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    return "unix:///var/run/docker.sock"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, component)) or 0) for component in version.split(".")[:2])


def _denied(error: BaseException) -> bool:
    return "permission denied" in str(error).lower()


def _innermost(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {error}"
