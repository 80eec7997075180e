"""Freezing a container and letting it go on, also where the engine cannot do so at once.

The kernel freezes no process that just then forks or waits for a disk. Where one of a container does, runc tries for a
while, thaws the others again, and the engine answers that it has failed (``unable to freeze``, runc's
``fs.FreezerGroup.Set``). That says nothing of the next time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from docker.errors import APIError, NotFound

from tidemark.errors import DeadlineExceeded
from tidemark.wait import wait_until

FREEZE_S = 30.0
"""Calibration: done within 10 ms; an engine that cannot says so within 2 s."""


def freeze(api: Any, container: str) -> None:
    """Freeze it. Raises ``APIError``: what the engine said last; 409 if it is frozen already, or does not run."""
    _until(api, container, api.pause, frozen=True)


def thaw(api: Any, container: str) -> None:
    """Let it go on. Raises ``APIError``: what the engine said last; 409 if it is not frozen, or does not run."""
    _until(api, container, api.unpause, frozen=False)


def _until(api: Any, container: str, ask: Callable[[str], None], *, frozen: bool) -> None:
    refused: APIError | None = None

    def is_over() -> bool:
        """It is done, or asking again is no use."""
        nonlocal refused
        try:
            refused = None
            ask(container)
        except APIError as error:
            state = _state(api, container) if error.is_server_error() else {"Running": False}
            is_done = state["Running"] and state["Paused"] == frozen
            refused = None if is_done else error
            return is_done or not state["Running"]
        return True

    with suppress(DeadlineExceeded):
        wait_until(is_over, FREEZE_S, lambda: "", poll_s=0.01)
    if refused is not None:
        raise refused


def _state(api: Any, container: str) -> dict[str, bool]:
    try:
        state: dict[str, bool] = api.inspect_container(container)["State"]
        return state
    except NotFound:
        return {"Running": False}
