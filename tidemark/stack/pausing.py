"""Stopping a process for a while (SIGSTOP), in a way that survives the death of whoever stopped it.

Before the signal a record says who stops whom; the record goes after SIGCONT. A record whose owner is dead is undone by
the keeper, and by whoever leases the stack next.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.errors import DaemonDied
from tidemark.process import ProcessId
from tidemark.stack.state import StateFolder, Stopped
from tidemark.wait import wait_until

STOPPED_S = 60.0
"""Calibration: the kernel stops a process within milliseconds; a thread in the middle of disk I/O is waited for."""


def pause_process(state: StateFolder, target: ProcessId, name: str) -> None:
    """Stop a process and wait until it is stopped; ``name`` is what it is known by for :func:`resume_process`."""
    state.add("stopped", Stopped(target, ProcessId.own()), name)
    if not target.signal(signal.SIGSTOP):
        resume_process(state, target, name)
        raise DaemonDied(
            f"{name} cannot be paused", detail=f"process {target.pid} does not run", hint="start it first"
        )
    wait_until(
        lambda: target.paused or not target.alive, STOPPED_S, lambda: f"{name} to be stopped", poll_s=0.001
    )


def resume_process(state: StateFolder, target: ProcessId, name: str) -> None:
    """Let a process go on, unless somebody else has stopped it too."""
    state.discard("stopped", name)
    if all(record.target != target for _, record in state.records("stopped", Stopped)):
        target.signal(signal.SIGCONT)


def resume_the_abandoned(state: StateFolder) -> None:
    """Let go on what was stopped by processes that have died."""
    for path, record in state.records("stopped", Stopped):
        if not record.owner.alive or not record.target.alive:
            resume_process(state, record.target, path.stem)


@contextmanager
def held(state: StateFolder, target: ProcessId, name: str) -> Iterator[None]:
    """Stop a process for the length of the block; one holder of ``name`` at a time."""
    with state.part_lock(f"hold-{name}"):
        pause_process(state, target, f"hold-{name}")
        try:
            yield
        finally:
            resume_process(state, target, f"hold-{name}")
