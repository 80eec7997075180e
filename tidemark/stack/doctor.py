"""What ``tidemark doctor`` looks at: everything that a stack needs of the machine, and what is left of an old one.

Changes nothing. Each look says what it found, and what to do where that is not good.
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


class Finding(StrEnum):
    """How a look ended."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True)
class Look:
    """One thing that was looked at."""

    what: str
    finding: Finding
    text: str
    hint: str = ""


def examine(spec: StackSpec, home: Path | None = None) -> list[Look]:
    """Look at everything, in the order in which a start would stumble over it."""
    state = StateFolder(home or paths.state_dir())
    looks: list[tuple[str, Callable[[], Look]]] = [
        ("install", _install),
        ("java", _java),
        ("pyspark", lambda: _pyspark(spec)),
        ("jars", lambda: _jars(spec)),
        ("engine", lambda: _engine(spec)),
        ("loopback", _loopback),
        ("memory", lambda: _memory(state)),
        ("disk", lambda: _disk(state)),
        ("stack", lambda: _stack(state)),
    ]
    return [_looked(what, look) for what, look in looks]


def _looked(what: str, look: Callable[[], Look]) -> Look:
    try:
        return look()
    except TidemarkError as error:
        text = f"{error.message}\n{error.detail}" if error.detail else error.message
        return Look(what, Finding.BAD, text, error.hint)


def _install() -> Look:
    if wrong := installation.problem():
        return Look("install", Finding.BAD, wrong, installation.HINT)
    text = f"{installation.DISTRIBUTION} {tidemark.__version__} ({paths.PACKAGE})"
    return Look("install", Finding.GOOD, text)


def _java() -> Look:
    java = find_java()
    return Look("java", Finding.GOOD, f"{check_java(java)} ({java})")


def _pyspark(spec: StackSpec) -> Look:
    spark = find_spark(spec.python)
    connector = jar_cache.connector_version(spark.version)
    return Look("pyspark", Finding.GOOD, f"{spark.version} with Kafka connector {connector} ({spark.home})")


def _jars(spec: StackSpec) -> Look:
    jars = jar_cache.locked(*jar_cache.groups_of(find_spark(spec.python).version))
    where = jar_cache.cache_folder()
    if missing := jar_cache.missing(jars):
        hint = "the next `tidemark up` fetches them: it needs the network once"
        return Look("jars", Finding.WARNING, f"{len(missing)} of {len(jars)} are not in {where}", hint)
    if wrong := jar_cache.spoilt(jars):
        names = ", ".join(jar.path.name for jar, _ in wrong)
        hint = "the next `tidemark up` deletes what is wrong, the one after it fetches that anew"
        return Look("jars", Finding.BAD, f"wrong checksum: {names} ({where})", hint)
    return Look("jars", Finding.GOOD, f"{len(jars)}, all as locked ({where})")


def _engine(spec: StackSpec) -> Look:
    from tidemark.stack.compose.docker_engine import check_compose, connect

    try:
        docker = connect().version()["Version"]
        return Look("engine", Finding.GOOD, f"Docker {docker}, Compose {check_compose()}")
    except ContainerEngineError as error:
        if spec.backend == "compose":
            raise
        return Look("engine", Finding.GOOD, f"{error.message}; local processes need none")


def _loopback() -> Look:
    port = free_ports(1)[0]
    try:
        with (
            socket.create_server((LOOPBACK, port)) as server,
            socket.create_connection((LOOPBACK, port), timeout=5),
        ):
            server.accept()[0].close()
    except OSError as error:
        return Look(
            "loopback",
            Finding.BAD,
            f"no connection from {LOOPBACK} to {LOOPBACK}: {error}",
            "the loopback interface must be up and not filtered: `ip addr show lo`",
        )
    return Look("loopback", Finding.GOOD, f"{LOOPBACK} takes connections; port {port} was free")


def _memory(state: StateFolder) -> Look:
    available = psutil.virtual_memory().available
    text = f"{available / GIB:.1f} GiB available"
    if (token := state.token()) and marked(TOKEN_VARIABLE, token):
        return Look("memory", Finding.GOOD, f"{text}, beside the running stack")
    hint = f"a stack takes up to {ENOUGH_MEMORY / GIB:.0f} GiB: end other programs, or give the machine more"
    return Look("memory", _graded(available, LEAST_MEMORY, ENOUGH_MEMORY), text, hint)


def _disk(state: StateFolder) -> Look:
    places = {_existing(state.home), _existing(jar_cache.cache_folder())}
    free, place = min((shutil.disk_usage(place).free, place) for place in places)
    unwritable = [str(place) for place in places if not os.access(place, os.W_OK)]
    if unwritable:
        return Look(
            "disk",
            Finding.BAD,
            f"not writable: {', '.join(unwritable)}",
            "run tidemark as the owner of these folders",
        )
    text = f"{free / GIB:.1f} GiB free below {place}"
    hint = "make room; `tidemark down` removes a stack's data, runs/ holds the evidence of old runs"
    return Look("disk", _graded(free, LEAST_DISK, ENOUGH_DISK), text, hint)


def _stack(state: StateFolder) -> Look:
    token, record = state.token(), state.read()
    if token is None:
        return Look("stack", Finding.GOOD, "none runs")
    if record is None or not record.ready:
        owners = [lease.owner.pid for _, lease in state.records("leases", Lease) if lease.owner.alive]
        if owners:
            return Look("stack", Finding.GOOD, f"being started by process {owners[0]}")
        return Look(
            "stack",
            Finding.BAD,
            f"what is left of a start that died: {len(marked(TOKEN_VARIABLE, token))} processes, {state.path}",
            "`tidemark down` ends and removes it",
        )
    gone = [
        component.name
        for component in attach(state, record).status()
        if component.state is ComponentState.STOPPED
    ]
    if gone:
        text, hint = f"not running: {', '.join(gone)}", "`tidemark up` starts what is missing"
        return Look("stack", Finding.WARNING, text, hint)
    if not any(reaper.owner.alive for _, reaper in state.records("reapers", Lease)):
        return Look("stack", Finding.WARNING, "its reaper is gone", "`tidemark up` starts another")
    return Look(
        "stack", Finding.GOOD, f"runs, {'until `tidemark down`' if record.kept else 'while it is leased'}"
    )


def _graded(value: int, least: int, enough: int) -> Finding:
    if value < least:
        return Finding.BAD
    return Finding.WARNING if value < enough else Finding.GOOD


def _existing(path: Path) -> Path:
    return next(parent for parent in _upwards(path) if parent.exists())


def _upwards(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents
