"""The reaper: a background process that cleans up after processes that died, and ends a stack without users.

``python -m tidemark.stack.reaper HOME TOKEN``. For processes that have died it resumes what they left suspended, ends
their private drivers and releases their Connect sessions, which stops their queries. When the stack is not kept and no
living process holds a lease, the reaper ends the stack and itself. When the state folder has been deleted, it ends
everything that carries the token.

A task that fails (the container engine is down) is retried with increasing pauses, and its error is logged only once. A
stack that cannot be ended for ``GIVE_UP_S`` is left to ``tidemark down`` or the next start.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tidemark.errors import DeadlineExceeded, TidemarkError, UnknownStack
from tidemark.processes import Conversation, end, marked
from tidemark.stack import cold_start, readiness
from tidemark.stack.api import ComponentState, Stack
from tidemark.stack.backends import runtime_of
from tidemark.stack.install.cds_training import ArchiveTrigger
from tidemark.stack.lifecycle import attach
from tidemark.stack.registry import TOKEN_VARIABLE, Session, StackRecord, StateFolder
from tidemark.waiting import pause

POLL_S = 0.5
"""Calibration: a poll reads a few small files in 1 ms; what a dead run suspended stays so at most this long."""

LONGEST_PAUSE_S = 10.0
"""Between two attempts at a task that fails. Calibration: an attempt without an engine takes 1 ms to 0.1 s."""
GIVE_UP_S = 600.0
"""Calibration: an engine is back within seconds after a restart, within minutes after a package update."""
MOST_MESSAGES = 50
"""Log messages per task, even if each failure differs: the log stays below a few hundred KB."""

Task = Callable[[StateFolder, StackRecord], None]


class Attempts:
    """A task that is repeated, with backoff while it fails.

    Each failure doubles the pause before the next attempt, up to ``LONGEST_PAUSE_S``. A repeated error is logged once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._due = 0.0
        self._pause_s = POLL_S
        self._failing_since: float | None = None
        self._logged = ""
        self._messages = 0

    @property
    def failing_for_s(self) -> float:
        """Seconds since the first of the current row of failures; 0 if the last attempt succeeded."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def make(self, action: Callable[[], object]) -> bool:
        """Run the task if an attempt is due; returns whether it ran and succeeded."""
        if time.monotonic() < self._due:
            return False
        try:
            action()
        except Exception as error:  # noqa: BLE001 (the reaper must survive any failure to end the stack)
            self._failed(error)
            return False
        self.succeeded()
        return True

    def succeeded(self) -> None:
        """Reset the backoff: the task succeeded, or is not needed any more."""
        if self._failing_since is not None:
            self._log(f"{self._name}: succeeded after failing for {self.failing_for_s:.0f} s")
        self._failing_since, self._logged, self._due, self._pause_s = None, "", 0.0, POLL_S

    def _failed(self, error: Exception) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._due = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        why = str(error) if isinstance(error, TidemarkError) else traceback.format_exc()
        if why != self._logged:
            self._logged = why
            self._log(f"{self._name}: failed, will be retried: {why}")

    def _log(self, text: str) -> None:
        if self._messages < MOST_MESSAGES:
            self._messages += 1
            print(text, flush=True)


def watch(state: StateFolder, token: str, *, give_up_s: float = GIVE_UP_S) -> None:
    """Watch until the stack with this token is gone, or cannot be ended for ``give_up_s``."""
    backend = state.backend()
    tasks: tuple[tuple[Attempts, Task], ...] = (
        (Attempts("cleaning up after processes that died"), clean_up_orphans),
        (
            Attempts("writing missing class archives"),
            ArchiveTrigger(runtime_of(state, backend).wrap).poll,
        ),
    )
    ending = Attempts("ending the unused stack")
    while state.token() == token:
        record = _record(state)
        if record is not None:
            for attempts, task in tasks:
                attempts.make(partial(task, state, record))
        if _in_use(state):
            ending.succeeded()
        else:
            ending.make(partial(_end_unless_in_use, state, token))
        if ending.failing_for_s > give_up_s:
            print(f"gave up ending the stack after {give_up_s:g} s; `tidemark down` ends it", flush=True)
            return
        pause(POLL_S)
    end(marked(TOKEN_VARIABLE, token))
    if backend == "compose":
        _remove_containers(token, give_up_s)


def _remove_containers(token: str, give_up_s: float) -> None:
    from tidemark.stack.compose.orphans import remove_stack

    removal = Attempts("removing the containers of a stack whose folder was deleted")
    while not removal.make(partial(remove_stack, token)):
        if removal.failing_for_s > give_up_s:
            print("gave up removing its containers; the next start in this project removes them", flush=True)
            return
        pause(POLL_S)


def clean_up_orphans(state: StateFolder, record: StackRecord) -> None:
    """Resume what processes that have died left suspended, end their drivers, release their sessions."""
    stack = attach(state, record)
    stack.clean_up_orphans()
    _release_sessions(state, record, stack)


def _release_sessions(state: StateFolder, record: StackRecord, stack: Stack) -> None:
    dead = [(path, found) for path, found in state.records("sessions", Session) if not found.owner.alive]
    if not dead:
        return
    running = {component.address for component in stack.status() if component.state is ComponentState.RUNNING}
    if any(session.remote in running for _, session in dead):
        with readiness.open_probe(state, record.python) as probe:
            for _, session in dead:
                _release(probe, session)
    for path, _ in dead:
        path.unlink(missing_ok=True)


def _release(probe: Conversation, session: Session) -> None:
    try:
        why = readiness.release_session(probe, session.remote, session.session_id, session.user_id)
    except TidemarkError as error:
        why = str(error)
    if why:
        print(f"session {session.session_id} of {session.remote} was not released: {why}", flush=True)


def _record(state: StateFolder) -> StackRecord | None:
    """The record, or ``None`` if it cannot be read: then the reaper only waits."""
    try:
        return state.read()
    except UnknownStack:
        return None


def _in_use(state: StateFolder) -> bool:
    return bool(state.is_kept() or state.lease_owners())


def _end_unless_in_use(state: StateFolder, token: str) -> None:
    with ExitStack() as locked:
        try:
            locked.enter_context(state.lock(0))
        except DeadlineExceeded:
            return  # another process is starting or ending it
        if state.token() == token and not _in_use(state):
            cold_start.end_stack(state)


def main() -> None:
    """``HOME TOKEN`` from the command line."""
    watch(StateFolder(Path(sys.argv[1])), sys.argv[2])


if __name__ == "__main__":
    main()
