"""A running stack, as processes or in containers: the protocol of :mod:`tidemark.stack.api` on top of a runtime.

A :class:`RunningStack` holds nothing but the state folder and its runtime, so any number of programs may use one stack
at the same time.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from tidemark.errors import TestbedError, TidemarkError, UsageError
from tidemark.processes import ProcessId
from tidemark.stack import network_links, readiness, suspension, thread_stacks
from tidemark.stack.api import (
    DRIVER,
    PROXY,
    PROXY_TOXICS,
    REGISTRY,
    ComponentKind,
    ComponentState,
    ComponentStatus,
    Driver,
    Executor,
    LinkTraffic,
    Say,
    Toxic,
    ignored,
)
from tidemark.stack.components import launch_specs
from tidemark.stack.components.kafka_security import CLIENT_FILE
from tidemark.stack.components.names import broker_names
from tidemark.stack.components.ports import free_ports
from tidemark.stack.install.network_proxy_program import provide_network_proxy
from tidemark.stack.install.schema_registry import provide_registry
from tidemark.stack.install.toolchain import find_spark
from tidemark.stack.packet_rules import packets_of
from tidemark.stack.registry import ComponentRecord, Session, StackRecord, StateFolder, Stopped, Target
from tidemark.stack.runtime import Runtime
from tidemark.stack.secured_kafka import client_settings
from tidemark.stack.spec import StackSpec, no_proxy, no_registry

STOP_S = 5.0
"""Calibration: a component ends within 2 s of SIGTERM."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,60}")


