"""The life of a stack: reused if it matches the request, repaired if components are missing, else rebuilt.

``up`` starts a stack that lives until ``down``. A lease uses a stack, or starts one that ends with its last lease; if
the holder of that lease is killed, the reaper ends the stack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from tidemark import paths
from tidemark.errors import DeadlineExceeded, TestbedError
from tidemark.processes import ProcessId
from tidemark.stack import cold_start, suspension
from tidemark.stack.api import Say, ignored
from tidemark.stack.backends import Backend, backend_of, runtime_of
from tidemark.stack.external_stack import ExternalStack, check_and_describe
from tidemark.stack.fingerprint import digest_of
from tidemark.stack.registry import Lease, StackRecord, StateFolder
from tidemark.stack.running_stack import RunningStack
from tidemark.stack.spec import StackSpec

AnyStack = RunningStack | ExternalStack

DOWN_S = 300.0
"""Calibration: a cold start takes half a minute. One that fetches jars may take longer; the error names its process."""
RELEASE_S = 30.0
"""Calibration: a stack ends within 10 s. A process that holds the lock for longer starts something, and leases it."""


def up(spec: StackSpec, *, progress: Say = ignored, home: Path | None = None) -> AnyStack:
    """A stack that lives until :func:`down`: the running one if it matches ``spec``, else a new one."""
    state = StateFolder(home or paths.state_dir())
    with state.lock(say=progress):
        return _acquire(state, spec, progress, keep=True)


def down(*, home: Path | None = None) -> bool:
    """End the stack even if it is in use; ``False`` if there was none."""
    state = StateFolder(home or paths.state_dir())
    if not state.home.is_dir():
        return False
    with state.lock(DOWN_S):
        existed = state.path.exists()
        cold_start.end_stack(state)
    return existed


def current(*, home: Path | None = None) -> AnyStack | None:
    """The stack of this project, ready or partly broken, or ``None``.

    Raises ``UnknownStack`` if another version of tidemark has started it.
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
def lease(spec: StackSpec, *, progress: Say = ignored, home: Path | None = None) -> Iterator[AnyStack]:
    """Use a stack for the length of the block; unless `up` started it, it ends with its last lease."""
    state = StateFolder(home or paths.state_dir())
    name = f"{os.getpid()}-{uuid4().hex[:8]}"
    try:
        with state.lock(say=progress):
            stack = _acquire(state, spec, progress, keep=False)
            state.add("leases", Lease(ProcessId.own()), name)
        yield stack
    finally:
        _release(state, name)


def _release(state: StateFolder, name: str) -> None:
    """Give back a lease, and end the stack if it was the last one; if the lock stays taken, the reaper ends it."""
    state.discard("leases", name)
    if state.path.exists() and not state.lease_owners():
        with ExitStack() as locked:
            try:
                locked.enter_context(state.lock(RELEASE_S))
            except DeadlineExceeded:
                return
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
        for name, owner in suspension.killed_by_others(state).items():
            progress(f"left as it is: {name}, which process {owner.pid} has killed and starts again")
    else:
        users = [owner.pid for owner in state.lease_owners()]
        if record is not None and record.ready and users:
            raise TestbedError(
                "the running stack does not match the requested one, and is in use",
                detail=f"leased by process {', '.join(map(str, users))}; it was started with other settings, jars or "
                "versions",
                hint="wait for these processes to finish, or end the stack with `tidemark down`",
            )
        keep = keep or (record is not None and record.kept)
        if state.path.exists():
            progress("ending the existing stack")
        record = _build(state, spec, backend, digest, progress)
    if keep and not record.kept:
        record.kept = True
        state.write(record)
    stack = attach(state, record)
    if spec.registry:
        stack.start_registry(progress)
    return stack


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
                hint="`tidemark doctor` checks the disk, Java and the rest",
            ) from error
        raise
