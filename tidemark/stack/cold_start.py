"""A cold start, top to bottom; and its reverse.

The order is that of what waits for what; everything that can run beside something else does. A start that fails, or is
interrupted, leaves nothing behind but the logs of the attempt.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tidemark import paths
from tidemark.errors import DaemonDied, TestbedError
from tidemark.processes import base_environment, spawn
from tidemark.stack import readiness
from tidemark.stack.api import DRIVER, ComponentKind, Say
from tidemark.stack.backends import Backend, runtime_of
from tidemark.stack.components import launch_specs
from tidemark.stack.components.ports import can_bind, free_ports
from tidemark.stack.registry import ComponentRecord, Lease, StackRecord, StateFolder
from tidemark.stack.runtime import Runtime

LEAST_DISK = 1 << 28
"""Calibration: a stack that has just started has written 20 MB; a day of testing a few hundred."""
ATTEMPTS = 3
"""Calibration: a port is lost between its choice and the daemon's bind about never; twice in a row is no accident."""


def cold_start(state: StateFolder, backend: Backend, digest: str, say: Say) -> StackRecord:
    """Start a whole stack in an empty state folder, and wait until it is ready. The caller holds the lock and a lease.

    Raises ``JavaError``, ``FetchError``, ``PortTaken``, ``DaemonDied``, ``DeadlineExceeded`` or what else the backend
    has to say; then nothing runs.
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
            say(f"somebody else took port {lost[0]}; starting again")
            _forget(state)
        else:
            return record
    raise AssertionError("the last attempt returns or raises")


def _must_have_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise TestbedError(
            f"the disk is full: {free / (1 << 20):.1f} MiB free below {folder}",
            detail=f"a stack needs at least {LEAST_DISK >> 20} MiB for its data, logs and checkpoints",
            hint="make room; `tidemark down` removes a stack's data, runs/ holds the evidence of old runs",
        )


def ensure_reaper(state: StateFolder) -> None:
    """Start the process that ends the stack when nobody needs it (``reaper.py``), unless it lives. Holding the lock."""
    living = state.records("reapers", Lease)
    if any(reaper.owner.alive for _, reaper in living):
        return
    root = str(paths.PACKAGE.parent)
    reaper = spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.reaper", str(state.home), state.token() or ""],
        log=state.path / "logs" / "reaper.log",
        cwd=state.home,
        env=base_environment(PYTHONPATH=root, XDG_CACHE_HOME=str(paths.cache_dir().parent)),
    )
    state.add("reapers", Lease(reaper), "reaper")


def end_stack(state: StateFolder, *, keep_logs: bool = False) -> None:
    """End the stack and remove its folder. The caller holds the lock. ``keep_logs`` moves its logs aside."""
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
    started: list[ComponentRecord] = []

    def begin(*components: ComponentRecord) -> None:
        for component in components:
            state.write_component(component)
        started.extend(components)
        runtime.start(components)

    def all_live() -> None:
        for component in started:
            readiness.must_live(runtime, component)

    nodes = range(1, len(record.kafka_ports) + 1)
    master = launch_specs.master(state, record)
    begin(master, *(launch_specs.broker(state, record, node) for node in nodes))
    readiness.await_master(runtime, master)
    say("starting the workers")
    workers = [launch_specs.worker(state, record, number) for number in range(1, record.workers + 1)]
    begin(*workers)
    for worker in workers:
        readiness.await_worker(runtime, worker)
    say("starting the driver")  # not sooner: the master would put both executors on the worker that it knows
    driver = launch_specs.driver(state, record, DRIVER, free_ports(1)[0], {})
    begin(driver)
    with readiness.open_probe(state, record.python) as probe:
        readiness.round_trip(launch_specs.bootstrap_servers(record), all_live, brokers=len(nodes))
        readiness.await_driver(runtime, driver)
        say("running a job on every worker")
        places = readiness.warm_up(probe, driver, launch_specs.executors_of_a_driver(record), all_live)
    _must_be_everywhere(state, record, places)


def _must_be_everywhere(state: StateFolder, record: StackRecord, places: list[Path]) -> None:
    seen = {place.relative_to(state.path).parts[0] for place in places}
    if len(seen) < record.workers:
        raise TestbedError(
            f"of {record.workers} workers a job ran only on {', '.join(sorted(seen))}",
            detail=f"their logs are in {state.home / 'failed-start'}",
            hint="try again; on a machine with little memory ask for fewer with --workers",
        )


def _ports(state: StateFolder, record: StackRecord) -> list[int]:
    """Every port of this machine that the stack was to have."""
    own = list(record.kafka_ports)
    if record.backend == "local":
        own += [*record.controller_ports, record.master_port, *record.worker_ports]
    return own + [
        component.port for component in state.components() if component.kind is ComponentKind.DRIVER
    ]


def _forget(state: StateFolder) -> None:
    """Empty the folder for another attempt; token and leases stay."""
    for path in state.path.iterdir():
        if path.is_dir() and path.name not in ("leases", "reapers", "logs"):
            shutil.rmtree(path, ignore_errors=True)
