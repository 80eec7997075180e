"""Waiting for a condition: the only place in the project that sleeps.

Uses the monotonic clock only. A wait has a deadline, describes what it waited for when it fails, and ends early when it
can no longer succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tidemark.errors import DeadlineExceeded

T = TypeVar("T")

POLL_S = 0.05
"""Calibration: a poll of a file or a socket costs well under 1 ms; 20 per second do not show in ``top``."""


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float,
    describe: Callable[[], str],
    *,
    unless: Callable[[], object] | None = None,
    poll_s: float = POLL_S,
) -> T:
    """Return the first truthy value of ``condition()``.

    ``describe`` is called only when the wait fails, so it can describe the state at that moment. ``unless`` is called
    before each poll: it raises the error that makes waiting pointless (a daemon died), or returns anything.

    Raises:
        DeadlineExceeded: after ``timeout_s`` seconds; an exception that the last poll raised is its cause.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        last: Exception | None = None
        if unless is not None:
            unless()
        try:
            value = condition()
        except (OSError, ConnectionError, ValueError) as error:
            last, value = error, None
        if value:
            return value
        if time.monotonic() >= deadline:
            raise DeadlineExceeded(
                f"timed out after {timeout_s:g} s waiting for {describe()}",
                detail=f"the last poll failed: {last}" if last else "",
            ) from last
        pause(poll_s)


def pause(seconds: float) -> None:
    """Sleep, for pacing only (a timed trace, a retry); never instead of a condition."""
    time.sleep(seconds)
