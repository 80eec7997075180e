"""The protocol that every backend implements: ``start stop kill pause resume logs status`` of named components.

Free of any backend. Components are named ``broker`` (of three also ``broker-2`` and ``broker-3``), ``master``,
``worker-1`` …, ``driver``, and ``registry`` where one was asked for; a private driver is named by its caller. A
component keeps its name and its address over a restart. An operation that a backend does not support raises
``UsageError``; :data:`POWERS` lists what each supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from tidemark.processes import ProcessId
from tidemark.stack.spec import StackSpec

Say = Callable[[str], None]
"""Takes one line of progress for the user."""
DRIVER = "driver"
"""The driver that every stack has, shared by its users."""
REGISTRY = "registry"
"""The schema registry of a stack that was asked for one."""
SINK_STEPS_FOLDER = "sink-steps"
"""The name of the folder (``work_dir``) in which tasks of the exactly-once sink are asked to wait at a step."""
PROXY = "proxy"
"""The network proxy of a stack, through which Spark reaches Kafka where a schedule has faults of that network."""

POWERS: dict[str, frozenset[str]] = {
    "local": frozenset({"processes", "packets"}),
    "compose": frozenset({"processes", "network", "packets"}),
    "external": frozenset(),
}
"""Backend -> operations on its components: ``processes`` (start, stop, kill, pause), ``network`` (partition, heal),
``packets`` (of links are counted, cut and lost)."""

PROXY_TOXICS: dict[str, frozenset[str]] = {
    "local": frozenset({"timeout", "reset_peer", "latency", "bandwidth"}),
    "compose": frozenset({"latency", "bandwidth"}),
    "external": frozenset(),
}
"""Backend -> the kinds of toxics (:class:`Toxic`) that the network proxy puts into the link of a broker; the packet
filter does the others."""


def ignored(_text: str) -> None:
    """Discards progress messages; the default."""


class ComponentKind(StrEnum):
    """What a component is, in the order in which a stack starts and lists components.

    Its name does not tell: the name of a private driver is its caller's choice.
    """

    BROKER = "broker"
    REGISTRY = "registry"
    """A schema registry, only where one is asked for."""
    PROXY = "proxy"
    """The network proxy, only where one is asked for."""
    MASTER = "master"
    WORKER = "worker"
    DRIVER = "driver"
    APP = "app"
    """A user's job with a driver of its own."""


class ComponentState(StrEnum):
    """Whether a component runs."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ComponentStatus:
    """One line of ``tidemark status``. ``rss_bytes`` is the resident memory of the component and of its executors.

    ``pid`` is its process id on the machine that runs it; for a container, that of its first process.
    """

    name: str
    state: ComponentState
    pid: int | None
    address: str
    rss_bytes: int


@dataclass(frozen=True)
class Driver:
    """A running driver: its Spark Connect address, its application id, and the event log that it appends to.

    ``event_log`` is ``None`` where this machine cannot read one.
    """

    name: str
    remote: str
    app_id: str
    event_log: Path | None


@dataclass(frozen=True, order=True)
class Executor:
    """A living executor of one driver's application.

    ``process`` is its id on this machine, or inside the container that its worker runs in.
    """

    executor_id: str
    worker: str
    process: ProcessId

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid


@dataclass(frozen=True)
class Toxic:
    """A disturbance of one direction of a link, in Toxiproxy's words: its type and its attributes."""

    kind: str
    stream: str
    """:data:`REQUESTS` or :data:`RESPONSES`."""
    attributes: Mapping[str, int | str]


REQUESTS, RESPONSES = "upstream", "downstream"
"""The directions of a link: from Spark to the broker, and back."""


@dataclass(frozen=True)
class StreamTraffic:
    """What one direction of a link has seen: bytes that arrived at the proxy, and bytes that it passed on.

    The sums have each byte's time (seconds since the proxy's start), from which :func:`held_ms` comes. Of a link
    without a proxy, an executor's, bytes are those of packets, their times are not known, and ``queued`` is how often
    packets had to wait since it is throttled.
    """

    received: int = 0
    received_byte_s: float = 0.0
    passed: int = 0
    passed_byte_s: float = 0.0
    queued: int = 0


@dataclass(frozen=True)
class LinkTraffic:
    """Both directions of a link at one moment, ``at_s`` seconds after the proxy's start."""

    at_s: float
    streams: Mapping[str, StreamTraffic]


