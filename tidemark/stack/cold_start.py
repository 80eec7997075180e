"""The cold start of a whole stack, and its end.

Components start as soon as the components that they depend on are ready, otherwise in parallel. A start that fails or
is interrupted leaves nothing but its logs, in ``failed-start``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tidemark import paths
from tidemark.errors import DaemonDied, TestbedError
from tidemark.formats.connect_url import client_environment
from tidemark.processes import base_environment, spawn
from tidemark.stack import readiness
from tidemark.stack.api import DRIVER, ComponentKind, Say
from tidemark.stack.backends import Backend, runtime_of
from tidemark.stack.components import launch_specs
from tidemark.stack.components.ports import can_bind, free_ports
from tidemark.stack.registry import ComponentRecord, Lease, StackRecord, StateFolder
from tidemark.stack.runtime import Runtime
from tidemark.stack.secured_kafka import allow_clients, client_settings, make_secrets

LEAST_DISK = 1 << 28
"""Calibration: a stack that has just started has written 20 MB; a day of testing a few hundred."""
ATTEMPTS = 3
"""Calibration: another program hardly ever takes a port between its choice and the daemon's bind."""


def cold_start(state: StateFolder, backend: Backend, digest: str, say: Say) -> StackRecord:
    """Start a whole stack in an empty state folder and wait until it is ready. The caller holds the lock and a lease.

    Raises ``JavaError``, ``FetchError``, ``PortTaken``, ``DaemonDied``, ``DeadlineExceeded`` or another error of the
    backend; nothing of the stack runs then.
    """
    _must_have_room(state.path)
    supplies = backend.provide(say)
    for attempt in range(1, ATTEMPTS + 1):
        record = backend.plan(supplies, digest)
        runtime = runtime_of(state, record.backend)
        try:
            _start_all(state, record, runtime, say)
        except DaemonDied:
            runtime.end_all(state.path / "logs")
            lost = [port for port in _ports(state, record) if not can_bind(port)]
            if not lost or attempt == ATTEMPTS:
                raise
            say(f"another program has taken port {lost[0]}; starting again with other ports")
            _clear(state)
        else:
            return record
    raise AssertionError("the last attempt returns or raises")


def _must_have_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise TestbedError(
            f"the disk is full: {free / (1 << 20):.1f} MiB free below {folder}",
            detail=f"a stack needs at least {LEAST_DISK >> 20} MiB for its data, logs and checkpoints",
            hint="free disk space: `tidemark down` removes a stack's data; runs/ holds the evidence of old runs",
        )


def ensure_reaper(state: StateFolder) -> None:
    """Start the reaper, which ends a stack without users, unless it runs. The caller holds the lock."""
    living = state.records("reapers", Lease)
    if any(reaper.owner.alive for _, reaper in living):
        return
    root = str(paths.PACKAGE.parent)
    reaper = spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.reaper", str(state.home), state.token() or ""],
        log=state.path / "logs" / "reaper.log",
        cwd=state.home,
        env=base_environment(
            PYTHONPATH=root, XDG_CACHE_HOME=str(paths.cache_dir().parent), **client_environment()
        ),
    )
    state.add("reapers", Lease(reaper), "reaper")


def end_stack(state: StateFolder, *, keep_logs: bool = False) -> None:
    """End the stack and remove its folder.

    ``keep_logs`` moves its logs to ``failed-start``. The caller holds the lock.
    """
    logs = state.path / "logs"
    aside = state.home / "failed-start"
    runtime_of(state, state.backend()).end_all(logs if keep_logs else None)
    if keep_logs and logs.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        logs.rename(aside)
    shutil.rmtree(state.path, ignore_errors=True)


def _start_all(state: StateFolder, record: StackRecord, runtime: Runtime, say: Say) -> None:
    say("starting the broker and the Spark master")
    state.write(record)
    for name in ("tmp", "work", "master/recovery"):
        (state.path / name).mkdir(parents=True, exist_ok=True)
    if record.kafka_security:
        make_secrets(state, record)
    started: list[ComponentRecord] = []

    def launch(*components: ComponentRecord) -> None:
        for component in components:
            state.write_component(component)
        started.extend(components)
        runtime.start(components)

    def all_live() -> None:
        for component in started:
            readiness.must_live(runtime, component)

    nodes = range(1, len(record.kafka_ports) + 1)
    master = launch_specs.master(state, record)
    launch(master, *(launch_specs.broker(state, record, node) for node in nodes))
    readiness.await_master(runtime, master)
    say("starting the workers")
    workers = [launch_specs.worker(state, record, number) for number in range(1, record.workers + 1)]
    launch(*workers)
    for worker in workers:
        readiness.await_worker(runtime, worker)
    say("starting the driver")  # after all workers: the master would place both executors on the first one
    driver = launch_specs.driver(state, record, DRIVER, free_ports(1)[0], {})
    launch(driver)
    with readiness.open_probe(state, record.python) as probe:
        if record.kafka_security:
            allow_clients(state, record, all_live)
        readiness.round_trip(client_settings(state, record), all_live, brokers=len(nodes))
        readiness.await_driver(runtime, driver)
        say("running a job on every worker")
        folders = readiness.warm_up(probe, driver, launch_specs.executors_of_a_driver(record), all_live)
    _must_use_every_worker(state, record, folders)


def _must_use_every_worker(state: StateFolder, record: StackRecord, folders: list[Path]) -> None:
    used = {folder.relative_to(state.path).parts[0] for folder in folders}
    if len(used) < record.workers:
        raise TestbedError(
            f"a job ran only on {', '.join(sorted(used))}, not on each of {record.workers} workers",
            detail=f"their logs are in {state.home / 'failed-start'}",
            hint="try again; on a machine with little memory start fewer with --workers",
        )


def _ports(state: StateFolder, record: StackRecord) -> list[int]:
    """Every port of this machine that was chosen for the stack."""
    own = list(record.kafka_ports)
    if record.backend == "local":
        own += [*record.controller_ports, *record.admin_ports, record.master_port, *record.worker_ports]
        own += [*record.proxy_ports, *record.proxied_ports, *record.registry_ports]
    return own + [
        component.port for component in state.components() if component.kind is ComponentKind.DRIVER
    ]


def _clear(state: StateFolder) -> None:
    """Empty the folder for another attempt; token and leases stay."""
    for path in state.path.iterdir():
        if path.is_dir() and path.name not in ("leases", "reapers", "logs"):
            shutil.rmtree(path, ignore_errors=True)
