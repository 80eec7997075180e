"""The protocol of a runtime: how one backend starts, signals and inspects the components of a stack.

``local.process_runtime`` and ``compose.container_runtime`` implement it. When each operation is used is the same for
both (:mod:`tidemark.stack.running_stack`). A runtime keeps no state of its own: everything is on disk or in the
container engine, so any number of programs may each have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tidemark.stack.api import ComponentStatus, Executor, LinkTraffic, Toxic
from tidemark.stack.registry import ComponentRecord, Target


class PacketLinks(Protocol):
    """Links that are counted and disturbed as packets: of the executors of a worker, or of a broker.

    The first is what executors of a driver exchange with the driver, and with the executors of other workers; its name
    is that of the worker. The second is what driver and executors exchange with a broker
    (:func:`tidemark.stack.packet_rules.packets_of`).
    """

    def watch(
        self, worker: str, driver: ComponentRecord, own: Sequence[Executor], others: Sequence[Executor]
    ) -> None:
        """Count what the executors ``own`` of a worker exchange; a link that is watched already goes on counting."""

    def watch_broker(self, broker: str, port: int) -> None:
        """Count what Spark's clients of Kafka send to a broker, and what it answers.

        ``port`` is that at which it listens for the network proxy, 0 where there is none.
        """

    def forget(self, link: str) -> None:
        """End that, and all disturbances; nothing to do for a link that is not watched."""

    def disturb(self, link: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a watched link: ``timeout``, ``reset_peer``, ``loss`` or ``bandwidth`` of one stream or both.

        An error may leave it disturbed in part: the caller heals it.
        """

    def heal(self, link: str) -> None:
        """End all disturbances of a watched link, and go on counting."""

    def is_disturbed(self, link: str) -> bool:
        """Whether a watched link is disturbed."""

    def traffic(self, link: str) -> LinkTraffic:
        """Both streams since the link is watched."""


class Runtime(Protocol):
    """Operations on components, and on the executors inside workers."""

    @property
    def packet_links(self) -> PacketLinks:
        """The links of the executors of each worker."""

    def start(self, components: Sequence[ComponentRecord]) -> None:
        """Start components and record the process of each; does not wait until they are ready."""

    def runs(self, component: ComponentRecord) -> bool:
        """Whether a component runs or is paused."""

    def statuses(self, components: Sequence[ComponentRecord]) -> list[ComponentStatus]:
        """The states of components."""

    def end(self, component: ComponentRecord, ask_s: float) -> None:
        """Ask a component to end, kill it if it still lives after ``ask_s`` seconds, and wait until it is gone.

        ``ask_s=0`` kills at once.
        """

    def forget(self, component: ComponentRecord) -> None:
        """Remove what a component that has ended left behind."""

    def log(self, component: ComponentRecord, lines: int | None = None, *, since_start: bool = False) -> str:
        """A component's log: the last ``lines`` or everything, optionally only since its last start."""

    def serves(self, component: ComponentRecord) -> bool:
        """Whether a driver accepts connections; raises ``DaemonDied`` if another program has taken its port.

        A driver that cannot bind its port does not end by itself.
        """

    def executors(self, app_id: str, workers: Sequence[ComponentRecord]) -> list[Executor]:
        """The living executors of an application on these workers, in any order.

        May include a process that an executor has just forked: until it executes its own program it has its parent's
        command line.
        """

    def end_executor(self, executor: Executor, *, with_workers: bool) -> None:
        """SIGKILL an executor, with or without its Python workers, and wait until it is gone."""

    def wrap(self, argv: Sequence[str], folder: Path) -> list[str]:
        """The command that runs ``argv`` where the stack's JVMs run, with access to ``folder``."""

    def target(self, component: ComponentRecord) -> Target:
        """What to suspend for a component."""

    def executor_target(self, executor: Executor) -> Target:
        """What to suspend for an executor."""

    def network_target(self, component: ComponentRecord) -> Target:
        """What to disconnect for a network partition; raises ``UsageError`` where there is no container network."""

    def suspend(self, target: Target) -> bool:
        """Suspend (or disconnect) a target and wait until it is; ``False`` if it does not run."""

    def resume(self, target: Target) -> None:
        """Resume (or reconnect) a target; does nothing to one that runs already or is gone."""

    def print_stacks(self, target: Target) -> str:
        """Have a JVM print its thread stacks to its standard output (SIGQUIT); says why it cannot, if so."""

    def lives(self, target: Target) -> bool:
        """Whether a target exists, suspended or not."""

    def end_all(self, logs: Path | None) -> None:
        """End everything that carries the stack's token; first save logs that are not files in the folder ``logs``."""
