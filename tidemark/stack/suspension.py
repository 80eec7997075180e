"""Suspending a target (SIGSTOP, a frozen container, a network partition) so that it never stays suspended.

A record of the target and its owner is written before it is suspended, and removed after it is resumed. If the owner
has died, the reaper resumes the target, and so does the next lease of the stack.

A component that is killed for a time has such a record, too: until it is started again, or its owner has died or has
given back its lease, no other process repairs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.errors import DaemonDied, TestbedError
from tidemark.processes import ProcessId
from tidemark.stack import network_links
from tidemark.stack.api import ComponentKind
from tidemark.stack.packet_rules import broker_of
from tidemark.stack.registry import ComponentRecord, Lease, StateFolder, Stopped, Target
from tidemark.stack.runtime import Runtime

OUT_FOR_A_TIME = (ComponentKind.BROKER, ComponentKind.MASTER, ComponentKind.WORKER)
"""Components whose kill begins an outage. A driver that was killed is started again at once."""


def suspend(state: StateFolder, runtime: Runtime, target: Target, name: str) -> None:
    """Suspend a target and wait until it is; ``name`` identifies the suspension for :func:`resume`.

    Raises ``DaemonDied`` if the target does not run.
    """
    suspended = False
    try:
        with _target_lock(state, target):
            state.add("stopped", Stopped(target, ProcessId.own()), name)
            suspended = runtime.suspend(target)
    finally:
        if not suspended:
            resume(state, runtime, target, name)
    if not suspended:
        raise DaemonDied(f"{name} cannot be suspended", detail="it does not run", hint="start it first")


def resume(state: StateFolder, runtime: Runtime, target: Target, name: str) -> None:
    """Resume a target, unless it is also suspended under another name.

    The record is removed last: if resuming fails (the container engine is down), the reaper retries it.
    """
    with _target_lock(state, target):
        others = [record for path, record in state.records("stopped", Stopped) if path.stem != name]
        if target.link and not is_of_packets(state, target.link):
            network_links.heal(state, target.link, name)  # of others nothing
        elif all(record.target != target for record in others):
            if target.link:
                runtime.packet_links.forget(target.link)
            else:
                runtime.resume(target)
        state.discard("stopped", name)


def is_of_packets(state: StateFolder, link: str) -> bool:
    """Whether a link is watched as packets, of a worker's executors or of a broker; else it is one of the proxy."""
    if broker_of(link):
        return True
    component = state.component(link)
    return component is not None and component.kind is ComponentKind.WORKER


def claim(state: StateFolder, link: str) -> None:
    """Leave word that this process watches a link, which is healed if it dies.

    Raises ``TestbedError`` if another process that lives does.
    """
    name = network_links.suspension_name(link)
    with _target_lock(state, Target(link=link)):
        for path, record in state.records("stopped", Stopped):
            if path.stem == name and record.owner != ProcessId.own() and record.owner.alive:
                raise TestbedError(
                    f"{name} is used by another process of this stack: {record.owner.pid}",
                    hint="run one after the other, or each on a stack of its own",
                )
        state.add("stopped", Stopped(Target(link=link), ProcessId.own()), name)


def give_back(state: StateFolder, runtime: Runtime) -> None:
    """End what this process watches as packets."""
    for path, record in state.records("stopped", Stopped):
        if (
            record.owner == ProcessId.own()
            and record.target.link
            and is_of_packets(state, record.target.link)
        ):
            resume(state, runtime, record.target, path.stem)


@contextmanager
def _target_lock(state: StateFolder, target: Target) -> Iterator[None]:
    """One process at a time: a target must not be suspended between the check of its records and its resumption."""
    if not state.path.is_dir():  # the stack is gone, and its locks too
        yield
        return
    name = target.container or target.link or (target.process.pid if target.process else 0)
    with state.component_lock(f"stopped-{name}"):
        yield


def resume_abandoned(state: StateFolder, runtime: Runtime) -> None:
    """Resume what processes that have died left suspended."""
    for path, record in state.records("stopped", Stopped):
        link = record.target.link
        lives = (
            is_of_packets(state, link) or network_links.is_there(state)
            if link
            else runtime.lives(record.target)
        )
        if not record.owner.alive or not lives:
            resume(state, runtime, record.target, path.stem)


@contextmanager
def suspended(state: StateFolder, runtime: Runtime, target: Target, name: str) -> Iterator[None]:
    """Suspend a target for the length of the block; a second caller with the same ``name`` waits."""
    with state.component_lock(f"suspend-{name}"):
        suspend(state, runtime, target, f"suspend-{name}")
        try:
            yield
        finally:
            resume(state, runtime, target, f"suspend-{name}")


@contextmanager
def kill_recorded(state: StateFolder, component: ComponentRecord) -> Iterator[None]:
    """Record that this process kills a component in the block; what starts the component again removes the record."""
    if component.kind in OUT_FOR_A_TIME:
        state.add("killed", Lease(ProcessId.own()), component.name)
    try:
        yield
    except BaseException:
        state.discard("killed", component.name)
        raise


def killed_by_others(state: StateFolder) -> dict[str, ProcessId]:
    """The components that other processes which use the stack have killed, and are going to start again."""
    users = [owner for owner in state.lease_owners() if owner != ProcessId.own()]
    killed = state.records("killed", Lease)
    return {path.stem: record.owner for path, record in killed if record.owner in users}
