"""The keeper: a small process that outlives everybody and sees to it that nothing is orphaned.

``python -m tidemark.stack.keeper HOME TOKEN``. While its stack exists it undoes what dead processes left: resumes what
they stopped, ends their drivers, releases their Connect sessions (and so stops their queries). When nobody keeps the
stack and no living process holds a lease, it ends the stack, and then itself. When the state folder is taken away, it
ends whatever carries the token.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tidemark.errors import DeadlineExceeded, TidemarkError
from tidemark.process import Conversation, end, marked
from tidemark.stack import archives, boot, ready
from tidemark.stack.leasing import attach
from tidemark.stack.protocol import PartState, Stack
from tidemark.stack.state import TOKEN_VARIABLE, Session, StackRecord, StateFolder
from tidemark.wait import pause

LOOK_S = 0.5
"""Calibration: a look reads a few small files, 1 ms; what a dead run stopped stays so at most this long."""

Duty = Callable[[StateFolder, StackRecord], None]


def keep(state: StateFolder, token: str) -> None:
    """Watch until the stack with this token is gone."""
    duties: tuple[Duty, ...] = (undo_the_dead, archives.Writer().look)
    backend = state.backend()
    while state.token() == token:
        record = state.read()
        if record is not None:
            for duty in duties:
                _do(duty, state, record)
        if not _needed(state):
            _end_unless_needed(state, token)
        pause(LOOK_S)
    end(marked(TOKEN_VARIABLE, token))
    if backend == "compose":
        from tidemark.stack.containers import remove_stack

        remove_stack(token)


def undo_the_dead(state: StateFolder, record: StackRecord) -> None:
    """Resume, end and release what belongs to processes that have died."""
    stack = attach(state, record)
    stack.undo_the_dead()
    _release_sessions(state, record, stack)


def _do(duty: Duty, state: StateFolder, record: StackRecord) -> None:
    try:
        duty(state, record)
    except Exception:  # noqa: BLE001 (whatever happens to a duty, somebody has to be there to end the stack)
        traceback.print_exc()


def _release_sessions(state: StateFolder, record: StackRecord, stack: Stack) -> None:
    dead = [(path, found) for path, found in state.records("sessions", Session) if not found.owner.alive]
    if not dead:
        return
    running = {part.address for part in stack.status() if part.state is PartState.RUNNING}
    if any(session.remote in running for _, session in dead):
        with ready.open_probe(state, record.python) as probe:
            for _, session in dead:
                _release(probe, session)
    for path, _ in dead:
        path.unlink(missing_ok=True)


def _release(probe: Conversation, session: Session) -> None:
    try:
        why = ready.release_session(probe, session.remote, session.session_id, session.user_id)
    except TidemarkError as error:
        why = str(error)
    if why:
        print(f"session {session.session_id} of {session.remote} was not released: {why}", flush=True)


def _needed(state: StateFolder) -> bool:
    record = state.read()
    return bool((record is not None and record.kept) or state.lease_owners())


def _end_unless_needed(state: StateFolder, token: str) -> None:
    try:
        with state.lock(0):
            if state.token() == token and not _needed(state):
                boot.end_stack(state)
    except DeadlineExceeded:
        return  # somebody starts or ends it at this moment
    except TidemarkError as error:
        print(f"the stack could not be ended, and will be tried again: {error}", flush=True)


def main() -> None:
    """``HOME TOKEN`` from the command line."""
    keep(StateFolder(Path(sys.argv[1])), sys.argv[2])


if __name__ == "__main__":
    main()