class Stack(Protocol):
    """A running stack: broker, Spark master, workers, driver."""

    @property
    def spec(self) -> StackSpec:
        """The spec that the stack was started with."""

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address as this machine sees it."""

    @property
    def bootstrap_inside(self) -> str:
        """Kafka's address as driver and executors see it."""

    @property
    def kafka_conf(self) -> Path | None:
        """The file with the login of Kafka's clients on this machine; ``None`` if the brokers want none."""

    @property
    def kafka_conf_inside(self) -> tuple[str, list[str]] | None:
        """A file with that login as driver and executors see it, if there is one, and the names of its settings."""

    @property
    def registry(self) -> str:
        """The URL of its schema registry (Confluent's API), as this machine sees it; empty if it has none."""

    @property
    def proxied_registry(self) -> str:
        """The same through the network proxy, where the stack has started one; empty if it has no registry."""

    def start_registry(self, progress: Say = ignored) -> str:
        """Start a schema registry if there is none, wait until it answers, and return its URL.

        It lives as long as the stack, and keeps its schemas in memory.
        """

    def start_proxy(self, progress: Say = ignored) -> str:
        """Start the network proxy if there is none; returns Kafka's address through it, as driver and executors see it.

        It lives as long as the stack. Raises ``UsageError`` where there can be none.
        """

    def watch_links(self, driver: str) -> list[str]:
        """Count what executors exchange with their driver and with those of other workers.

        Returns the names of the links: those of the workers that run executors of the driver, none if it does not run.
        A driver or an executor that is started later is not known to them until this is called again; what is counted
        and disturbed goes on.
        Raises ``UsageError`` where packets cannot be told apart, ``TestbedError`` if another process watches them.
        """

    def watch_broker_link(self, broker: str, kind: str) -> str:
        """Count what Spark exchanges with a broker; returns the name of the link that takes toxics of a kind.

        That of the network proxy (``PROXY_TOXICS``) counts since it was started. Another counts packets from now on:
        those between the proxy and the broker, in containers those between the broker and all but brokers and this
        machine. Of a broker that was started again this has to be called again.
        Raises ``UsageError`` where packets cannot be told apart, ``TestbedError`` if another process watches them.
        """

    def unwatch_links(self) -> None:
        """End what this process has begun with these two, and all disturbances of links that it counts as packets."""

    def disturb_link(self, link: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a link from Spark to a broker, through the network proxy or watched as packets; or one of a worker,
        or that to the schema registry (``registry``).

        It is healed by :meth:`heal_link`, or after the process that disturbed it has died.
        """

    def heal_link(self, link: str) -> None:
        """End all disturbances of a link. Connections to a broker that a cut had silenced are closed then."""

    def link_is_disturbed(self, link: str) -> bool:
        """Whether a link is disturbed at this moment."""

    def link_traffic(self, link: str) -> LinkTraffic:
        """What has come through a link: since the network proxy was started, or since the link is watched."""

    @property
    def state_dir(self) -> Path:
        """The stack's folder: logs, data, event logs, work. It is removed with the stack."""

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the stack runs: ``java kafka spark connector python``."""

    def components(self, kind: ComponentKind | None = None) -> list[str]:
        """The names of all components, or of one kind; private drivers come last."""

    def status(self) -> list[ComponentStatus]:
        """The state of every component; does not wait."""

    def repair(self) -> list[str]:
        """Start the components that do not run; returns their names.

        A broker, master or worker that another process has killed is left to it while it holds a lease of the stack.
        """

    def start(self, component: str, *, warm: bool = True) -> None:
        """Start a component that does not run, and wait until it is ready. Does nothing to one that runs.

        ``warm=False``: a driver is ready as soon as it serves, without a first job on each executor.
        """

    def stop(self, component: str) -> None:
        """Ask a component to end; kill it if it does not. A private driver is removed from the stack."""

    def kill(self, component: str) -> None:
        """SIGKILL a component and wait until it is gone. :meth:`start` starts it again, a private driver too."""

    def pause(self, component: str) -> None:
        """SIGSTOP a component; of a container all processes, so also a worker's executors.

        It is resumed by :meth:`resume`, or after the process that paused it has died.
        """

    def resume(self, component: str) -> None:
        """SIGCONT a component."""

    def partition_network(self, component: str) -> None:
        """Disconnect a component from the network; its process keeps running.

        It is reconnected by :meth:`heal_network`, or after the process that disconnected it has died.
        """

    def heal_network(self, component: str) -> None:
        """Reconnect a component to the network, at its former address."""

    def logs(self, component: str, lines: int | None = 50) -> str:
        """The last lines of a component's log; with ``None`` all of it."""

    def thread_stacks(self, driver: str) -> Mapping[str, str]:
        """What the threads of a driver and of its executors do, as text by ``driver`` and ``executor-ID``.

        Of a process that prints nothing, because it is suspended, say, the text says so. Empty where the processes
        belong to somebody else.
        """

    def driver(self, name: str = DRIVER) -> Driver:
        """A running driver; raises ``UsageError`` if there is none of that name."""

    def note_application(self, driver: str, app_id: str) -> None:
        """Record the id of a driver's current Spark application, after its operator has restarted the driver."""

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:
        """Start a private driver and wait until it serves and has its executors; it ends with its owner."""

    def start_app(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Driver:
        """Start a program with a driver of its own, and do not wait; it ends with its owner, as a private driver does.

        Settings with which it finds master, Kafka connector and event log are in its ``SPARK_CONF_DIR``.
        """

    def executors(self, driver: str) -> list[Executor]:
        """The living executors of a driver's application, sorted by id, worker and process.

        The next three methods take one of them, or an executor id, which costs another listing.
        """

    def kill_executor(self, driver: str, executor: Executor | str, *, with_workers: bool = False) -> Executor:
        """SIGKILL an executor and return it. The Spark master replaces it.

        Its Python workers end by themselves, once they have done what they can do alone; ``with_workers`` kills them,
        too, as if their machine were lost.
        """

    def pause_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGSTOP an executor."""

    def resume_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGCONT an executor."""

    def executor_state(self, executor: Executor) -> ComponentState:
        """Whether an executor runs, is paused, or is gone; its driver may be gone."""

    def suspended(self, driver: str) -> AbstractContextManager[None]:
        """Suspend a driver for the length of the block; a second caller waits for the first.

        The driver is resumed at exit, or after the process that suspended it has died.
        """

    def register_session(
        self, session_id: str, driver: str, *, user_id: str | None = None
    ) -> AbstractContextManager[None]:
        """Record a Connect session: if this process dies, the reaper releases it, which stops its queries.

        ``user_id`` is the session's user; by default the one that PySpark's client chooses.
        """

    def work_dir(self, name: str) -> Path:
        """A folder for checkpoints, created if missing, that driver, executors and host see under the same path."""
