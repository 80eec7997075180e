"""What the backends have to have before a stack can be started, and how they plan it.

A backend is found for a spec by :func:`backend_of`, the runtime of a stack that is there by :func:`runtime_of`. Finding
is cheap: a warm ``tidemark up`` passes through here, and nothing of containers is imported for a stack of processes.
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
    """How stacks of a kind are made ready."""

    spec: StackSpec
    spark: Spark

    def identity(self) -> Iterable[object]:
        """What a stack of this spec depends on besides its launch specs: another one is another stack."""

    def provide(self, say: Say) -> Supplies:
        """Have everything that a stack needs, fetched or built if need be. Ports are not chosen yet."""

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """Choose ports and say what the stack will be."""


def backend_of(spec: StackSpec, home: Path) -> Backend:
    """The backend for a spec; raises ``TidemarkError`` if this machine cannot have it."""
    if spec.backend == "local":
        return LocalBackend(spec)
    from tidemark.stack.compose.compose_backend import ComposeBackend

    return ComposeBackend(spec, home)


def runtime_of(state: StateFolder, backend: str) -> Runtime:
    """The runtime of a stack, or of what is left of one."""
    if backend == "compose":
        from tidemark.stack.compose.container_runtime import ContainerRuntime

        return ContainerRuntime(state)
    return ProcessRuntime(state)
