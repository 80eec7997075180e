"""Who uses the stack, and how one gets it: found if it is the one asked for, mended if parts are missing, else rebuilt.

``up`` makes a stack that lives until ``down``. A lease uses a stack, or starts one that dies with its last lease, even
if the holder of that lease was killed: the reaper sees to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tidemark import paths
from tidemark.errors import TestbedError
from tidemark.processes import ProcessId
from tidemark.stack import cold_start
from tidemark.stack.api import Say
from tidemark.stack.backends import Backend, backend_of, runtime_of
from tidemark.stack.external_stack import ExternalStack, check_and_describe
from tidemark.stack.fingerprint import digest_of
from tidemark.stack.registry import Lease, StackRecord, StateFolder
from tidemark.stack.running_stack import RunningStack
from tidemark.stack.spec import StackSpec

AnyStack = RunningStack | ExternalStack


def quiet(_text: str) -> None:
    """Progress that nobody wants to see."""


def up(spec: StackSpec, *, progress: Say = quiet, home: Path | None = None) -> AnyStack:
    """A stack that lives until :func:`down`: the running one if it is the same, else a new one."""
    state = StateFolder(home or paths.state_dir())
    with state.lock():
        return _acquire(state, spec, progress, keep=True)


def down(*, home: Path | None = None) -> bool:
    """End the stack, whoever uses it; ``False`` if there was none."""
    state = StateFolder(home or paths.state_dir())
    if not state.home.is_dir():
        return False
    with state.lock():
        there = state.path.exists()
        cold_start.end_stack(state)
    return there


def current(*, home: Path | None = None) -> AnyStack | None:
    """The stack of this project, ready or partly broken, or ``None``.

    Raises ``UnknownStack`` if there is one that only another version of tidemark can use.
    """
    state = StateFolder(home or paths.state_dir())
    record = state.read()
    return attach(state, record) if record is not None and record.ready else None


def attach(state: StateFolder, record: StackRecord) -> AnyStack:
    """The stack of a record."""
    if record.external is not None:
        return ExternalStack(state, record)
    return RunningStack(state, record, runtime_of(state, record.backend))


@contextmanager
def lease(spec: StackSpec, *, progress: Say = quiet, home: Path | None = None) -> Iterator[AnyStack]:
    """Use a stack for the length of the block; one that nobody keeps ends with its last lease."""
    state = StateFolder(home or paths.state_dir())
    name = f"{os.getpid()}-{uuid4().hex[:8]}"
    try:
        with state.lock():
            stack = _acquire(state, spec, progress, keep=False)
            state.add("leases", Lease(ProcessId.own()), name)
        yield stack
    finally:
        _give_back(state, name)


def _give_back(state: StateFolder, name: str) -> None:
    state.discard("leases", name)
    if state.path.exists() and not state.lease_owners():
        with state.lock():
            if not state.lease_owners() and not state.is_kept():
                cold_start.end_stack(state)


def _acquire(state: StateFolder, spec: StackSpec, progress: Say, *, keep: bool) -> AnyStack:
    """The stack for ``spec``; the caller holds the lock."""
    record = state.read()
    backend = None if spec.external is not None else backend_of(spec, state.home)
    digest = digest_of(spec, backend)
    if record is not None and record.ready and record.digest == digest:
        stack = attach(state, record)
        stack.clean_up_orphans()
        cold_start.ensure_reaper(state)
        if repaired := stack.repair():
            progress(f"started again: {', '.join(repaired)}")
    else:
        users = [owner.pid for owner in state.lease_owners()]
        if record is not None and record.ready and users:
            raise TestbedError(
                "the running stack is another one than asked for, and in use",
                detail=f"leased by process {', '.join(map(str, users))}; it was started with other settings, jars or"
                " versions",
                hint="wait until they are done, or end it with `tidemark down`",
            )
        keep = keep or (record is not None and record.kept)
        if state.path.exists():
            progress("ending the stack that was there")
        record = _build(state, spec, backend, digest, progress)
    if keep and not record.kept:
        record.kept = True
        state.write(record)
    return attach(state, record)


def _build(
    state: StateFolder, spec: StackSpec, backend: Backend | None, digest: str, progress: Say
) -> StackRecord:
    cold_start.end_stack(state)
    try:
        state.make(spec.backend)
        state.add("leases", Lease(ProcessId.own()), "starting")
        cold_start.ensure_reaper(state)
        if backend is None:
            record = check_and_describe(state, spec, digest)
        else:
            record = cold_start.cold_start(state, backend, digest, progress)
        record.ready = True
        state.write(record)
        state.discard("leases", "starting")
        return record
    except BaseException as error:
        cold_start.end_stack(state, keep_logs=True)
        if isinstance(error, OSError):
            raise TestbedError(
                "the stack could not be started",
                detail=str(error),
                hint="`tidemark doctor` looks at the disk, Java and the rest",
            ) from error
        raise
