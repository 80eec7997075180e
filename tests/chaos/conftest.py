"""A stack whose broker, master and workers may be harmed."""

from tests.e2e.conftest import leased, own_stack

__all__ = ["leased", "own_stack"]