class RunningStack:
    """A running stack; see :class:`tidemark.stack.api.Stack` for what each method promises."""

    def __init__(self, state: StateFolder, record: StackRecord, runtime: Runtime) -> None:
        self._state = state
        self._record = record
        self._runtime = runtime

    @property
    def spec(self) -> StackSpec:
        """The spec that the stack was started with."""
        return replace(self._record.spec, registry=bool(self.registry))

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address as this machine sees it."""
        return launch_specs.bootstrap_servers(self._record)

    @property
    def bootstrap_inside(self) -> str:
        """Kafka's address as driver and executors see it."""
        return launch_specs.bootstrap_inside(self._record)

    @property
    def kafka_conf(self) -> Path | None:
        """The file with the login that was made for its clients."""
        return self._state.path / CLIENT_FILE if self._record.kafka_security else None

    @property
    def kafka_conf_inside(self) -> tuple[str, list[str]] | None:
        """None: each run writes its own."""
        return None

    @property
    def registry(self) -> str:
        """The URL of its schema registry, empty if it has none."""
        component = self._state.component(REGISTRY)
        return component.address if component is not None else ""

    @property
    def proxied_registry(self) -> str:
        """The URL of its schema registry through the network proxy."""
        return launch_specs.proxied_registry(self._record) if self.registry else ""

    def start_registry(self, progress: Say = ignored) -> str:
        """Start a schema registry if there is none."""
        if self._record.backend != "local":
            raise no_registry(self._record.backend)
        with self._state.component_lock("add-registry"):
            if self._state.component(REGISTRY) is None:
                spark = find_spark(Path(self._record.python))
                jar = provide_registry(Path(self._record.java), spark, progress)
                progress("starting the schema registry")
                self._add(launch_specs.registry(self._state, self._record, jar))
        self.start(REGISTRY)
        return self.registry

    def _add(self, component: ComponentRecord) -> None:
        """Give the running stack one more component, or leave it as it was."""
        self._state.write_component(component)
        try:
            self._runtime.start([component])
            self._await_ready(component)
        except BaseException:
            self._runtime.end(component, ask_s=0)
            self._runtime.forget(component)
            self._state.forget_component(component.name)
            raise

    def start_proxy(self, progress: Say = ignored) -> str:
        """Start the network proxy if there is none."""
        if not self._record.proxy_ports:
            raise no_proxy(self._record.backend)
        with self._state.component_lock("add-proxy"):
            if self._state.component(PROXY) is None:
                program = provide_network_proxy(progress)
                self._add(launch_specs.proxy(self._state, self._record, program, free_ports(1)[0]))
        self.start(PROXY)
        return launch_specs.bootstrap_proxied(self._record)

    def watch_links(self, driver: str) -> list[str]:
        """Count what the executors of each worker exchange with the rest of a driver's application."""
        of_driver = self._state.component(driver)
        if of_driver is None or not self._runtime.runs(of_driver):
            return []
        executors = self.executors(driver)
        workers = sorted({executor.worker for executor in executors})
        for worker in workers:
            suspension.claim(self._state, worker)
            own = [executor for executor in executors if executor.worker == worker]
            others = [executor for executor in executors if executor.worker != worker]
            self._runtime.packet_links.watch(worker, of_driver, own, others)
        return workers

    def watch_broker_link(self, broker: str, kind: str) -> str:
        """Count what Spark exchanges with a broker, through the proxy or as packets."""
        if kind in PROXY_TOXICS[self._record.backend]:
            return broker
        ports = dict(
            zip(broker_names(len(self._record.kafka_ports)), self._record.proxied_ports, strict=False)
        )
        suspension.claim(self._state, packets_of(broker))
        self._runtime.packet_links.watch_broker(broker, ports.get(broker, 0))
        return packets_of(broker)

    def unwatch_links(self) -> None:
        """End that, and all disturbances of links that are packets."""
        suspension.give_back(self._state, self._runtime)

    def disturb_link(self, link: str, toxics: Sequence[Toxic]) -> None:
        """Disturb the link from Spark to a broker, or that of a worker's executors."""
        if suspension.is_of_packets(self._state, link):
            try:
                self._runtime.packet_links.disturb(link, toxics)
            except BaseException:
                self.heal_link(link)
                raise
            return
        self._component(PROXY)
        network_links.disturb(self._state, self._component(link).name, toxics)

    def heal_link(self, link: str) -> None:
        """End all disturbances of a link."""
        if suspension.is_of_packets(self._state, link):
            self._runtime.packet_links.heal(link)
        else:
            name = network_links.disturbance_name(link)
            suspension.resume(self._state, self._runtime, Target(link=link), name)

    def link_is_disturbed(self, link: str) -> bool:
        """Whether a link is disturbed at this moment."""
        if suspension.is_of_packets(self._state, link):
            return self._runtime.packet_links.is_disturbed(link)
        self._component(PROXY)
        return network_links.is_disturbed(self._state, link)

    def link_traffic(self, link: str) -> LinkTraffic:
        """What has come through a link."""
        if suspension.is_of_packets(self._state, link):
            return self._runtime.packet_links.traffic(link)
        self._component(PROXY)
        return network_links.traffic(self._state, link)

    @property
    def state_dir(self) -> Path:
        """The stack's folder."""
        return self._state.path

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the stack runs."""
        return dict(self._record.versions)

    def components(self, kind: ComponentKind | None = None) -> list[str]:
        """The names of all components, or of one kind."""
        return [component.name for component in self._state.components() if kind in (None, component.kind)]

    def status(self) -> list[ComponentStatus]:
        """The state of every component."""
        return self._runtime.statuses(self._state.components())

    def start(self, component: str, *, warm: bool = True) -> None:
        """Start a component that does not run, and wait until it is ready."""
        with self._state.component_lock(f"start-{component}"):
            record = self._component(component)
            self._state.discard("killed", component)
            if not self._runtime.runs(record):
                self._runtime.start([record])
                if record.kind is ComponentKind.DRIVER and not warm:
                    readiness.await_driver(self._runtime, record)
                else:
                    self._await_ready(record)

    def stop(self, component: str) -> None:
        """Ask a component to end; kill it if it does not. A private driver is removed from the stack."""
        record = self._end(component, ask_s=STOP_S)
        if record.owner is not None:
            self._runtime.forget(record)
            self._state.forget_component(component)

    def kill(self, component: str) -> None:
        """SIGKILL a component."""
        with suspension.kill_recorded(self._state, self._component(component)):
            self._end(component, ask_s=0)

    def pause(self, component: str) -> None:
        """Suspend a component."""
        target = self._runtime.target(self._living(component))
        suspension.suspend(self._state, self._runtime, target, f"component-{component}")

    def resume(self, component: str) -> None:
        """Resume a component."""
        target = self._runtime.target(self._living(component))
        suspension.resume(self._state, self._runtime, target, f"component-{component}")

    def partition_network(self, component: str) -> None:
        """Disconnect a component from the network."""
        target = self._runtime.network_target(self._living(component))
        suspension.suspend(self._state, self._runtime, target, f"network-{component}")

    def heal_network(self, component: str) -> None:
        """Reconnect a component to the network."""
        target = self._runtime.network_target(self._component(component))
        suspension.resume(self._state, self._runtime, target, f"network-{component}")

    def logs(self, component: str, lines: int | None = 50) -> str:
        """The last lines of a component's log; with ``None`` all of it."""
        return self._runtime.log(self._component(component), lines)

    def thread_stacks(self, driver: str) -> Mapping[str, str]:
        """What the threads of a driver and of its executors do."""
        of_driver = thread_stacks.of_component(self._runtime, self._living(driver))
        try:
            app_id, executors = self.driver(driver).app_id, self.executors(driver)
        except TidemarkError as error:
            return {"driver": of_driver, "executors": f"no thread stacks: {error.message}\n"}
        return {
            "driver": of_driver,
            **thread_stacks.of_executors(self._runtime, self._state.path, app_id, executors),
        }

    def driver(self, name: str = DRIVER) -> Driver:
        """A running driver."""
        component = self._living(name)
        event_log = _newest_event_log(self._state, name)
        if component.kind is ComponentKind.APP and event_log is None:
            return Driver(name, "", f"process-{component.process.pid if component.process else 0}", None)
        if component.kind not in (ComponentKind.DRIVER, ComponentKind.APP) or event_log is None:
            raise UsageError(
                f"{name!r} is not a driver", hint=f"the components are {', '.join(self.components())}"
            )
        app_id = event_log.name.removesuffix(".inprogress")
        return Driver(name, component.address, app_id, event_log)

    def note_application(self, driver: str, app_id: str) -> None:
        """Raises ``TestbedError``: only tidemark starts a driver of this stack."""
        raise TestbedError(
            f"{driver} has the application {app_id!r}, which this stack did not start",
            hint="`tidemark down` and `tidemark up` make a stack that is known again",
        )

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:
        """Start a private driver."""
        if not _NAME.fullmatch(name) or self._state.component(name) is not None:
            raise UsageError(
                f"a driver cannot be called {name!r}",
                detail=f"the components are {', '.join(self.components())}",
                hint="choose an unused name of lower-case letters, digits, '.', '_' and '-'",
            )
        component = launch_specs.driver(self._state, self._record, name, free_ports(1)[0], dict(conf or {}))
        component.owner = ProcessId.own()
        self._state.write_component(component)
        try:
            self._runtime.start([component])
            self._await_ready(component)
            return self.driver(name)
        except BaseException:
            self.stop(name)
            raise

    def start_app(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Driver:
        """Start a user's job."""
        component = launch_specs.app(self._state, self._record, name, argv, env)
        component.cwd = str(cwd)
        component.owner = ProcessId.own()
        self._state.write_component(component)
        self._runtime.start([component])
        return self.driver(name)

    def executors(self, driver: str) -> list[Executor]:
        """The living executors of a driver's application."""
        workers = [
            component for component in self._state.components() if component.kind is ComponentKind.WORKER
        ]
        return sorted(without_forks(self._runtime.executors(self.driver(driver).app_id, workers)))

    def kill_executor(self, driver: str, executor: Executor | str, *, with_workers: bool = False) -> Executor:
        """SIGKILL an executor."""
        executor = self._executor(driver, executor)
        self._runtime.end_executor(executor, with_workers=with_workers)
        self._state.discard("stopped", _suspension_name(executor))
        return executor

    def pause_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGSTOP an executor."""
        executor = self._executor(driver, executor)
        target = self._runtime.executor_target(executor)
        suspension.suspend(self._state, self._runtime, target, _suspension_name(executor))
        return executor

    def resume_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGCONT an executor."""
        executor = self._executor(driver, executor)
        target = self._runtime.executor_target(executor)
        suspension.resume(self._state, self._runtime, target, _suspension_name(executor))
        return executor

    def executor_state(self, executor: Executor) -> ComponentState:
        """Whether an executor runs, is paused (each suspension has a record until it is over), or is gone."""
        target = self._runtime.executor_target(executor)
        if not self._runtime.lives(target):
            return ComponentState.STOPPED
        kept = (record.target for _, record in self._state.records("stopped", Stopped))
        return ComponentState.PAUSED if target in kept else ComponentState.RUNNING

    @contextmanager
    def suspended(self, driver: str) -> Iterator[None]:
        """Suspend a driver for the length of the block."""
        target = self._runtime.target(self._living(driver))
        with suspension.suspended(self._state, self._runtime, target, driver):
            yield

    @contextmanager
    def register_session(self, session_id: str, driver: str, *, user_id: str | None = None) -> Iterator[None]:
        """Record a Connect session for the length of the block."""
        with recorded_session(self._state, session_id, self._component(driver).address, user_id):
            yield

    def work_dir(self, name: str) -> Path:
        """A folder that driver, executors and host see under the same path."""
        path = self._state.path / "work" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def repair(self) -> list[str]:
        """Start the components that do not run, but for outages of other processes; returns their names."""
        components = self._state.components()
        gone = [component for component in components if not self._runtime.runs(component)]
        if {component.kind for component in components if component not in gone} <= {
            ComponentKind.BROKER,
            ComponentKind.REGISTRY,
            ComponentKind.PROXY,
        }:
            # No worker or application that the master would recover is left: it would wait a minute for their answers.
            shutil.rmtree(self._state.path / "master" / "recovery", ignore_errors=True)
        out = suspension.killed_by_others(self._state)  # after `gone`: a kill is recorded before
        repaired = [one.name for one in gone if one.owner is None and one.name not in out]
        for name in repaired:
            self.start(name)
        return repaired

    def clean_up_orphans(self) -> None:
        """Resume what processes that have died left suspended, and end the private drivers that they owned."""
        suspension.resume_abandoned(self._state, self._runtime)
        for component in self._state.components():
            if component.owner is not None and not component.owner.alive:
                self.stop(component.name)

    def _await_ready(self, component: ComponentRecord) -> None:
        """Wait until a component that was just started is ready."""
        match component.kind:
            case ComponentKind.BROKER:
                brokers = [other for other in self._state.components() if other.kind is ComponentKind.BROKER]
                readiness.round_trip(
                    client_settings(self._state, self._record),
                    lambda: readiness.must_live(self._runtime, component),
                    brokers=sum(self._runtime.runs(broker) for broker in brokers),
                )
            case ComponentKind.REGISTRY:
                readiness.await_registry(self._runtime, component)
            case ComponentKind.PROXY:
                readiness.await_proxy(self._runtime, component)
            case ComponentKind.MASTER:
                readiness.await_master(self._runtime, component)
            case ComponentKind.WORKER:
                readiness.await_worker(self._runtime, component)
            case ComponentKind.DRIVER:
                with readiness.open_probe(self._state, self._record.python) as probe:
                    readiness.await_driver(self._runtime, component)
                    count = launch_specs.executors_of_a_driver(self._record)
                    readiness.warm_up(
                        probe,
                        component,
                        count,
                        lambda: readiness.must_live(self._runtime, component),
                    )

    def _end(self, name: str, ask_s: float) -> ComponentRecord:
        component = self._component(name)
        self._runtime.end(component, ask_s)
        self._state.discard("stopped", f"component-{name}")
        return component

    def _component(self, name: str) -> ComponentRecord:
        component = self._state.component(name)
        if component is None:
            raise UsageError(
                f"the stack has no component {name!r}",
                detail=f"its components: {', '.join(self.components()) or 'none, because it has ended'}",
                hint="`tidemark status` shows them; `tidemark up` starts a stack",
            )
        return component

    def _living(self, name: str) -> ComponentRecord:
        component = self._component(name)
        if not self._runtime.runs(component):
            raise TestbedError(
                f"the {name} does not run",
                detail=f"the end of its log:\n{self._runtime.log(component, 10)}",
                hint="`tidemark up` starts the missing components",
            )
        return component

    def _executor(self, driver: str, named: Executor | str) -> Executor:
        if isinstance(named, Executor):
            return named
        living = self.executors(driver)
        for executor in living:
            if executor.executor_id == named:
                return executor
        raise TestbedError(
            f"executor {named} of {driver} does not run",
            detail=f"living executors: {', '.join(executor.executor_id for executor in living) or 'none'}",
            hint="a killed executor is replaced by one with another id: call executors() again",
        )


def without_forks(executors: Iterable[Executor]) -> list[Executor]:
    """The oldest process of each executor id: a process that a JVM forks has the JVM's command line until its exec."""
    oldest: dict[str, Executor] = {}
    for executor in executors:
        known = oldest.setdefault(executor.executor_id, executor)
        if executor.process.start_ticks < known.process.start_ticks:
            oldest[executor.executor_id] = executor
    return list(oldest.values())


@contextmanager
def recorded_session(state: StateFolder, session_id: str, remote: str, user_id: str | None) -> Iterator[None]:
    """Record a Connect session for the length of the block; the reaper releases it if this process dies."""
    name = uuid4().hex
    user = user_id if user_id is not None else os.getenv("SPARK_USER", os.getenv("USER", ""))
    state.add("sessions", Session(session_id, user, remote, ProcessId.own()), name)
    try:
        yield
    finally:
        state.discard("sessions", name)


def _suspension_name(executor: Executor) -> str:
    return f"executor-{executor.worker}-{executor.pid}"


def _newest_event_log(state: StateFolder, driver: str) -> Path | None:
    """The event log of a driver's last start: an application id starts with its time."""
    return max((state.path / "event-logs" / driver).glob("*-*"), default=None)
