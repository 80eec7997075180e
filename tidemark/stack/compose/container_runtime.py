"""The runtime of the compose backend: every part is a container, found by its label.

The file ``compose/compose.yaml`` says what a container is like, testcontainers has Compose make them, and everything
else goes through the engine's API. What a part runs is a script that is written into its folder (``start``), from the
same record as a local process. Executors are processes inside of a worker's container, and are asked for there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from tidemark.errors import ContainerEngineError
from tidemark.processes import ProcessId
from tidemark.stack.api import ComponentState, ComponentStatus, Executor
from tidemark.stack.components.names import host_name
from tidemark.stack.compose import agents, compose_project, container_freezer, docker_engine, image
from tidemark.stack.compose.compose_project import project_of, run_in_image
from tidemark.stack.compose.orphans import COMPONENT_LABEL, remove_stack
from tidemark.stack.registry import ComponentRecord, StateFolder, Target, end_processes
from tidemark.waiting import wait_until

GONE_S = 60.0
"""Calibration: a killed container is gone within 0.3 s; more only where the disk hangs."""
_PROGRAM = Path(__file__).parents[1] / "inside" / "worker_processes.py"
_TIMES = 6
_CONFLICT = 409
_GONE = 3
"""What inside/worker_processes.py answers of a process that is gone."""


class ContainerRuntime:
    """Parts as containers; see :class:`tidemark.stack.runtime.Runtime` for what each method promises."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    @property
    def _api(self) -> Any:
        return docker_engine.connect()

    def start(self, components: Sequence[ComponentRecord]) -> None:
        """Start containers, made by Compose if they are not there; a driver of one's own is made like the other."""
        there = [component for component in components if self._inspect(component) is not None]
        for component in components:
            write_script(component)
        services = [
            component.name for component in components if component not in there and component.owner is None
        ]
        if services:
            compose_project.up(self._state, services)
        for component in components:
            if component not in there and component.owner is not None:
                self._create_like_the_driver(component)
            if component.name not in services:
                with docker_engine.asked(f"start {component.name}"):
                    self._api.start(self._name(component))

    def runs(self, component: ComponentRecord) -> bool:
        """Whether a container runs or is paused."""
        known = self._inspect(component)
        return known is not None and bool(known["State"]["Running"])

    def statuses(self, components: Sequence[ComponentRecord]) -> list[ComponentStatus]:
        """The state of parts."""
        with ThreadPoolExecutor(max(1, len(components))) as pool:
            return list(pool.map(self._status, components))

    def end(self, component: ComponentRecord, ask_s: float) -> None:
        """Stop or kill a container."""
        if not self.runs(component):
            return
        name = self._name(component)
        with docker_engine.asked(f"end {component.name}"):
            if ask_s > 0:
                self._unpause(name)
                self._api.stop(name, timeout=int(ask_s))
            else:
                self._api.kill(name)
        wait_until(
            lambda: not self.runs(component), GONE_S, lambda: f"{component.name} to be gone", poll_s=0.01
        )

    def forget(self, component: ComponentRecord) -> None:
        """Remove a container."""
        self._remove(self._name(component))

    def log(self, component: ComponentRecord, lines: int | None = None, *, since_start: bool = False) -> str:
        """The end of a container's log."""
        known = self._inspect(component)
        if known is None:
            return ""
        since = _seconds(known["State"]["StartedAt"]) if since_start else None
        with docker_engine.asked(f"show the log of {component.name}"):
            text = self._api.logs(known["Id"], tail="all" if lines is None else lines, since=since)
        return str(text.decode(errors="replace"))

    def serves(self, component: ComponentRecord) -> bool:
        """Whether a driver takes connections: its port is published, and so taken, before it listens."""
        return "Spark Connect server started at" in self.log(component, since_start=True)

    def executors(self, app_id: str, workers: Sequence[ComponentRecord]) -> list[Executor]:
        """The living executors of an application; those of a paused worker cannot be seen."""
        with ThreadPoolExecutor(max(1, len(workers))) as pool:
            found = pool.map(lambda worker: self._executors(app_id, worker), workers)
        return [executor for executors in found for executor in executors]

    def end_executor(self, executor: Executor) -> None:
        """SIGKILL an executor inside of its worker's container."""
        self._inside(self._container_of(executor), executor.process, "kill")

    def target(self, component: ComponentRecord) -> Target:
        """The whole container."""
        return Target(container=self._name(component))

    def executor_target(self, executor: Executor) -> Target:
        """A process inside of a container."""
        return Target(executor.process, self._container_of(executor))

    def network_target(self, component: ComponentRecord) -> Target:
        """A container's place in the stack's network."""
        return Target(container=self._name(component), network=True)

    def suspend(self, target: Target) -> bool:
        """Freeze a container, stop a process inside of one, or take a container off the network."""
        if target.process is not None:
            return self._inside(target.container, target.process, "halt") == 0
        if not target.network:
            with docker_engine.asked(f"stop {target.container}"):
                return container_freezer.freeze(self._api, target.container)
        try:
            with docker_engine.asked(f"cut off {target.container}"):
                self._api.disconnect_container_from_network(target.container, self._project())
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return self.lives(target)
            raise
        return True

    def resume(self, target: Target) -> None:
        """Undo :meth:`halt`."""
        if target.process is not None:
            self._inside(target.container, target.process, "go-on")
        elif not target.network:
            self._unpause(target.container)
        elif self._project() not in self._networks(target.container):
            component = target.container.removeprefix(f"{self._project()}-")
            with docker_engine.asked(f"bring {component} back to the network"):
                self._api.connect_container_to_network(
                    target.container, self._project(), aliases=[host_name(component)]
                )

    def lives(self, target: Target) -> bool:
        """Whether a container, or a process inside of one, is there."""
        if target.process is not None:
            return self._inside(target.container, target.process, "lives") == 0
        known = self._inspect_named(target.container)
        return known is not None and (target.network or bool(known["State"]["Running"]))

    def end_all(self, logs: Path | None) -> None:
        """Remove the stack's containers and network, and end what processes it has on this machine."""
        token = self._state.token()
        if token is not None:
            if logs is not None:
                self._save_logs(logs)
            remove_stack(token)
        # Last, because where the engine does not answer nothing is to be ended: what runs inside carries the token too.
        end_processes(self._state)

    def wrap(self, argv: Sequence[str], folder: Path) -> list[str]:
        """A container of its own, of the stack's image."""
        record = self._state.read()
        assert record is not None, "a stack that is there has a record"
        return run_in_image(self._state, record.image, argv, folder)

    def _save_logs(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for component in self._state.components():
            if text := self.log(component):
                with suppress(OSError):  # a full disk may be why it is ended
                    (folder / f"{component.name}.log").write_text(text, encoding="utf-8")

    def _status(self, component: ComponentRecord) -> ComponentStatus:
        known = self._inspect(component)
        state = known["State"] if known is not None else {"Running": False}
        if known is None or not state["Running"]:
            return ComponentStatus(component.name, ComponentState.STOPPED, None, component.address, 0)
        stands = ComponentState.PAUSED if state["Paused"] else ComponentState.RUNNING
        try:
            with docker_engine.asked(f"measure {component.name}"):
                memory = self._api.stats(known["Id"], stream=False, one_shot=True)["memory_stats"]
        except ContainerEngineError:
            memory = {}  # it has just ended
        return ComponentStatus(
            component.name, stands, state["Pid"], component.address, _resident_bytes(memory)
        )

    def _executors(self, app_id: str, worker: ComponentRecord) -> list[Executor]:
        known = self._inspect(worker)
        if known is None or not known["State"]["Running"] or known["State"]["Paused"]:
            return []
        try:
            code, output = self._exec(known["Id"], "list", app_id)
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return []  # it was stopped between the two questions
            raise
        if code != 0:
            raise ContainerEngineError(
                f"the executors on {worker.name} cannot be listed",
                detail=output,
                hint=f"`tidemark status` says whether {worker.name} is well",
            )
        return [_executor(worker.name, **json.loads(line)) for line in output.splitlines()]

    def _inside(self, container: str, process: ProcessId, what: str) -> int:
        """Do something to a process inside of a container; 3 if it is gone, as it is when its container is."""
        try:
            code, output = self._exec(
                container, what, str(process.pid), str(process.start_ticks), process.boot_id
            )
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return _GONE
            raise
        if code not in (0, _GONE):
            raise ContainerEngineError(
                f"process {process.pid} in {container}: {what} failed",
                detail=output,
                hint="`tidemark status` says whether the stack is well",
            )
        return code

    def _exec(self, container: str, *words: str) -> tuple[int, str]:
        with docker_engine.asked(f"run a command in {container}"):
            return agents.ask(self._api, container, [image.VENV_PYTHON, "-I", str(self._program())], words)

    def _program(self) -> Path:
        """The program that looks after processes inside, where containers see it: named after what it holds."""
        content = _PROGRAM.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        program = self._state.path / "inside" / f"{_PROGRAM.stem}-{digest}.py"
        if not program.is_file():
            program.parent.mkdir(exist_ok=True)
            component = program.with_name(f"{program.name}.{os.getpid()}.part")
            component.write_bytes(content)
            component.replace(program)
        return program

    def _create_like_the_driver(self, component: ComponentRecord) -> None:
        """A container for a driver of one's own: as Compose made the stack's, with another name, port and command."""
        with docker_engine.asked(f"make a container for {component.name}"):
            known = self._api.inspect_container(f"{self._project()}-driver")
            port = f"{component.port}/tcp"
            config = {
                **known["Config"],
                "Hostname": host_name(component.name),
                "Cmd": ["sh", str(self._state.path / component.name / "start")],
                "Labels": {
                    name: value
                    for name, value in known["Config"]["Labels"].items()
                    if not name.startswith("com.docker.compose.")
                }
                | {COMPONENT_LABEL: component.name},
                "Healthcheck": {"Test": ["NONE"]},
                "ExposedPorts": {port: {}},
                "HostConfig": {
                    **known["HostConfig"],
                    "PortBindings": {port: [{"HostIp": "127.0.0.1", "HostPort": str(component.port)}]},
                },
                "NetworkingConfig": {
                    "EndpointsConfig": {self._project(): {"Aliases": [host_name(component.name)]}}
                },
            }
            self._api.create_container_from_config(config, name=self._name(component))

    def _unpause(self, container: str) -> None:
        with docker_engine.asked(f"let {container} go on"):
            container_freezer.thaw(self._api, container)

    def _networks(self, container: str) -> list[str]:
        known = self._inspect_named(container)
        return list(known["NetworkSettings"]["Networks"]) if known is not None else [self._project()]

    def _inspect(self, component: ComponentRecord) -> dict[str, Any] | None:
        return self._inspect_named(self._name(component))

    def _inspect_named(self, name: str) -> dict[str, Any] | None:
        try:
            with docker_engine.asked(f"look at {name}"):
                known: dict[str, Any] = self._api.inspect_container(name)
                return known
        except ContainerEngineError as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    def _remove(self, name: str) -> None:
        try:
            with docker_engine.asked(f"remove {name}"):
                self._api.remove_container(name, force=True)
        except ContainerEngineError as error:
            if not _is_out_of_reach(error):
                raise

    def _container_of(self, executor: Executor) -> str:
        return f"{self._project()}-{executor.worker}"

    def _name(self, component: ComponentRecord) -> str:
        return f"{self._project()}-{component.name}"

    def _project(self) -> str:
        return project_of(self._state)


def write_script(component: ComponentRecord) -> None:
    """Write what a container runs: the part's command in its folder, with exactly its environment."""
    folder = Path(component.cwd)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["set -e", f"cd {shlex.quote(component.cwd)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in component.env.items()]
    if component.before:
        lines.append(f"[ -e formatted ] || {{ {shlex.join(component.before)}; touch formatted; }}")
    lines.append(f"exec {shlex.join(component.argv)}")
    (folder / "start").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _executor(worker: str, executor_id: str, **process: Any) -> Executor:
    """An executor, from a line of inside/worker_processes.py."""
    return Executor(executor_id, worker, ProcessId(**process))


def _is_conflict(error: ContainerEngineError) -> bool:
    cause = error.__cause__
    return isinstance(cause, APIError) and cause.status_code == _CONFLICT


def _is_out_of_reach(error: ContainerEngineError) -> bool:
    """Whether there is no such container, or it does not run, or is paused, or is being removed by somebody else."""
    return _is_conflict(error) or isinstance(error.__cause__, NotFound)


def _resident_bytes(memory: dict[str, Any]) -> int:
    """Of cgroup v1 ``total_rss``, of v2 ``anon``: what its processes hold, without the page cache."""
    stats = memory.get("stats", {})
    return int(stats.get("total_rss", stats.get("anon", memory.get("usage", 0))))


def _seconds(engine_time: str) -> float:
    """The engine's time (RFC 3339, nanoseconds) as seconds since the epoch."""
    whole, _, rest = engine_time.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{rest or 0}")
