"""The checks of ``tidemark doctor``: everything that a stack needs of the machine, and the remains of an old stack.

The doctor changes nothing. Each check reports what it found, and what to do if that is not good.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

import tidemark
from tidemark import installation, paths
from tidemark.errors import ContainerEngineError, TidemarkError
from tidemark.processes import marked
from tidemark.stack.api import ComponentState
from tidemark.stack.cold_start import LEAST_DISK
from tidemark.stack.components.ports import LOOPBACK, free_ports
from tidemark.stack.install import jars as jar_cache
from tidemark.stack.install.toolchain import check_java, find_java, find_spark
from tidemark.stack.lifecycle import attach
from tidemark.stack.registry import TOKEN_VARIABLE, Lease, StateFolder
from tidemark.stack.spec import StackSpec

GIB = 1 << 30
ENOUGH_MEMORY = 4 * GIB
LEAST_MEMORY = 2 * GIB
"""Calibration: a stack with two drivers and their executors takes 3 GiB; the tests and the clients a little more."""
ENOUGH_DISK = 2 * GIB
"""Calibration: the jars take 54 MB; a stack's data, logs and checkpoints a few hundred MB a day of testing."""


class CheckStatus(StrEnum):
    """The outcome of a check."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check, with a hint where its status is not good."""

    name: str
    status: CheckStatus
    text: str
    hint: str = ""


def examine(spec: StackSpec, home: Path | None = None) -> list[CheckResult]:
    """Run all checks, in the order in which a start would fail on them."""
    state = StateFolder(home or paths.state_dir())
    checks: list[tuple[str, Callable[[], CheckResult]]] = [
        ("install", _install),
        ("java", lambda: _java(spec)),
        ("pyspark", lambda: _pyspark(spec)),
        ("jars", lambda: _jars(spec)),
        ("engine", lambda: _engine(spec)),
        ("loopback", _loopback),
        ("memory", lambda: _memory(state)),
        ("disk", lambda: _disk(state)),
        ("stack", lambda: _stack(state)),
    ]
    return [_run(name, check) for name, check in checks]


