"""Which backends tests can have here."""

from __future__ import annotations

import functools

import pytest

from tidemark.stack.backend_choice import asked_backend
from tidemark.stack.compose.docker_engine import why_not

BACKENDS = ("local", "compose")


@functools.cache
def reason() -> str:
    """Why there are no containers here."""
    return why_not()


def must_be_available(backend: str) -> None:
    """Skip the test where there is no engine, unless containers were asked for: then it has to fail."""
    asked = asked_backend()
    if backend == "compose" and asked == "local":
        pytest.skip("only processes were asked for")
    if backend == "compose" and asked != "compose" and reason():
        pytest.skip(f"no containers here: {reason()}")
