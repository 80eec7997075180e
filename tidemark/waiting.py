"""Waiting on a condition: the one place in the project that sleeps.

Free of clocks that jump (only ``time.monotonic``). A wait has a deadline, says late and precisely what it
waited for, and ends early when it can no longer succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tidemark.errors import DeadlineExceeded

T = TypeVar("T")

POLL_S = 0.05
"""Calibration: a poll of a file or a socket costs well under 1 ms; 20 a second are not seen in ``top``."""


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float,
    describe: Callable[[], str],
    *,
    unless: Callable[[], object] | None = None,
    poll_s: float = POLL_S,
) -> T:
    """Return the first truthy value of ``condition()``.

    ``describe`` is called only when the wait fails, so it can tell the state at that moment. ``unless`` is called
    before each look: it raises the error that makes waiting pointless (a daemon died), or returns anything.

    Raises:
        DeadlineExceeded: after ``timeout_s`` seconds; an exception that the last look raised is its cause.
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
                f"waited {timeout_s:g} s for {describe()}",
                detail=f"the last look failed: {last}" if last else "",
            ) from last
        pause(poll_s)


def pause(seconds: float) -> None:
    """Sleep: only for pacing (a timed trace, a settling look); never instead of a condition."""
    time.sleep(seconds)
