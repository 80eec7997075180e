"""When a part that was started is up: it does its work, not merely has a port.

The master is elected, a worker is registered, a driver serves clients. Each wait ends early when the part dies, with
the last lines of its log.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.stack.registry import ComponentRecord
from tidemark.stack.runtime import Runtime
from tidemark.waiting import wait_until

_LOOKED_AT = 200
_PLACE = re.compile(r"\s+(at |\.\.\. \d+ more)")
UP_S = 180.0
"""Calibration: 2 to 8 s on two free cores; a machine that runs a test suite besides takes four times that."""


def must_live(runtime: Runtime, component: ComponentRecord) -> None:
    """Raise ``DaemonDied``, with the last lines of its log, if a part that was started is gone."""
    if not runtime.runs(component):
        raise DaemonDied(
            f"the {component.name} died while it started",
            detail=f"from the end of its log:\n{log_tail(runtime, component)}",
            hint="`tidemark doctor` looks at Java, memory, disk and ports",
        )


def log_tail(runtime: Runtime, component: ComponentRecord) -> str:
    """What a part logged last, without the lines of stack traces that only name places in the code."""
    lines = runtime.log(component, _LOOKED_AT, since_start=True).splitlines()
    telling = [line for line in lines if not _PLACE.match(line)]
    return "\n".join(telling[-15:]) or "(empty)"


def await_log(runtime: Runtime, component: ComponentRecord, *texts: str, timeout_s: float = UP_S) -> None:
    """Wait until a part has logged one of ``texts`` since it was started."""

    def said() -> bool:
        so_far = runtime.log(component, since_start=True)
        return any(text in so_far for text in texts)

    _await(runtime, component, said, f"to log {' or '.join(map(repr, texts))}", timeout_s)


def await_driver(runtime: Runtime, component: ComponentRecord, timeout_s: float = UP_S) -> None:
    """Wait until a driver serves at its address; raises ``DaemonDied`` if somebody else does."""
    _await(
        runtime, component, lambda: runtime.serves(component), f"to serve at {component.address}", timeout_s
    )


def await_master(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until the master is elected and, after a restart, knows its workers and applications again.

    A worker that asks sooner is ignored, and asks again only after seconds.
    """
    await_log(runtime, component, "New state: ALIVE", "resuming operations")


def await_worker(runtime: Runtime, component: ComponentRecord) -> None:
    """Wait until the master has accepted a worker."""
    await_log(runtime, component, "Successfully registered with master")


def _await(
    runtime: Runtime, component: ComponentRecord, condition: Callable[[], bool], what: str, timeout_s: float
) -> None:
    try:
        wait_until(
            condition,
            timeout_s,
            lambda: f"the {component.name} {what}",
            unless=lambda: must_live(runtime, component),
        )
    except DeadlineExceeded as error:
        error.detail = f"from the end of its log:\n{log_tail(runtime, component)}"
        error.hint = "end other programs if the machine is busy; `tidemark doctor` looks at the rest"
        raise
