"""The local backend: every part is a process of this machine.

A :class:`LocalStack` holds no process itself, only the state folder: any number of programs may use one stack at once.
Signals go to recorded processes only (id and time of creation).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import psutil

from tidemark.errors import TestbedError, UsageError
from tidemark.process import ProcessId, end, tail
from tidemark.stack import archives, launch, ready
from tidemark.stack.pausing import STOPPED_S, held, pause_process, resume_process
from tidemark.stack.ports import free_ports
from tidemark.stack.protocol import Driver, Executor, PartState, PartStatus
from tidemark.stack.spec import StackSpec
from tidemark.stack.state import PartRecord, Session, StackRecord, StateFolder
from tidemark.wait import wait_until

_EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,60}")
_EVENT_LOG_S = 10.0
"""Calibration: the event log is made before the driver listens."""


class LocalStack:
    """A running stack of processes; see :class:`tidemark.stack.protocol.Stack` for what each method promises."""

    def __init__(self, state: StateFolder, record: StackRecord) -> None:
        self._state = state
        self._record = record

    @property
    def spec(self) -> StackSpec:
        """What the stack was asked to be."""
        record = self._record
        return StackSpec(record.backend, Path(record.python), record.workers, record.asked_kafka_port)

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address."""
        return self._part("broker").address

    @property
    def state_dir(self) -> Path:
        """The stack's folder."""
        return self._state.path

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs."""
        return dict(self._record.versions)

    def parts(self) -> list[str]:
        """The names of all parts."""
        return [part.name for part in self._state.parts()]

    def status(self) -> list[PartStatus]:
        """The state of every part."""
        return [_status(part) for part in self._state.parts()]

    def start(self, part: str) -> None:
        """Start a part that does not run, and wait until it does its work."""
        with self._state.part_lock(f"start-{part}"):
            record = self._part(part)
            if record.process is None or not record.process.alive:
                self._bring_up(launch.launch(self._state, record))

    def stop(self, part: str) -> None:
        """Ask a part to end; kill it if it does not."""
        self._end(part, ask_s=5.0)

    def kill(self, part: str) -> None:
        """SIGKILL a part."""
        self._end(part, ask_s=0)

    def pause(self, part: str) -> None:
        """SIGSTOP a part."""
        pause_process(self._state, self._process(part), f"part-{part}")

    def resume(self, part: str) -> None:
        """SIGCONT a part."""
        resume_process(self._state, self._process(part), f"part-{part}")

    def logs(self, part: str, lines: int = 50) -> str:
        """The end of a part's log."""
        return tail(Path(self._part(part).log), lines)

    def driver(self, name: str = "driver") -> Driver:
        """A driver that runs."""
        part = self._part(name)
        self._process(name)
        event_log = _newest_event_log(self._state, name)
        if part.kind != "driver" or event_log is None:
            raise UsageError(f"{name!r} is not a driver", hint=f"the parts are {', '.join(self.parts())}")
        app_id = event_log.name.removesuffix(".inprogress")
        return Driver(name, part.address, app_id, event_log, Path(part.log))

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:
        """Start a driver of one's own."""
        if not _NAME.fullmatch(name) or self._state.part(name) is not None:
            raise UsageError(
                f"a driver cannot be called {name!r}",
                detail=f"the parts are {', '.join(self.parts())}",
                hint="choose a name of its own, of small letters, digits, '.', '_' and '-'",
            )
        part = launch.driver(self._state, self._record, name, free_ports(1)[0], dict(conf or {}))
        part.owner = ProcessId.own()
        try:
            self._bring_up(launch.launch(self._state, part))
            return self.driver(name)
        except BaseException:
            self.stop(name)
            raise

    def executors(self, driver: str) -> list[Executor]:
        """The living executors of a driver's application."""
        app_id = self.driver(driver).app_id
        workers = {part.address: part.name for part in self._state.parts() if part.kind == "worker"}
        return sorted(_executors(app_id, workers))

    def kill_executor(self, driver: str, executor_id: str) -> Executor:
        """SIGKILL an executor."""
        executor = self._executor(driver, executor_id)
        end([_identity(executor)], ask_s=0)
        self._state.discard("stopped", f"executor-{executor.pid}")
        return executor

    def pause_executor(self, driver: str, executor_id: str) -> Executor:
        """SIGSTOP an executor."""
        executor = self._executor(driver, executor_id)
        pause_process(self._state, _identity(executor), f"executor-{executor.pid}")
        return executor

    def resume_executor(self, driver: str, executor_id: str) -> Executor:
        """SIGCONT an executor."""
        executor = self._executor(driver, executor_id)
        resume_process(self._state, _identity(executor), f"executor-{executor.pid}")
        return executor

    @contextmanager
    def hold(self, driver: str) -> Iterator[None]:
        """Stop a driver for the length of the block."""
        with held(self._state, self._process(driver), driver):
            yield

    @contextmanager
    def register_session(self, session_id: str, driver: str, *, user_id: str | None = None) -> Iterator[None]:
        """Note a Connect session for the length of the block."""
        name = uuid4().hex
        user = user_id if user_id is not None else os.getenv("SPARK_USER", os.getenv("USER", ""))
        record = Session(session_id, user, self._part(driver).address, ProcessId.own())
        self._state.add("sessions", record, name)
        try:
            yield
        finally:
            self._state.discard("sessions", name)

    def work_dir(self, name: str) -> Path:
        """A folder that driver, executors and host see under the same path."""
        path = self._state.path / "work" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def await_archives(self, timeout_s: float = 600.0) -> None:
        """Wait until the keeper has written the class archives with which the next stack starts faster."""
        wait_until(
            lambda: not archives.missing(self._record),
            timeout_s,
            lambda: f"class archives of {', '.join(archives.missing(self._record))}",
            poll_s=0.5,
        )

    def mend(self) -> list[str]:
        """Start the parts of the stack that do not run; returns their names."""
        gone = [part.name for part in self._state.parts() if part.owner is None and not _runs(part)]
        for name in gone:
            self.start(name)
        return gone

    def _bring_up(self, part: PartRecord) -> None:
        """Wait until a part that was just started does its work."""
        match part.kind:
            case "broker":
                ready.round_trip(part.address, lambda: launch.must_live(part))
            case "master":
                launch.await_master(part)
            case "worker":
                launch.await_worker(part)
            case _:
                with ready.open_probe(self._state, self._record) as probe:
                    launch.await_port(part)
                    count = launch.executors_of_a_driver(self._record)
                    ready.warm_up(probe, part, count, lambda: launch.must_live(part))

    def _end(self, name: str, ask_s: float) -> None:
        part = self._part(name)
        if part.process is not None:
            end(_family(part.process) if part.kind == "worker" else [part.process], ask_s=ask_s)
        self._state.discard("stopped", f"part-{name}")
        if part.owner is not None:
            self._state.forget_part(name)

    def _part(self, name: str) -> PartRecord:
        part = self._state.part(name)
        if part is None:
            raise UsageError(
                f"the stack has no part {name!r}",
                detail=f"its parts are {', '.join(self.parts()) or 'gone: it was ended'}",
                hint="`tidemark status` shows them; `tidemark up` starts a stack",
            )
        return part

    def _process(self, name: str) -> ProcessId:
        part = self._part(name)
        if part.process is None or not part.process.alive:
            raise TestbedError(
                f"the {name} does not run",
                detail=f"the end of {part.log}:\n{tail(Path(part.log), 10)}",
                hint="`tidemark up` starts what is missing",
            )
        return part.process

    def _executor(self, driver: str, executor_id: str) -> Executor:
        living = self.executors(driver)
        for executor in living:
            if executor.executor_id == executor_id:
                return executor
        raise TestbedError(
            f"executor {executor_id} of {driver} does not run",
            detail=f"living executors: {', '.join(executor.executor_id for executor in living) or 'none'}",
            hint="an executor that was killed has a successor of another id: ask executors() again",
        )


