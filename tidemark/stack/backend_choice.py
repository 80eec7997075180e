"""The choice of a backend: the requested one, else that of the running stack, else a default.

``TIDEMARK_BACKEND`` (set by ``make`` from ``BACKEND``) requests one. The default of ``up`` is ``compose`` where a
container engine and Compose v2 are available, else ``local``; the default of a lease is ``local``, which starts
fastest.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tidemark import paths
from tidemark.errors import UnknownStack, UsageError
from tidemark.paths import BACKEND_VARIABLE
from tidemark.stack.api import REGISTRY
from tidemark.stack.registry import StateFolder
from tidemark.stack.spec import BACKENDS, StackSpec


def requested_backend() -> str | None:
    """The backend that the environment requests, if any; raises ``UsageError`` for an unknown one."""
    requested = os.environ.get(BACKEND_VARIABLE) or None
    if requested is not None and requested not in BACKENDS:
        raise UsageError(
            f"{BACKEND_VARIABLE} is {requested!r}",
            hint=f"set it to one of {', '.join(BACKENDS)}; `make up BACKEND=local` sets it too",
        )
    return requested


def spec_to_lease(python: Path | None = None, *, home: Path | None = None) -> StackSpec:
    """The spec to lease by default: that of the running stack, with ``python`` as its interpreter if given."""
    running = _running(home)
    requested = requested_backend()
    if requested is not None and (running is None or running.backend != requested):
        _must_not_be_external(requested)
        spec = StackSpec(backend=requested)
    else:
        spec = running or StackSpec()
    return replace(spec, python=python) if python is not None else replace(spec, python=StackSpec.python)


def backend_to_start(requested: str | None, *, home: Path | None = None) -> tuple[str, str]:
    """The backend for ``up``, and the reason for the choice."""
    if requested is not None:
        return requested, "requested"
    if (running := _running(home)) is not None:
        return running.backend, "the running stack's"
    from tidemark.stack.compose.docker_engine import why_unavailable

    reason = why_unavailable()
    return ("local", reason) if reason else ("compose", "container engine and Compose are available")


def _running(home: Path | None) -> StackSpec | None:
    """The running stack's spec. ``None`` for a stack of another version: starting or leasing reports that one."""
    try:
        state = StateFolder(home or paths.state_dir())
        record = state.read()
    except UnknownStack:
        return None
    if record is None or not record.ready:
        return None
    return replace(record.spec, registry=state.component(REGISTRY) is not None)


def _must_not_be_external(requested: str) -> None:
    if requested == "external":
        raise UsageError(
            "no external stack is recorded in this project",
            hint="record one with `tidemark up --backend external` and its addresses",
        )
