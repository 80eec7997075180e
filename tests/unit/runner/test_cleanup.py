"""Errors of the clean-up never replace the error that caused it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import pytest

from tidemark.errors import DeadlineExceeded, TestbedError
from tidemark.runner.cleanup import Cleanup, first_of


def fails(message, kind=TestbedError):
    raise kind(message)


@contextmanager
def manager_that_fails_at_its_end():
    try:
        yield "entered"
    finally:
        fails("the driver did not stop")


def cleaned_up(error, *steps):
    """Raise an error, if there is one, in a block whose clean-up does these steps; the last first."""
    with Cleanup() as cleanup:
        for step in steps:
            cleanup.callback(step)
        if error is not None:
            raise error


def test_the_error_of_the_block_is_raised_and_later_errors_are_its_notes():
    done = []
    with pytest.raises(DeadlineExceeded) as caught:
        cleaned_up(
            DeadlineExceeded("the output did not settle"),
            partial(done.append, "last"),
            partial(fails, "topics cannot be deleted"),
            partial(fails, "the driver did not stop"),
        )

    assert done == ["last"]
    assert str(caught.value) == (
        "the output did not settle\n"
        "  also: TestbedError: the driver did not stop\n"
        "  also: TestbedError: topics cannot be deleted"
    )


def test_a_manager_that_fails_after_an_error_is_a_note_of_it():
    def in_both():
        with Cleanup() as cleanup:
            assert cleanup.enter_context(manager_that_fails_at_its_end()) == "entered"
            raise ValueError("first")

    with pytest.raises(ValueError, match="first") as caught:
        in_both()

    assert caught.value.__notes__ == ["TestbedError: the driver did not stop"]


def test_without_an_error_of_the_block_the_first_of_the_clean_up_is_raised():
    with pytest.raises(TestbedError) as caught:
        cleaned_up(None, partial(fails, "topics cannot be deleted"), partial(fails, "evidence is missing"))

    assert caught.value.message == "evidence is missing"
    assert caught.value.__notes__ == ["TestbedError: topics cannot be deleted"]


def test_notes_of_a_later_error_are_kept():
    later = ValueError("later")
    later.add_note("because of this")

    assert first_of([OSError("first"), later]).__notes__ == ["ValueError: later", "because of this"]


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (TestbedError("the broker is gone"), partial(fails, "", KeyboardInterrupt)),
        (KeyboardInterrupt(), partial(fails, "the broker is gone")),
    ],
)
def test_ctrl_c_outranks_any_other_error_before_and_after_it(error, step):
    with pytest.raises(KeyboardInterrupt) as caught:
        cleaned_up(error, step)

    assert caught.value.__notes__ == ["TestbedError: the broker is gone"]


def test_what_ends_well_raises_nothing():
    done = []
    cleaned_up(None, partial(done.append, 1))
    assert done == [1]
