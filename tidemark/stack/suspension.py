"""Stopping something for a while (SIGSTOP, a frozen container, a cut network), so that it survives who stopped it.

Before it happens a record says who stops what; the record goes when it goes on. A record whose owner is dead is undone
by the reaper, and by whoever leases the stack next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.errors import DaemonDied
from tidemark.processes import ProcessId
from tidemark.stack.registry import StateFolder, Stopped, Target
from tidemark.stack.runtime import Runtime


def stop(state: StateFolder, runtime: Runtime, target: Target, name: str) -> None:
    """Stop a target and wait until it is; ``name`` is what it is known by for :func:`go_on`."""
    suspended = False
    try:
        with _turn(state, target):
            state.add("stopped", Stopped(target, ProcessId.own()), name)
            suspended = runtime.suspend(target)
    finally:
        if not suspended:
            resume(state, runtime, target, name)
    if not suspended:
        raise DaemonDied(f"{name} cannot be paused", detail="it does not run", hint="start it first")


def resume(state: StateFolder, runtime: Runtime, target: Target, name: str) -> None:
    """Let a target go on, unless somebody else has stopped it too.

    It is noted as stopped until it goes on: where that fails (the container engine is down) it is tried again.
    """
    with _turn(state, target):
        others = [record for path, record in state.records("stopped", Stopped) if path.stem != name]
        if all(record.target != target for record in others):
            runtime.resume(target)
        state.discard("stopped", name)


@contextmanager
def _turn(state: StateFolder, target: Target) -> Iterator[None]:
    """One at a time: who looked and saw nobody else would let go on what was stopped a moment later."""
    if not state.path.is_dir():  # the stack is gone, and with it all who could be in the way
        yield
        return
    with state.component_lock(f"stopped-{target.container or (target.process.pid if target.process else 0)}"):
        yield


def resume_abandoned(state: StateFolder, runtime: Runtime) -> None:
    """Let go on what was stopped by processes that have died."""
    for path, record in state.records("stopped", Stopped):
        if not record.owner.alive or not runtime.lives(record.target):
            resume(state, runtime, record.target, path.stem)


@contextmanager
def suspended(state: StateFolder, runtime: Runtime, target: Target, name: str) -> Iterator[None]:
    """Stop a target for the length of the block; one holder of ``name`` at a time."""
    with state.component_lock(f"hold-{name}"):
        stop(state, runtime, target, f"hold-{name}")
        try:
            yield
        finally:
            resume(state, runtime, target, f"hold-{name}")