def _run(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    try:
        return check()
    except TidemarkError as error:
        text = f"{error.message}\n{error.detail}" if error.detail else error.message
        return CheckResult(name, CheckStatus.BAD, text, error.hint)


def _install() -> CheckResult:
    if wrong := installation.problem():
        return CheckResult("install", CheckStatus.BAD, wrong, installation.HINT)
    text = f"{installation.DISTRIBUTION} {tidemark.__version__} ({paths.PACKAGE})"
    return CheckResult("install", CheckStatus.GOOD, text)


def _java(spec: StackSpec) -> CheckResult:
    java = find_java()
    return CheckResult("java", CheckStatus.GOOD, f"{check_java(java, _spark_version(spec))} ({java})")


def _spark_version(spec: StackSpec) -> str:
    """The version of the PySpark; empty if there is none, which its own check says."""
    try:
        return find_spark(spec.python).version
    except TidemarkError:
        return ""


def _pyspark(spec: StackSpec) -> CheckResult:
    spark = find_spark(spec.python)
    connector = jar_cache.connector_version(spark.version)
    return CheckResult(
        "pyspark", CheckStatus.GOOD, f"{spark.version} with Kafka connector {connector} ({spark.home})"
    )


def _jars(spec: StackSpec) -> CheckResult:
    jars = jar_cache.locked(*jar_cache.groups_of(find_spark(spec.python).version))
    where = jar_cache.cache_folder()
    if missing := jar_cache.missing(jars):
        hint = "the next `tidemark up` fetches them over the network"
        return CheckResult(
            "jars", CheckStatus.WARNING, f"{len(missing)} of {len(jars)} are not in {where}", hint
        )
    if wrong := jar_cache.wrong_checksums(jars):
        names = ", ".join(jar.path.name for jar, _ in wrong)
        hint = "the next `tidemark up` deletes these jars, the one after it fetches them again"
        return CheckResult("jars", CheckStatus.BAD, f"wrong checksum: {names} ({where})", hint)
    return CheckResult("jars", CheckStatus.GOOD, f"{len(jars)}, all with the locked checksum ({where})")


def _engine(spec: StackSpec) -> CheckResult:
    from tidemark.stack.compose.docker_engine import check_compose, connect

    try:
        docker = connect().version()["Version"]
        return CheckResult("engine", CheckStatus.GOOD, f"Docker {docker}, Compose {check_compose()}")
    except ContainerEngineError as error:
        if spec.backend == "compose":
            raise
        return CheckResult("engine", CheckStatus.GOOD, f"{error.message}; the local backend needs none")


def _loopback() -> CheckResult:
    port = free_ports(1)[0]
    try:
        with (
            socket.create_server((LOOPBACK, port)) as server,
            socket.create_connection((LOOPBACK, port), timeout=5),
        ):
            server.accept()[0].close()
    except OSError as error:
        return CheckResult(
            "loopback",
            CheckStatus.BAD,
            f"no connection from {LOOPBACK} to {LOOPBACK}: {error}",
            "the loopback interface must be up and not filtered: see `ip addr show lo`",
        )
    return CheckResult("loopback", CheckStatus.GOOD, f"{LOOPBACK} accepts connections; port {port} was free")


def _memory(state: StateFolder) -> CheckResult:
    available = psutil.virtual_memory().available
    text = f"{available / GIB:.1f} GiB available"
    if (token := state.token()) and marked(TOKEN_VARIABLE, token):
        return CheckResult("memory", CheckStatus.GOOD, f"{text}, beside the running stack")
    hint = f"a stack uses up to {ENOUGH_MEMORY / GIB:.0f} GiB: end other programs, or add memory"
    return CheckResult("memory", _grade(available, LEAST_MEMORY, ENOUGH_MEMORY), text, hint)


def _disk(state: StateFolder) -> CheckResult:
    folders = {_existing(state.home), _existing(jar_cache.cache_folder())}
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in folders)
    unwritable = [str(folder) for folder in folders if not os.access(folder, os.W_OK)]
    if unwritable:
        return CheckResult(
            "disk",
            CheckStatus.BAD,
            f"not writable: {', '.join(unwritable)}",
            "run tidemark as the owner of these folders",
        )
    text = f"{free / GIB:.1f} GiB free below {folder}"
    hint = "free disk space: `tidemark down` removes a stack's data; runs/ holds the evidence of old runs"
    return CheckResult("disk", _grade(free, LEAST_DISK, ENOUGH_DISK), text, hint)


def _stack(state: StateFolder) -> CheckResult:
    token, record = state.token(), state.read()
    if token is None:
        return CheckResult("stack", CheckStatus.GOOD, "none runs")
    if record is None or not record.ready:
        owners = [lease.owner.pid for _, lease in state.records("leases", Lease) if lease.owner.alive]
        if owners:
            return CheckResult("stack", CheckStatus.GOOD, f"being started by process {owners[0]}")
        return CheckResult(
            "stack",
            CheckStatus.BAD,
            f"remains of a failed start: {len(marked(TOKEN_VARIABLE, token))} processes, {state.path}",
            "`tidemark down` ends and removes them",
        )
    gone = [
        component.name
        for component in attach(state, record).status()
        if component.state is ComponentState.STOPPED
    ]
    if gone:
        text, hint = f"not running: {', '.join(gone)}", "`tidemark up` starts the missing components"
        return CheckResult("stack", CheckStatus.WARNING, text, hint)
    if not any(reaper.owner.alive for _, reaper in state.records("reapers", Lease)):
        return CheckResult(
            "stack", CheckStatus.WARNING, "its reaper does not run", "`tidemark up` starts another"
        )
    return CheckResult(
        "stack", CheckStatus.GOOD, f"runs, {'until `tidemark down`' if record.kept else 'while it is leased'}"
    )


def _grade(value: int, least: int, enough: int) -> CheckStatus:
    if value < least:
        return CheckStatus.BAD
    return CheckStatus.WARNING if value < enough else CheckStatus.GOOD


def _existing(path: Path) -> Path:
    return next(parent for parent in _upwards(path) if parent.exists())


def _upwards(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents
