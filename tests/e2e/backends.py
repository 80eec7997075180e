"""The backends that are available to tests on this machine."""

from __future__ import annotations

import functools

import pytest

from tidemark.stack.backend_choice import requested_backend
from tidemark.stack.compose.docker_engine import why_unavailable

BACKENDS = ("local", "compose")


@functools.cache
def reason() -> str:
    """Why containers are not available here; empty if they are."""
    return why_unavailable()


def are_used() -> bool:
    """Whether tests with both backends run on containers, too."""
    return requested_backend() != "local" and not reason()


def must_be_available(backend: str) -> None:
    """Skip the test if containers are not available, unless they were requested: then it must fail."""
    requested = requested_backend()
    if backend == "compose" and requested == "local":
        pytest.skip("only local processes were requested")
    if backend == "compose" and requested != "compose" and reason():
        pytest.skip(f"containers are not available: {reason()}")
