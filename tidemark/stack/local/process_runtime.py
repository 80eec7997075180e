"""The runtime of the local backend: every component is a process of this machine.

Only recorded processes and their descendants are signalled.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

from tidemark import paths
from tidemark.atomic_files import unfinished_path
from tidemark.errors import DaemonDied, UsageError
from tidemark.processes import ProcessId, end, spawn, tail
from tidemark.stack.api import ComponentKind, ComponentState, ComponentStatus, Executor
from tidemark.stack.components.ports import listens
from tidemark.stack.local.packet_links import LocalLinks, can_join_groups, group_of
from tidemark.stack.packet_rules import packets_of
from tidemark.stack.registry import ComponentRecord, StateFolder, Target, end_processes
from tidemark.waiting import wait_until

STOPPED_S = 60.0
"""Calibration: the kernel stops a process within milliseconds, but only after pending disk I/O."""
_FORMAT_S = 60
"""Calibration: formatting takes 0.8 s."""
FAMILIES = (ComponentKind.WORKER, ComponentKind.APP)
"""Components that end together with their descendants."""
_EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class ProcessRuntime:
    """Components as processes; :class:`tidemark.stack.runtime.Runtime` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self.packet_links = LocalLinks(state)
        self._suspended_before: dict[ProcessId, list[ProcessId]] = {}
        """Its descendants by then. To find them takes some ten milliseconds, in which they would run on."""

    def start(self, components: Sequence[ComponentRecord]) -> None:
        """Start components; each appends to its log file."""
        for component in components:
            if component.before and not (Path(component.cwd) / "data").is_dir():
                self._format(component)
            log = Path(component.log)
            component.log_start = log.stat().st_size if log.exists() else 0
            Path(component.cwd).mkdir(parents=True, exist_ok=True)
            group = group_of(self._state, component.name) if _has_links(component) else None
            component.process = spawn(
                component.argv, log=log, cwd=Path(component.cwd), env=component.env, group=group
            )
            self._state.write_component(component)

    def runs(self, component: ComponentRecord) -> bool:
        """Whether a component runs or is paused."""
        return component.process is not None and component.process.alive

    def statuses(self, components: Sequence[ComponentRecord]) -> list[ComponentStatus]:
        """The states of components."""
        return [_status(component) for component in components]

    def end(self, component: ComponentRecord, ask_s: float) -> None:
        """End a component; a worker together with its executors."""
        if component.process is not None:
            end(
                _family(component.process) if component.kind in FAMILIES else [component.process],
                ask_s=ask_s,
            )

    def forget(self, _component: ComponentRecord) -> None:
        """Nothing to do: a process leaves nothing behind."""

    def log(self, component: ComponentRecord, lines: int | None = None, *, since_start: bool = False) -> str:
        """A component's log, or its last lines."""
        start = component.log_start if since_start else 0
        if lines is not None:
            return tail(Path(component.log), lines, start=start)
        with Path(component.log).open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")

    def serves(self, component: ComponentRecord) -> bool:
        """Whether a driver accepts connections at its address."""
        if not listens(component.port):
            return False
        process = component.process.process() if component.process is not None else None
        if process is None or component.port not in {
            at.laddr.port for at in process.net_connections("tcp") if at.laddr
        }:
            raise DaemonDied(
                f"the {component.name} could not bind its port",
                detail=f"another program listens at {component.address}",
                hint="try again: another port will be chosen",
            )
        return True

    def executors(self, app_id: str, workers: Sequence[ComponentRecord]) -> list[Executor]:
        """The living executors of an application on these workers."""
        return list(_executors(app_id, {component.address: component.name for component in workers}))

    def end_executor(self, executor: Executor, *, with_workers: bool) -> None:
        """SIGKILL an executor with its Python workers; or resume these, which then end by themselves."""
        workers = _descendants(executor.process)
        if with_workers:
            end([*workers, executor.process], ask_s=0)
            return
        end([executor.process], ask_s=0)
        for worker in workers:
            worker.signal(signal.SIGCONT)

    def target(self, component: ComponentRecord) -> Target:
        """A component's process; of a user's job with the JVM that it has started."""
        return Target(component.process, family=component.kind is ComponentKind.APP)

    def executor_target(self, executor: Executor) -> Target:
        """An executor's process with its Python workers, which are what writes to Kafka."""
        return Target(executor.process, family=True)

    def network_target(self, component: ComponentRecord) -> Target:
        """Raises ``UsageError``: processes of one machine share its loopback interface."""
        raise UsageError(
            f"the {component.name} cannot be disconnected from the network",
            detail="all components are processes of this machine and share its loopback interface",
            hint="use containers, which have networks of their own: `make up BACKEND=compose`",
        )

    def suspend(self, target: Target) -> bool:
        """SIGSTOP the process, or with its descendants: at once those that are known, then those that are new."""
        process = target.process
        if process is None or not process.signal(signal.SIGSTOP):
            return False
        known = self._suspended_before.get(process, [])
        for one in known:
            one.signal(signal.SIGSTOP)
        now = _descendants(process) if target.family else []
        for one in now:
            if one not in known:
                one.signal(signal.SIGSTOP)
        for one in known:
            if one not in now:  # it has become another's, and is resumed by nobody else
                one.signal(signal.SIGCONT)
        self._suspended_before[process], stopped = now, [process, *now]
        wait_until(
            lambda: all(one.paused or not one.alive for one in stopped),
            STOPPED_S,
            lambda: f"process {process.pid} to stop",
            poll_s=0.001,
        )
        return True

    def resume(self, target: Target) -> None:
        """SIGCONT the process, or with its descendants."""
        process = target.process
        if process is None:
            return
        for one in [*(_descendants(process) if target.family else []), process]:
            one.signal(signal.SIGCONT)

    def print_stacks(self, target: Target) -> str:
        """SIGQUIT to the JVM; of a job in Python to the one that it has started. Any other process would end."""
        if target.process is None:
            return "there is no process"
        family = [target.process, *(_descendants(target.process) if target.family else [])]
        machines = [one for one in family if _is_java(one)]
        if not machines:
            return "no Java process runs"
        if paused := [one.pid for one in machines if one.paused]:
            return f"process {paused[0]} is suspended (SIGSTOP)"
        return "" if machines[0].signal(signal.SIGQUIT) else "the process is gone"

    def lives(self, target: Target) -> bool:
        """Whether the process exists."""
        return target.process is not None and target.process.alive

    def end_all(self, _logs: Path | None) -> None:
        """End every process of the stack, with descendants."""
        end_processes(self._state)
        for component in self._state.components():
            if component.kind is ComponentKind.WORKER:
                self.packet_links.forget(component.name)
            elif component.kind is ComponentKind.BROKER:
                self.packet_links.forget(packets_of(component.name))

    def wrap(self, argv: Sequence[str], _folder: Path) -> list[str]:
        """The command unchanged."""
        return list(argv)

    def _format(self, broker: ComponentRecord) -> None:
        """Create a broker's data folder: a copy of one that was formatted once, which saves the start of a JVM."""
        record = self._state.read()
        version = record.versions["kafka"] if record is not None else "unknown"
        formatted = paths.cache_dir() / "formatted" / f"kafka-{version}-{broker.name}"
        data = Path(broker.cwd) / "data"
        if not formatted.is_dir():
            _run_once(broker)
            formatted.parent.mkdir(parents=True, exist_ok=True)
            unfinished = unfinished_path(formatted)
            shutil.copytree(data, unfinished)
            with contextlib.suppress(OSError):  # another start was faster; its copy is the same
                unfinished.rename(formatted)
            shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(formatted, data, dirs_exist_ok=True)


