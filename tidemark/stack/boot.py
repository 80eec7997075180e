"""A cold start, top to bottom; and its reverse.

The order is that of what waits for what; everything that can run beside something else does. A start that fails, or is
interrupted, leaves nothing behind but the logs of the attempt.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidemark import project
from tidemark.errors import DaemonDied, TestbedError
from tidemark.process import base_environment, end, marked, spawn
from tidemark.stack import jars as jar_cache
from tidemark.stack import launch, ready, settings
from tidemark.stack.ports import asked_port, can_bind, free_ports
from tidemark.stack.spec import StackSpec
from tidemark.stack.state import TOKEN_VARIABLE, Lease, PartRecord, StackRecord, StateFolder
from tidemark.stack.toolchain import Spark, check_java

ATTEMPTS = 3
"""Calibration: a port is lost between its choice and the daemon's bind about never; twice in a row is no accident."""
_FORMAT_S = 60
_END_S = 4.0
"""Calibration: the daemons end within 2 s of being asked; nothing of a stack that ends is needed any more."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Toolchain:
    """What a stack is started with."""

    java: Path
    spark: Spark


def cold_start(state: StateFolder, spec: StackSpec, tools: Toolchain, digest: str, say: Say) -> StackRecord:
    """Start a whole stack in an empty state folder, and wait until it is ready. The caller holds the lock and a lease.

    Raises ``JavaError``, ``FetchError``, ``PortTaken``, ``DaemonDied`` or ``DeadlineExceeded``; then nothing runs.
    """
    java_version = check_java(tools.java)
    connector = jar_cache.connector_version(tools.spark.version)
    groups = ("broker", "connector", f"spark-{connector}")
    jars = jar_cache.provide(tools.java, tools.spark, groups, say)
    for attempt in range(1, ATTEMPTS + 1):
        record = _plan(spec, tools, digest)
        record.broker_jars = [str(path) for path in jars["broker"]]
        record.connector_jars = [str(path) for group in groups[1:] for path in jars[group]]
        record.versions = {
            "java": java_version,
            "kafka": jar_cache.kafka_version(),
            "spark": tools.spark.version,
            "connector": connector,
            "python": tools.spark.python_version,
        }
        try:
            _start_all(state, record, say)
        except DaemonDied:
            end_processes(state)
            lost = [port for port in _ports(state, record) if not can_bind(port)]
            if not lost or attempt == ATTEMPTS:
                raise
            say(f"somebody else took port {lost[0]}; starting again")
            _forget(state)
        else:
            return record
    raise AssertionError("the last attempt returns or raises")


def ensure_keeper(state: StateFolder) -> None:
    """Start the process that ends the stack when nobody needs it (``keeper.py``), unless it lives. Holding the lock."""
    living = state.records("keepers", Lease)
    if any(keeper.owner.alive for _, keeper in living):
        return
    root = str(project.PACKAGE.parent)
    keeper = spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.keeper", str(state.home), state.token() or ""],
        log=state.path / "logs" / "keeper.log",
        cwd=state.home,
        env=base_environment(PYTHONPATH=root, XDG_CACHE_HOME=str(project.cache_dir().parent)),
    )
    state.add("keepers", Lease(keeper), "keeper")


def end_processes(state: StateFolder) -> None:
    """End every process of the stack, descendants and forgotten ones too."""
    token = state.token()
    recorded = [part.process for part in state.parts() if part.process is not None]
    end([*recorded, *(marked(TOKEN_VARIABLE, token) if token else [])], ask_s=_END_S)
    if token:
        end(marked(TOKEN_VARIABLE, token), ask_s=0)


def end_stack(state: StateFolder, *, keep_logs: bool = False) -> None:
    """End the stack and remove its folder. The caller holds the lock. ``keep_logs`` moves its logs aside."""
    end_processes(state)
    aside = state.home / "failed-start"
    if keep_logs and (state.path / "logs").is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        (state.path / "logs").rename(aside)
    shutil.rmtree(state.path, ignore_errors=True)


def _start_all(state: StateFolder, record: StackRecord, say: Say) -> None:
    say("starting the broker and the Spark master")
    state.write(record)
    for name in ("tmp", "work", "master/recovery"):
        (state.path / name).mkdir(parents=True, exist_ok=True)
    started: list[PartRecord] = []

    def begin(part: PartRecord) -> PartRecord:
        started.append(launch.launch(state, part))
        return part

    def all_live() -> None:
        for part in started:
            launch.must_live(part)

    master = begin(launch.master(state, record))
    broker = begin(_formatted_broker(state, record))
    launch.await_master(master)
    say("starting the workers")
    workers = [begin(launch.worker(state, record, number)) for number in range(1, record.workers + 1)]
    for worker in workers:
        launch.await_worker(worker)
    say("starting the driver")  # not sooner: the master would put both executors on the worker that it knows
    driver = begin(launch.driver(state, record, "driver", free_ports(1)[0], {}))
    with ready.open_probe(state, record) as probe:
        ready.round_trip(broker.address, all_live)
        launch.await_port(driver)
        say("running a job on every worker")
        places = ready.warm_up(probe, driver, launch.executors_of_a_driver(record), all_live)
    seen = {place.relative_to(state.path).parts[0] for place in places}
    if len(seen) < record.workers:
        raise TestbedError(
            f"of {record.workers} workers a job ran only on {', '.join(sorted(seen))}",
            detail=f"their logs are in {state.home / 'failed-start'}",
            hint="try again; on a machine with little memory ask for fewer with --workers",
        )


def _plan(spec: StackSpec, tools: Toolchain, digest: str) -> StackRecord:
    asked = None if spec.kafka_port is None else asked_port(spec.kafka_port)
    ports = [port for port in free_ports(4 + spec.workers) if port != asked]
    return StackRecord(
        digest=digest,
        backend=spec.backend,
        python=str(spec.python),
        workers=spec.workers,
        asked_kafka_port=spec.kafka_port,
        kafka_port=asked or ports[0],
        controller_port=ports[1],
        master_port=ports[2],
        worker_ports=ports[3 : 3 + spec.workers],
        java=str(tools.java),
        spark_home=str(tools.spark.home),
        broker_jars=[],
        connector_jars=[],
        versions={},
    )


def _ports(state: StateFolder, record: StackRecord) -> list[int]:
    """Every port that the stack was to have."""
    own = [record.kafka_port, record.controller_port, record.master_port, *record.worker_ports]
    return own + [launch.port_of(part) for part in state.parts() if part.kind == "driver"]


def _formatted_broker(state: StateFolder, record: StackRecord) -> PartRecord:
    """The broker's record, once it has a formatted data folder."""
    folder = state.path / "broker"
    folder.mkdir()
    properties = settings.broker_properties(folder / "data", record.kafka_port, record.controller_port)
    (folder / "server.properties").write_text(properties, encoding="utf-8")
    (folder / "log4j2.properties").write_text(settings.BROKER_LOG4J, encoding="utf-8")
    formatted = project.cache_dir() / "formatted" / f"kafka-{record.versions['kafka']}"
    if not formatted.is_dir():
        _format(record, folder / "server.properties")
        formatted.parent.mkdir(parents=True, exist_ok=True)
        part = formatted.with_name(f"{formatted.name}.{os.getpid()}")
        shutil.copytree(folder / "data", part)
        with contextlib.suppress(OSError):  # another start was faster: its copy is as good
            part.rename(formatted)
        shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(formatted, folder / "data", dirs_exist_ok=True)
    return launch.broker(state, record)


def _format(record: StackRecord, properties: Path) -> None:
    """Format a broker's data folder. Takes a JVM of its own, so its result (three small files) is kept and copied."""
    argv = [record.java, *settings.DAEMON_JVM, "-cp", ":".join(record.broker_jars), "kafka.tools.StorageTool"]
    argv += ["format", "-t", "dGlkZW1hcmstY2x1c3Rlcg", "-c", str(properties)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_FORMAT_S, check=False)
    if done.returncode != 0:
        raise DaemonDied(
            "the broker's data folder cannot be formatted",
            detail=(done.stdout + done.stderr)[-2000:],
            hint="`tidemark doctor` looks at Java, memory, disk and ports",
        )


def _forget(state: StateFolder) -> None:
    """Empty the folder for another attempt; token and leases stay."""
    for path in state.path.iterdir():
        if path.is_dir() and path.name not in ("leases", "keepers", "logs"):
            shutil.rmtree(path, ignore_errors=True)
