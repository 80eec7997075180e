"""The protocol that every backend speaks: one vocabulary, ``start stop kill pause resume logs status``.

Free of any backend. Parts are named ``broker`` (with three: ``broker-2`` and ``broker-3`` besides), ``master``,
``worker-1`` …, ``driver``, and as the caller likes for drivers of one's own. A part keeps its name and its address
over a restart. What a backend cannot do it refuses with ``UsageError``; :data:`POWERS` says which can do what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from tidemark.processes import ProcessId
from tidemark.stack.spec import StackSpec

Say = Callable[[str], None]
"""Takes one line of progress, for people."""
DRIVER = "driver"
"""The driver that every stack has, for all."""

POWERS: dict[str, frozenset[str]] = {
    "local": frozenset({"processes"}),
    "compose": frozenset({"processes", "network"}),
    "external": frozenset(),
}
"""Backend -> what can be done to its parts: ``processes`` (start, stop, kill, pause), ``network`` (cut off)."""


class ComponentKind(StrEnum):
    """What a component is, whatever it is called: the name of a driver of one's own is its caller's choice.

    In the order in which a stack starts and lists them.
    """

    BROKER = "broker"
    MASTER = "master"
    WORKER = "worker"
    DRIVER = "driver"


class ComponentState(StrEnum):
    """What a part does."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ComponentStatus:
    """One line of ``tidemark status``. ``rss_bytes`` is resident memory of the part and of its executors.

    ``pid`` is its process on the machine that runs it; for a container, that of its first process.
    """

    name: str
    state: ComponentState
    pid: int | None
    address: str
    rss_bytes: int


@dataclass(frozen=True)
class Driver:
    """A running driver: its Spark Connect address, its application, and the event log (being appended).

    ``event_log`` is ``None`` where this machine cannot see one.
    """

    name: str
    remote: str
    app_id: str
    event_log: Path | None


@dataclass(frozen=True, order=True)
class Executor:
    """A living executor of one driver's application.

    ``process`` is that of the machine or of the container which its worker runs in.
    """

    executor_id: str
    worker: str
    process: ProcessId

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.pid


class Stack(Protocol):
    """A running stack: broker, Spark master, workers, driver."""

    @property
    def spec(self) -> StackSpec:
        """What the stack was asked to be."""

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address as this machine sees it."""

    @property
    def bootstrap_inside(self) -> str:
        """Kafka's address as driver and executors see it."""

    @property
    def state_dir(self) -> Path:
        """The folder that holds all of the stack: logs, data, event logs, work. It is removed with the stack."""

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs: ``java kafka spark connector python``."""

    def components(self, kind: ComponentKind | None = None) -> list[str]:
        """The names of all parts, or of those of one kind; drivers of one's own last."""

    def status(self) -> list[ComponentStatus]:
        """The state of every part, without waiting for any."""

    def repair(self) -> list[str]:
        """Start the parts of the stack that do not run; returns their names."""

    def start(self, component: str, *, warm: bool = True) -> None:
        """Start a part that does not run, and wait until it does its work. Nothing happens to one that runs.

        ``warm=False``: a driver is there as soon as it serves, and not only after a first job on each executor.
        """

    def stop(self, component: str) -> None:
        """Ask a part to end, kill it if it does not. A driver of one's own is forgotten."""

    def kill(self, component: str) -> None:
        """SIGKILL, and wait until it is gone. :meth:`start` brings it back, a driver of one's own too."""

    def pause(self, component: str) -> None:
        """SIGSTOP; a container with all in it, a worker's executors too.

        Undone by :meth:`resume`, and when the process that paused it has died.
        """

    def resume(self, component: str) -> None:
        """SIGCONT."""

    def partition_network(self, component: str) -> None:
        """Take a part off the network; its process goes on. Undone by :meth:`reconnect`, as a pause is."""

    def heal_network(self, component: str) -> None:
        """Bring a part back to the network, at its address."""

    def logs(self, component: str, lines: int | None = 50) -> str:
        """The end of a part's log; with ``None`` all of it."""

    def driver(self, name: str = DRIVER) -> Driver:
        """A driver that runs; raises ``UsageError`` if there is none of that name."""

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:
        """Start a driver of one's own and wait until it answers and has its executors."""

    def executors(self, driver: str) -> list[Executor]:
        """The living executors of a driver's application, sorted: by id, worker and process.

        One of them is what the next three take; or its id, and then it is looked for first, which takes a moment.
        """

    def kill_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGKILL an executor; returns who it was. The cluster starts another by itself."""

    def pause_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGSTOP an executor."""

    def resume_executor(self, driver: str, executor: Executor | str) -> Executor:
        """SIGCONT an executor."""

    def suspended(self, driver: str) -> AbstractContextManager[None]:
        """Stop a driver for a moment, one holder at a time; it goes on at exit, or when the holder has died."""

    def register_session(
        self, session_id: str, driver: str, *, user_id: str | None = None
    ) -> AbstractContextManager[None]:
        """Note a Connect session, so that its queries are ended should this process die without doing so.

        ``user_id`` is the session's; if not said, the one that PySpark's client takes by itself.
        """

    def work_dir(self, name: str) -> Path:
        """A folder, made if need be, that driver, executors and host see under the same path (checkpoints)."""
