"""The runtime of the compose backend: every component is a container.

``compose/compose.yaml`` describes the containers and Compose (through testcontainers) creates them; everything else
uses the engine's API. A container runs the script ``start`` in its component's folder, written from the same record as
a local process. Executors are processes inside a worker's container; an agent there lists and signals them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from tidemark.atomic_files import write_atomically
from tidemark.errors import ContainerEngineError
from tidemark.processes import ProcessId
from tidemark.stack.api import ComponentState, ComponentStatus, Executor
from tidemark.stack.components.names import host_name
from tidemark.stack.compose import agents, compose_project, container_freezer, docker_engine, image
from tidemark.stack.compose.compose_project import project_of, run_in_image
from tidemark.stack.compose.container_links import ContainerLinks
from tidemark.stack.compose.orphans import COMPONENT_LABEL, remove_stack
from tidemark.stack.registry import ComponentRecord, StateFolder, Target, end_processes
from tidemark.waiting import wait_until

GONE_S = 60.0
"""Calibration: a killed container is gone within 0.3 s; later only if the disk hangs."""
_PROGRAM = Path(__file__).parents[1] / "inside" / "worker_processes.py"
_CONFLICT = 409
_GONE, _STOPPED = 3, 4
"""The codes of inside/worker_processes.py for a process that is gone, and for one that cannot print: it is stopped."""


class ContainerRuntime:
    """Components as containers; :class:`tidemark.stack.runtime.Runtime` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self.packet_links = ContainerLinks(state)

    @property
    def _api(self) -> Any:
        return docker_engine.connect()

    def start(self, components: Sequence[ComponentRecord]) -> None:
        """Start containers. Compose creates missing ones; a private driver is a copy of the stack's driver."""
        existing = [component for component in components if self._inspect(component) is not None]
        for component in components:
            write_script(component)
        services = [
            component.name
            for component in components
            if component not in existing and component.owner is None
        ]
        if services:
            compose_project.up(self._state, services)
        for component in components:
            if component not in existing and component.owner is not None:
                self._create_like_the_driver(component)
            if component.name not in services:
                with docker_engine.engine_errors(f"start {component.name}"):
                    self._api.start(self._name(component))

    def runs(self, component: ComponentRecord) -> bool:
        """Whether a container runs or is paused."""
        known = self._inspect(component)
        return known is not None and bool(known["State"]["Running"])

    def statuses(self, components: Sequence[ComponentRecord]) -> list[ComponentStatus]:
        """The states of components."""
        with ThreadPoolExecutor(max(1, len(components))) as pool:
            return list(pool.map(self._status, components))

    def end(self, component: ComponentRecord, ask_s: float) -> None:
        """Stop or kill a container."""
        if not self.runs(component):
            return
        name = self._name(component)
        with docker_engine.engine_errors(f"end {component.name}"):
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
        """A container's log, or its last lines."""
        known = self._inspect(component)
        if known is None:
            return ""
        since = _seconds(known["State"]["StartedAt"]) if since_start else None
        with docker_engine.engine_errors(f"show the log of {component.name}"):
            text = self._api.logs(known["Id"], tail="all" if lines is None else lines, since=since)
        return str(text.decode(errors="replace"))

    def serves(self, component: ComponentRecord) -> bool:
        """Whether a driver serves, from its log: its published port accepts connections before the driver listens."""
        return "Spark Connect server started at" in self.log(component, since_start=True)

    def executors(self, app_id: str, workers: Sequence[ComponentRecord]) -> list[Executor]:
        """The living executors of an application, without those of a paused worker, which cannot be listed."""
        with ThreadPoolExecutor(max(1, len(workers))) as pool:
            found = pool.map(lambda worker: self._executors(app_id, worker), workers)
        return [executor for executors in found for executor in executors]

    def end_executor(self, executor: Executor, *, with_workers: bool) -> None:
        """SIGKILL an executor inside its worker's container."""
        action = "kill-family" if with_workers else "kill"
        self._inside(self._container_of(executor), executor.process, action)

    def target(self, component: ComponentRecord) -> Target:
        """The whole container."""
        return Target(container=self._name(component))

    def executor_target(self, executor: Executor) -> Target:
        """A process inside a container."""
        return Target(executor.process, self._container_of(executor))

    def network_target(self, component: ComponentRecord) -> Target:
        """A container's connection to the stack's network."""
        return Target(container=self._name(component), network=True)

    def suspend(self, target: Target) -> bool:
        """Freeze a container, SIGSTOP a process inside one, or disconnect a container from the network."""
        if target.process is not None:
            return self._inside(target.container, target.process, "suspend") == 0
        if not target.network:
            with docker_engine.engine_errors(f"freeze {target.container}"):
                return container_freezer.freeze(self._api, target.container)
        try:
            with docker_engine.engine_errors(f"disconnect {target.container} from the network"):
                self._api.disconnect_container_from_network(target.container, self._project())
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return self.lives(target)
            raise
        return True

    def resume(self, target: Target) -> None:
        """Undo :meth:`suspend`."""
        if target.process is not None:
            self._inside(target.container, target.process, "resume")
        elif not target.network:
            self._unpause(target.container)
        elif self._project() not in self._networks(target.container):
            component = target.container.removeprefix(f"{self._project()}-")
            with docker_engine.engine_errors(f"reconnect {component} to the network"):
                self._api.connect_container_to_network(
                    target.container, self._project(), aliases=[host_name(component)]
                )

    def print_stacks(self, target: Target) -> str:
        """SIGQUIT to a JVM: the first process of a container, or one inside it."""
        if target.process is not None:
            code = self._inside(target.container, target.process, "quit")
            if code == _STOPPED:
                return f"process {target.process.pid} is suspended (SIGSTOP)"
            return "" if code == 0 else "the process is gone, or no Java"
        known = self._inspect_named(target.container)
        if known is None or not known["State"]["Running"]:
            return "its container does not run"
        if known["State"]["Paused"]:
            return "its container is frozen"
        with docker_engine.engine_errors(f"ask {target.container} for its thread stacks"):
            self._api.kill(target.container, signal="SIGQUIT")
        return ""

    def lives(self, target: Target) -> bool:
        """Whether a container, or a process inside one, exists."""
        if target.process is not None:
            return self._inside(target.container, target.process, "lives") == 0
        known = self._inspect_named(target.container)
        return known is not None and (target.network or bool(known["State"]["Running"]))

    def end_all(self, logs: Path | None) -> None:
        """Remove the stack's containers and network, and end its processes on this machine."""
        token = self._state.token()
        if token is not None:
            if logs is not None:
                self._save_logs(logs)
            remove_stack(token)
        # Last: processes in containers carry the token too, and must not be killed if the engine cannot be reached.
        end_processes(self._state)

    def wrap(self, argv: Sequence[str], folder: Path) -> list[str]:
        """The command in a new container of the stack's image."""
        record = self._state.read()
        assert record is not None, "an existing stack has a record"
        return run_in_image(self._state, record.image, argv, folder)

    def _save_logs(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for component in self._state.components():
            if text := self.log(component):
                with suppress(OSError):  # a full disk may be the reason for the end
                    (folder / f"{component.name}.log").write_text(text, encoding="utf-8")

    def _status(self, component: ComponentRecord) -> ComponentStatus:
        known = self._inspect(component)
        state = known["State"] if known is not None else {"Running": False}
        if known is None or not state["Running"]:
            return ComponentStatus(component.name, ComponentState.STOPPED, None, component.address, 0)
        component_state = ComponentState.PAUSED if state["Paused"] else ComponentState.RUNNING
        try:
            with docker_engine.engine_errors(f"measure the memory of {component.name}"):
                memory = self._api.stats(known["Id"], stream=False, one_shot=True)["memory_stats"]
        except ContainerEngineError:
            memory = {}  # it has just ended
        return ComponentStatus(
            component.name, component_state, state["Pid"], component.address, _resident_bytes(memory)
        )

    def _executors(self, app_id: str, worker: ComponentRecord) -> list[Executor]:
        known = self._inspect(worker)
        if known is None or not known["State"]["Running"] or known["State"]["Paused"]:
            return []
        try:
            code, output = self._exec(known["Id"], "list", app_id)
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return []  # it was stopped after the check above
            raise
        if code != 0:
            raise ContainerEngineError(
                f"the executors on {worker.name} cannot be listed",
                detail=output,
                hint=f"`tidemark status` shows the state of {worker.name}",
            )
        return [_executor(worker.name, **json.loads(line)) for line in output.splitlines()]

    def _inside(self, container: str, process: ProcessId, action: str) -> int:
        """Run an action on a process inside a container; returns 0, or why not: ``_GONE`` (it or its container) or
        ``_STOPPED``.
        """
        try:
            code, output = self._exec(
                container, action, str(process.pid), str(process.start_ticks), process.boot_id
            )
        except ContainerEngineError as error:
            if _is_out_of_reach(error):
                return _GONE
            raise
        if code not in (0, _GONE, _STOPPED):
            raise ContainerEngineError(
                f"the agent could not {action} process {process.pid} in {container}",
                detail=output,
                hint="`tidemark status` shows the state of the stack",
            )
        return code

    def _exec(self, container: str, *command: str) -> tuple[int, str]:
        with docker_engine.engine_errors(f"run a command in {container}"):
            return agents.run_command(
                self._api, container, [image.VENV_PYTHON, "-I", str(self._program())], command
            )

    def _program(self) -> Path:
        """The agent's program, copied to where containers see it; its name has a hash of its content."""
        content = _PROGRAM.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        program = self._state.path / "inside" / f"{_PROGRAM.stem}-{digest}.py"
        if not program.is_file():
            program.parent.mkdir(exist_ok=True)
            write_atomically(program, content)
        return program

    def _create_like_the_driver(self, component: ComponentRecord) -> None:
        """Create a private driver's container: a copy of the stack driver's, with another name, port and command."""
        with docker_engine.engine_errors(f"create a container for {component.name}"):
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
        with docker_engine.engine_errors(f"thaw {container}"):
            container_freezer.thaw(self._api, container)

    def _networks(self, container: str) -> list[str]:
        known = self._inspect_named(container)
        return list(known["NetworkSettings"]["Networks"]) if known is not None else [self._project()]

    def _inspect(self, component: ComponentRecord) -> dict[str, Any] | None:
        return self._inspect_named(self._name(component))

    def _inspect_named(self, name: str) -> dict[str, Any] | None:
        try:
            with docker_engine.engine_errors(f"inspect {name}"):
                known: dict[str, Any] = self._api.inspect_container(name)
                return known
        except ContainerEngineError as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    def _remove(self, name: str) -> None:
        try:
            with docker_engine.engine_errors(f"remove {name}"):
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
    """Write the script that a container runs: the component's command in its folder, with exactly its environment."""
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
    """Whether the container does not exist, does not run, is paused, or is being removed by another process."""
    return _is_conflict(error) or isinstance(error.__cause__, NotFound)


def _resident_bytes(memory: dict[str, Any]) -> int:
    """The memory of its processes without the page cache: ``total_rss`` of cgroups v1, ``anon`` of v2."""
    stats = memory.get("stats", {})
    return int(stats.get("total_rss", stats.get("anon", memory.get("usage", 0))))


def _seconds(engine_time: str) -> float:
    """The engine's time (RFC 3339, nanoseconds) as seconds since the epoch."""
    whole, _, rest = engine_time.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{rest or 0}")
