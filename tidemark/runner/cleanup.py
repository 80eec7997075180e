"""Cleanup after a run that keeps the first error.

Uses only ``contextlib``. With a plain ``ExitStack``, an error during cleanup replaces the original error: the user
would read about a topic that could not be deleted instead of the broker that died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Cleanup(ExitStack):
    """An ``ExitStack`` that raises the first error of its block or its steps; later errors become notes of it.

    Ctrl-C during a step outranks an earlier error, which becomes its note.
    """

    def enter_context(self, cm: AbstractContextManager[T, Any]) -> T:
        """Enter a context manager."""
        return super().enter_context(first_error_kept(cm))

    def callback(self, callback: Callable[P, T], /, *args: P.args, **kwds: P.kwargs) -> Callable[P, T]:
        """Register a function to be called at the end."""

        @contextmanager
        def at_the_end() -> Iterator[None]:
            try:
                yield
            finally:
                callback(*args, **kwds)

        self.enter_context(at_the_end())
        return callback


@contextmanager
def first_error_kept(manager: AbstractContextManager[T, Any]) -> Iterator[T]:
    """Enter a context manager; what it raises after an error of the block becomes a note of that error.

    Not for managers that swallow an error: it is raised all the same.
    """
    value = manager.__enter__()
    try:
        yield value
    except BaseException as first:
        later = _error_of_exit(manager, first)
        if later is not None and later is not first and first_of([first, later]) is later:
            raise later from first
        raise
    manager.__exit__(None, None, None)


def first_of(errors: Sequence[BaseException]) -> BaseException:
    """The error to raise of one or more, the others as its notes: the first, or else the first Ctrl-C.

    Ctrl-C must end the program: if another error were raised instead, a soak would continue.
    """
    raised = next((error for error in errors if isinstance(error, KeyboardInterrupt)), errors[0])
    for error in errors:
        if error is not raised:
            add_later(raised, error)
    return raised


def _error_of_exit(manager: AbstractContextManager[Any, Any], first: BaseException) -> BaseException | None:
    try:
        manager.__exit__(type(first), first, first.__traceback__)
    except BaseException as error:  # noqa: BLE001 (the caller raises it, or notes it)
        return error
    return None


def add_later(error: BaseException, later: BaseException) -> None:
    """Make a later error, with its own notes, a note of an earlier one."""
    error.add_note(f"{type(later).__name__}: {later}")
    for note in getattr(later, "__notes__", ()):
        if note not in str(later):  # the text of a TidemarkError includes its notes
            error.add_note(note)