def _has_links(component: ComponentRecord) -> bool:
    """Whether what it exchanges with others can be watched: a worker's executors inherit its group."""
    return component.kind is ComponentKind.WORKER and can_join_groups()


def _run_once(component: ComponentRecord) -> None:
    """Run the command that precedes a component's first start."""
    done = subprocess.run(
        component.before, capture_output=True, text=True, timeout=_FORMAT_S, check=False, env=component.env
    )
    if done.returncode != 0:
        raise DaemonDied(
            f"the data folder of the {component.name} cannot be formatted",
            detail=(done.stdout + done.stderr)[-2000:],
            hint="`tidemark doctor` checks Java, memory, disk and ports",
        )


def _family(worker: ProcessId) -> list[ProcessId]:
    """A worker and its executors, which end together as they would with a container or a machine.

    The worker is suspended first, so that it starts no further executor, which would outlive it.
    """
    if not worker.signal(signal.SIGSTOP):
        return [worker]
    wait_until(lambda: worker.paused or not worker.alive, STOPPED_S, lambda: "a worker to stop", poll_s=0.001)
    return [worker, *_descendants(worker)]


def _descendants(process: ProcessId) -> list[ProcessId]:
    """All descendants of a process; a parent comes before its children."""
    living = process.process()
    try:
        children = living.children(recursive=True) if living is not None else []
    except psutil.NoSuchProcess:
        return []
    return [found for child in children if (found := _as_id(child)) is not None]


def _as_id(process: psutil.Process) -> ProcessId | None:
    try:
        return ProcessId.of(process.pid)
    except psutil.NoSuchProcess:
        return None


def _is_java(process: ProcessId) -> bool:
    living = process.process()
    try:
        return living is not None and Path(living.exe()).name == "java"
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _status(component: ComponentRecord) -> ComponentStatus:
    process = component.process.process() if component.process is not None else None
    if process is None or component.process is None:
        return ComponentStatus(component.name, ComponentState.STOPPED, None, component.address, 0)
    state = ComponentState.PAUSED if component.process.paused else ComponentState.RUNNING
    return ComponentStatus(
        component.name, state, component.process.pid, component.address, _resident_bytes(process)
    )


def _resident_bytes(process: psutil.Process) -> int:
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _executors(app_id: str, workers: Mapping[str, str]) -> Iterator[Executor]:
    """The executors of an application on these workers (address -> name).

    An application id is the second of its start and a counter, so two stacks on one machine may have the same id: the
    worker's address tells their executors apart.
    """
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if _EXECUTOR_CLASS not in line or app_id not in line:
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            options = dict(pairwise(line))
            worker = workers.get(options["--worker-url"].rsplit("@", 1)[1])
            if worker is not None:
                yield Executor(options["--executor-id"], worker, ProcessId.of(process.pid))
        except (psutil.NoSuchProcess, psutil.AccessDenied, KeyError):
            continue
