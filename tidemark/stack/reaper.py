"""The reaper: a small process that outlives everybody and sees to it that nothing is orphaned.

``python -m tidemark.stack.reaper HOME TOKEN``. While its stack exists it undoes what dead processes left: resumes what
they stopped, ends their drivers, releases their Connect sessions (and so stops their queries). When nobody keeps the
stack and no living process holds a lease, it ends the stack, and then itself. When the state folder is taken away, it
ends whatever carries the token.

What fails (the container engine is down) is tried again, ever less often, and logged once, not at each attempt. A stack
that cannot be ended for ``GIVE_UP_S`` is left as it is, for ``tidemark down`` or the next start to end.
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
from tidemark.stack.install.cds_training import Writer
from tidemark.stack.lifecycle import attach
from tidemark.stack.registry import TOKEN_VARIABLE, Session, StackRecord, StateFolder
from tidemark.waiting import pause

LOOK_S = 0.5
"""Calibration: a look reads a few small files, 1 ms; what a dead run stopped stays so at most this long."""

LONGEST_PAUSE_S = 10.0
"""Between two attempts at what fails. Calibration: an attempt that an engine refuses takes 1 ms to 0.1 s."""
GIVE_UP_S = 600.0
"""Calibration: an engine that is restarted answers within seconds, after an update of its packages within minutes."""
MOST_MESSAGES = 50
"""Of one duty in its life, where each failure says something new: the log stays below a few hundred KB."""

Duty = Callable[[StateFolder, StackRecord], None]


class Attempts:
    """One thing that is done again and again, and what came of it.

    While it fails the pause before the next attempt doubles, up to ``LONGEST_PAUSE_S``, and a message that was logged
    is not logged again.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._due = 0.0
        self._pause_s = LOOK_S
        self._failing_since: float | None = None
        self._logged = ""
        self._messages = 0

    @property
    def failing_for_s(self) -> float:
        """Seconds since the first of the failures that nothing has interrupted; 0 if the last attempt succeeded."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def make(self, action: Callable[[], object]) -> bool:
        """Do it, unless an attempt is not due yet; whether it was done, and did not fail."""
        if time.monotonic() < self._due:
            return False
        try:
            action()
        except Exception as error:  # noqa: BLE001 (whatever happens to a duty, somebody has to be there to end the stack)
            self._failed(error)
            return False
        self.succeeded()
        return True

    def succeeded(self) -> None:
        """Nothing is wrong, or nothing is to be done any more."""
        if self._failing_since is not None:
            self._log(f"{self._what}: done, after {self.failing_for_s:.0f} s of failures")
        self._failing_since, self._logged, self._due, self._pause_s = None, "", 0.0, LOOK_S

    def _failed(self, error: Exception) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._due = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        why = str(error) if isinstance(error, TidemarkError) else traceback.format_exc()
        if why != self._logged:
            self._logged = why
            self._log(f"{self._what} failed, and is tried again: {why}")

    def _log(self, text: str) -> None:
        if self._messages < MOST_MESSAGES:
            self._messages += 1
            print(text, flush=True)


def keep(state: StateFolder, token: str, *, give_up_s: float = GIVE_UP_S) -> None:
    """Watch until the stack with this token is gone, or cannot be ended for ``give_up_s``."""
    backend = state.backend()
    duties: tuple[tuple[Attempts, Duty], ...] = (
        (Attempts("undoing what dead processes left"), clean_up_orphans),
        (
            Attempts("looking whether class archives are to be written"),
            Writer(runtime_of(state, backend).wrap).look,
        ),
    )
    ending = Attempts("ending the stack, which nobody needs,")
    while state.token() == token:
        record = _record(state)
        if record is not None:
            for attempts, duty in duties:
                attempts.make(partial(duty, state, record))
        if _needed(state):
            ending.succeeded()
        else:
            ending.make(partial(_end_unless_needed, state, token))
        if ending.failing_for_s > give_up_s:
            print(f"the stack is left as it is after {give_up_s:g} s; `tidemark down` ends it", flush=True)
            return
        pause(LOOK_S)
    end(marked(TOKEN_VARIABLE, token))
    if backend == "compose":
        _remove_containers(token, give_up_s)


def _remove_containers(token: str, give_up_s: float) -> None:
    from tidemark.stack.compose.orphans import remove_stack

    removal = Attempts("removing the containers of a stack whose folder is gone")
    while not removal.make(partial(remove_stack, token)):
        if removal.failing_for_s > give_up_s:
            print("its containers are left; the next start in this project removes them", flush=True)
            return
        pause(LOOK_S)


def clean_up_orphans(state: StateFolder, record: StackRecord) -> None:
    """Resume, end and release what belongs to processes that have died."""
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
    """The record, if there is one that can be read: with another there is nothing to be done but to wait."""
    try:
        return state.read()
    except UnknownStack:
        return None


def _needed(state: StateFolder) -> bool:
    return bool(state.is_kept() or state.lease_owners())


def _end_unless_needed(state: StateFolder, token: str) -> None:
    with ExitStack() as locked:
        try:
            locked.enter_context(state.lock(0))
        except DeadlineExceeded:
            return  # somebody starts or ends it at this moment
        if state.token() == token and not _needed(state):
            cold_start.end_stack(state)


def main() -> None:
    """``HOME TOKEN`` from the command line."""
    keep(StateFolder(Path(sys.argv[1])), sys.argv[2])


if __name__ == "__main__":
    main()
