"""The container engine: finds it, checks its version, connects to its API.

Knows nothing of stacks. Requires Docker Engine 20.10 or later with Compose v2 as a plugin of the ``docker`` command, on
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
"""The first that supports ``!override``, which three-brokers.yaml needs."""
_COMMAND_S = 30
"""Calibration: the docker command takes 0.1 s, even without an engine."""
_CALL_S = 120
"""Calibration: the engine stops a container within 5 s, creates one within 1 s; it may hang on a full disk."""
_clients: dict[str, docker.APIClient] = {}
_OR_LOCAL = "or use local processes: `make up BACKEND=local`"
_HINT = f"start the engine, {_OR_LOCAL}"


def connect() -> docker.APIClient:
    """The client of the engine; raises ``ContainerEngineError`` if there is no engine, or an unsuitable one.

    A process has one client per address, which its threads share; it is closed when the process exits.
    """
    address = _address()
    if address not in _clients:
        _clients[address] = _connect(address)
    return _clients[address]


def _connect(address: str) -> docker.APIClient:
    if not address.startswith("unix://"):
        raise ContainerEngineError(
            f"the container engine is on another machine: {address}",
            detail="containers and tests share folders, so both must be on the same machine",
            hint=f"unset DOCKER_HOST, choose another `docker context`, {_OR_LOCAL}",
        )
    try:
        with socket.socket(socket.AF_UNIX) as probe:  # the library leaks a socket if it cannot connect
            probe.settimeout(_COMMAND_S)
            probe.connect(address.removeprefix("unix://"))
        client = docker.APIClient(base_url=address, version="auto", timeout=_CALL_S)
        with ExitStack() as refused:
            refused.callback(client.close)
            _must_be_new_enough(client.version())
            refused.pop_all()
            return client
    except (DockerException, OSError) as error:
        hint = "add your user to the group of its socket (often `docker`), or " if _denied(error) else ""
        raise ContainerEngineError(
            f"no container engine can be reached at {address}",
            detail=_innermost(error),
            hint=f"{hint}{_HINT}",
        ) from error


def _must_be_new_enough(version: Mapping[str, object]) -> None:
    if _numbers(str(version["ApiVersion"])) < OLDEST_API:
        raise ContainerEngineError(
            f"the container engine is too old: Docker {version['Version']}",
            detail=f"its API version is {version['ApiVersion']}; {'.'.join(map(str, OLDEST_API))} or later is required",
            hint=f"install Docker Engine 20.10 or later, {_OR_LOCAL}",
        )


@atexit.register
def _close() -> None:
    for client in _clients.values():
        client.close()


def check_compose() -> str:
    """The version of Compose; raises ``ContainerEngineError`` if it is missing or too old."""
    if shutil.which("docker") is None:
        raise ContainerEngineError(
            "no `docker` command was found",
            detail="PATH has no program of that name",
            hint="install Docker Engine with Compose v2 (on Debian docker.io, and the Compose plugin separately), "
            f"{_OR_LOCAL}",
        )
    try:
        done = subprocess.run(
            ["docker", "compose", "version", "--short"],
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ContainerEngineError(
            f"`docker compose version` did not end within {_COMMAND_S} s", detail=str(error), hint=_HINT
        ) from error
    version = done.stdout.strip().removeprefix("v")
    if done.returncode != 0 or not version[:1].isdigit():
        raise ContainerEngineError(
            "no Compose v2 was found",
            detail=(done.stderr or done.stdout).strip(),
            hint=f"install the plugin docker-compose-plugin (docker-compose 1.x is not enough), {_OR_LOCAL}",
        )
    if _numbers(version) < OLDEST_COMPOSE:
        raise ContainerEngineError(
            f"Compose {version} is too old",
            detail=f"{'.'.join(map(str, OLDEST_COMPOSE))} or later is required",
            hint=f"update the plugin docker-compose-plugin, {_OR_LOCAL}",
        )
    return version


def why_unavailable() -> str:
    """Why stacks in containers are not available here; empty if they are."""
    try:
        connect()
        check_compose()
    except ContainerEngineError as error:
        return error.message
    return ""


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Turn an error of the engine's client into ``ContainerEngineError``; ``action`` names the failed request."""
    try:
        yield
    except (DockerException, RequestException) as error:
        explanation = str(error.explanation) if isinstance(error, APIError) and error.explanation else ""
        full = "no space left" in (explanation or str(error)).lower()
        raise ContainerEngineError(
            f"the container engine could not {action}",
            detail=explanation or _innermost(error),
            hint="free space on the engine's disk: `docker system df` shows its use" if full else _HINT,
        ) from error


def network_mtu() -> int:
    """The MTU of the default route's interface; a container network with a larger MTU loses packets."""
    try:
        routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
        interface = next(route[0] for route in routes if route[1] == "00000000")
        return min(1500, int(Path("/sys/class/net", interface, "mtu").read_text()))
    except (OSError, StopIteration, ValueError, IndexError):
        return 1500


def _address() -> str:
    """The engine's address, found as the ``docker`` command does: DOCKER_HOST, the current context, the default."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    folder = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    try:
        context = json.loads((folder / "config.json").read_text()).get("currentContext", "default")
    except (OSError, ValueError, AttributeError):
        context = "default"
    context = os.environ.get("DOCKER_CONTEXT", context)
    if context != "default" and shutil.which("docker"):
        argv = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", context]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    return "unix:///var/run/docker.sock"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, number)) or 0) for number in version.split(".")[:2])


def _denied(error: BaseException) -> bool:
    return "permission denied" in str(error).lower()


def _innermost(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {error}"
