"""Which backend: what was asked for, else that of the running stack, else the best that this machine has.

``TIDEMARK_BACKEND`` (``make`` sets it from ``BACKEND``) asks for one. With nothing asked and nothing running, ``up``
takes containers where an engine and Compose v2 answer; a lease takes local processes, which are there at once.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tidemark import paths
from tidemark.errors import UnknownStack, UsageError
from tidemark.paths import BACKEND_VARIABLE
from tidemark.stack.registry import StateFolder
from tidemark.stack.spec import BACKENDS, StackSpec


def asked_backend() -> str | None:
    """What the environment asks for; raises ``UsageError`` for what there is not."""
    asked = os.environ.get(BACKEND_VARIABLE) or None
    if asked is not None and asked not in BACKENDS:
        raise UsageError(
            f"{BACKEND_VARIABLE} is {asked!r}",
            hint=f"a backend is one of {', '.join(BACKENDS)}; `make up BACKEND=local` sets it too",
        )
    return asked


def spec_to_lease(python: Path | None = None, *, home: Path | None = None) -> StackSpec:
    """What to lease when nothing more is said: a stack like the one that runs, with ``python`` if that is said."""
    running = _running(home)
    asked = asked_backend()
    if asked is not None and (running is None or running.backend != asked):
        _must_not_be_external(asked)
        spec = StackSpec(backend=asked)
    else:
        spec = running or StackSpec()
    return replace(spec, python=python) if python is not None else replace(spec, python=StackSpec.python)


def backend_to_start(asked: str | None, *, home: Path | None = None) -> tuple[str, str]:
    """The backend for ``up``, and why it is that."""
    if asked is not None:
        return asked, "as asked"
    if (running := _running(home)) is not None:
        return running.backend, "as the one that runs"
    from tidemark.stack.compose.docker_engine import why_not

    reason = why_not()
    return ("local", reason) if reason else ("compose", "an engine and Compose answer")


def _running(home: Path | None) -> StackSpec | None:
    """What runs; of a stack of another version, which whoever starts or leases one is told of, nothing."""
    try:
        record = StateFolder(home or paths.state_dir()).read()
    except UnknownStack:
        return None
    return record.spec if record is not None and record.ready else None


def _must_not_be_external(asked: str) -> None:
    if asked == "external":
        raise UsageError(
            "no external stack is noted here",
            hint="`tidemark up --backend external` with its addresses takes note of one",
        )
