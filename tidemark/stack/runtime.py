"""How the parts of a stack are run: as processes of this machine (``processes``), or in containers (``containers``).

Free of both. A runtime knows how to do a thing to a part; what is done when, and what it means, is the same for all
(:mod:`tidemark.stack.managed`). It holds nothing that is not on disk or in the engine, so that any program may use one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tidemark.stack.api import ComponentStatus, Executor
from tidemark.stack.registry import ComponentRecord, Target


class Runtime(Protocol):
    """What a backend has to know of parts, and of executors inside of workers."""

    def start(self, components: Sequence[ComponentRecord]) -> None:
        """Start parts, and note in their records which process each is; does not wait for them to be up."""

    def runs(self, component: ComponentRecord) -> bool:
        """Whether a part runs or is paused."""

    def statuses(self, components: Sequence[ComponentRecord]) -> list[ComponentStatus]:
        """The state of parts."""

    def end(self, component: ComponentRecord, ask_s: float) -> None:
        """Ask a part to end, kill it if it lives ``ask_s`` later, and wait until it is gone; 0 kills at once."""

    def forget(self, component: ComponentRecord) -> None:
        """Remove what is left of a part that has ended."""

    def log(self, component: ComponentRecord, lines: int | None = None, *, since_start: bool = False) -> str:
        """The end of a part's log: the last ``lines``, or all; of its last start only, if so wished."""

    def serves(self, component: ComponentRecord) -> bool:
        """Whether a driver takes connections at its address; raises ``DaemonDied`` if somebody else does.

        A driver that cannot have its port does not end by itself.
        """

    def executors(self, app_id: str, workers: Sequence[ComponentRecord]) -> list[Executor]:
        """The living executors of an application on these workers, in any order.

        Also what one is just starting, which is not one: it has the command line of its parent until it executes its
        own.
        """

    def end_executor(self, executor: Executor) -> None:
        """SIGKILL an executor, and wait until it is gone."""

    def wrap(self, argv: Sequence[str], folder: Path) -> list[str]:
        """The command that runs another where the stack's JVMs run, with this folder in sight."""

    def target(self, component: ComponentRecord) -> Target:
        """What is stopped when a part is."""

    def executor_target(self, executor: Executor) -> Target:
        """What is stopped when an executor is."""

    def network_target(self, component: ComponentRecord) -> Target:
        """What is cut off when a part is; raises ``UsageError`` where there is no network to cut it off."""

    def suspend(self, target: Target) -> bool:
        """Stop (or cut off) a target, and wait until it is; ``False`` if it does not live."""

    def resume(self, target: Target) -> None:
        """Let a target go on; nothing happens to one that goes on, or is gone."""

    def lives(self, target: Target) -> bool:
        """Whether a target exists, stopped or not."""

    def end_all(self, logs: Path | None) -> None:
        """End everything that carries the stack's token; first put logs that are not files into the folder ``logs``."""
