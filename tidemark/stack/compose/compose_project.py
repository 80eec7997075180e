"""Runs Docker Compose: sets the variables of ``compose/compose.yaml``, creates and starts containers."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tidemark import paths
from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.stack.api import DRIVER, PROXY
from tidemark.stack.components import cds
from tidemark.stack.compose import docker_engine, image
from tidemark.stack.compose.orphans import HOME_LABEL, STACK_LABEL
from tidemark.stack.registry import StackRecord, StateFolder

UP_S = 180
"""Calibration: Compose creates and starts five containers in 1 to 2 s, ten times that on a busy machine."""
_UNUSED_PORT = 15002
"""Replaces a port that is not chosen yet: Compose reads the whole file whichever service it starts."""
_SILENT = logging.NullHandler()
"""Keeps testcontainers from logging Compose's output to the terminal; our error contains it."""


def project_of(state: StateFolder) -> str:
    """The Compose project of a stack: the name of its network, and the prefix of its containers' names."""
    return f"tidemark-{(state.token() or 'none')[:8]}"


def up(state: StateFolder, services: Sequence[str]) -> None:
    """Create and start containers; does not wait until they are ready.

    Raises ``DaemonDied`` if Compose fails, ``DeadlineExceeded`` if it takes longer than ``UP_S`` seconds.
    """
    from testcontainers.compose import DockerCompose

    record = state.read()
    assert record is not None, "the record is written before anything is started"
    variables = state.path / "compose.env"
    variables.write_text("".join(_variables(state, record)), encoding="utf-8")
    (state.path / "passwd").write_text(image.passwd(os.getuid(), os.getgid()), encoding="utf-8")
    files = ["compose.yaml"]
    files += ["three-brokers.yaml"] if len(record.kafka_ports) > 1 else []
    files += ["more-workers.yaml"] if record.workers > 2 else []
    files += ["login.yaml"] if record.admin_ports else []
    files += ["login-three-brokers.yaml"] if len(record.admin_ports) > 1 else []
    compose = DockerCompose(
        paths.compose_dir(),
        compose_file_name=files,
        env_file=str(variables),
        wait=False,  # Compose waits for a port only; tidemark waits for readiness
        services=list(services),
    )
    logging.getLogger("testcontainers").addHandler(_SILENT)
    with _killed_after(UP_S, str(variables)) as expired:
        try:
            compose.start()
        except subprocess.CalledProcessError as error:
            output = error.stderr.decode(errors="replace").strip()[-2000:]
            error.__cause__ = None  # testcontainers makes an error its own cause
            if expired.is_set():
                raise DeadlineExceeded(
                    f"timed out after {UP_S} s waiting for Compose to start {', '.join(services)}",
                    detail=output,
                    hint="restart the container engine if `docker ps` does not answer at once",
                ) from error
            raise DaemonDied(
                f"Compose could not start {', '.join(services)}",
                detail=output,
                hint="`tidemark doctor` checks the engine, memory, disk and ports",
            ) from error


@contextmanager
def _killed_after(deadline_s: float, argument: str) -> Iterator[threading.Event]:
    """Kill this process's descendants with ``argument`` on their command line if the block takes longer.

    Yields an event that is set when they are killed.
    """
    expired = threading.Event()

    def kill() -> None:
        expired.set()
        for child in psutil.Process().children(recursive=True):  # Compose is a child of the docker command
            with suppress(psutil.Error):
                if argument in child.cmdline():
                    child.kill()

    timer = threading.Timer(deadline_s, kill)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def run_in_image(state: StateFolder, image_name: str, argv: Sequence[str], folder: Path) -> list[str]:
    """The command that runs ``argv`` in a new container, which sees ``folder`` and is removed with the stack."""
    labels = {STACK_LABEL: state.token(), HOME_LABEL: state.home}
    run = ["docker", "run", "--rm", "--network", "none", "--user", f"{os.getuid()}:{os.getgid()}"]
    run += [f"--label={name}={value}" for name, value in labels.items()]
    return [*run, "--volume", f"{folder}:{folder}", image_name, *argv]


def _variables(state: StateFolder, record: StackRecord) -> Iterator[str]:
    """The lines of an env file; a value in single quotes is literal."""
    driver, proxy = state.component(DRIVER), state.component(PROXY)
    ports = {f"TIDEMARK_KAFKA_PORT_{node}": port for node, port in enumerate(record.kafka_ports, 1)}
    ports |= {f"TIDEMARK_ADMIN_PORT_{node}": port for node, port in enumerate(record.admin_ports, 1)}
    values = {
        "TIDEMARK_PROJECT": project_of(state),
        "TIDEMARK_STACK": state.token() or "",
        "TIDEMARK_HOME": str(state.home),
        "TIDEMARK_STATE": str(state.path),
        "TIDEMARK_IMAGE": record.image,
        "TIDEMARK_CLASSES": str(cds.folder()),
        "TIDEMARK_USER": f"{os.getuid()}:{os.getgid()}",
        "TIDEMARK_MTU": docker_engine.network_mtu(),
        "TIDEMARK_KAFKA_PORT": record.kafka_ports[0],
        "TIDEMARK_DRIVER_PORT": driver.port if driver is not None else _UNUSED_PORT,
        "TIDEMARK_PROXY_PORT": proxy.port if proxy is not None else _UNUSED_PORT,
        **ports,
    }
    for name, value in values.items():
        quoted = str(value).replace("\\", "\\\\").replace("'", "\\'")
        yield f"{name}='{quoted}'\n"
