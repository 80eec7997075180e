"""The backends: what each provides before a stack can start, and the runtime of a stack that exists.

:func:`backend_of` finds the backend of a spec, :func:`runtime_of` the runtime of a stack. Both are cheap, because a
warm ``tidemark up`` calls them; the container modules are imported only for a stack in containers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tidemark.stack.api import Say
from tidemark.stack.install.toolchain import Spark
from tidemark.stack.local.local_backend import LocalBackend
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import StackRecord, StateFolder, Supplies
from tidemark.stack.runtime import Runtime
from tidemark.stack.spec import StackSpec


class Backend(Protocol):
    """How one kind of stack is prepared."""

    spec: StackSpec
    spark: Spark

    def identity(self) -> Iterable[object]:
        """What a stack of this spec depends on besides its launch specs; a part of its fingerprint."""

    def provide(self, say: Say) -> Supplies:
        """Everything that a stack needs except ports, fetched or built if missing."""

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """Choose ports and return the record of the stack to start."""


def backend_of(spec: StackSpec, home: Path) -> Backend:
    """The backend for a spec; raises ``TidemarkError`` if this machine does not support it."""
    if spec.backend == "local":
        return LocalBackend(spec)
    from tidemark.stack.compose.compose_backend import ComposeBackend

    return ComposeBackend(spec, home)


def runtime_of(state: StateFolder, backend: str) -> Runtime:
    """The runtime of a stack, or of the remains of one."""
    if backend == "compose":
        from tidemark.stack.compose.container_runtime import ContainerRuntime

        return ContainerRuntime(state)
    return ProcessRuntime(state)