def _runs(part: PartRecord) -> bool:
    return part.process is not None and part.process.alive


def _identity(executor: Executor) -> ProcessId:
    return ProcessId(executor.pid, executor.create_time)


def _family(worker: ProcessId) -> list[ProcessId]:
    """A worker and its executors, as a container or a machine would take them along.

    Left to itself, an executor that its worker was just starting outlives it. The worker is stopped first, so that it
    starts no more.
    """
    process = worker.process()
    if process is None or not worker.signal(signal.SIGSTOP):
        return [worker]
    wait_until(
        lambda: worker.paused or not worker.alive, STOPPED_S, lambda: "a worker to be stopped", poll_s=0.001
    )
    try:
        children = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return [worker]
    return [worker, *(found for child in children if (found := _as_id(child)) is not None)]


def _as_id(process: psutil.Process) -> ProcessId | None:
    try:
        return ProcessId(process.pid, process.create_time())
    except psutil.NoSuchProcess:
        return None


def _status(part: PartRecord) -> PartStatus:
    process = part.process.process() if part.process is not None else None
    if process is None or part.process is None:
        return PartStatus(part.name, PartState.STOPPED, None, part.address, 0)
    state = PartState.PAUSED if part.process.paused else PartState.RUNNING
    return PartStatus(part.name, state, part.process.pid, part.address, _resident_bytes(process))


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


def _newest_event_log(state: StateFolder, driver: str) -> Path | None:
    """The event log of a driver's last start: application ids begin with the time."""
    return max((state.path / "event-logs" / driver).glob("app-*"), default=None)


def _executors(app_id: str, workers: Mapping[str, str]) -> Iterator[Executor]:
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if _EXECUTOR_CLASS not in line or app_id not in line:
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            options = dict(pairwise(line))
            worker = options["--worker-url"].rsplit("@", 1)[1]
            number = options["--executor-id"]
            yield Executor(number, workers.get(worker, worker), process.pid, process.create_time())
        except (psutil.NoSuchProcess, psutil.AccessDenied, KeyError):
            continue
