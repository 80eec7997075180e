"""A wait ends when its condition is true, when it cannot become true, or at its deadline with a description."""

from __future__ import annotations

import itertools

import pytest

from tidemark.errors import DaemonDied, DeadlineExceeded
from tidemark.waiting import wait_until


def never() -> None:
    return None


def test_a_wait_returns_the_value_of_the_condition():
    polls = itertools.count()
    assert wait_until(lambda: next(polls) == 2 and "there", 5, lambda: "it", poll_s=0) == "there"


def test_a_condition_is_checked_once_even_without_time():
    assert wait_until(lambda: 1, 0, lambda: "it") == 1


def test_the_description_is_made_after_the_wait_has_failed():
    polls: list[int] = []

    def condition() -> None:
        polls.append(1)

    with pytest.raises(
        DeadlineExceeded, match=r"timed out after 0\.05 s waiting for batch 3 after [1-9]\d* polls"
    ):
        wait_until(condition, 0.05, lambda: f"batch 3 after {len(polls)} polls", poll_s=0.001)


def test_a_successful_wait_makes_no_description():
    assert wait_until(lambda: True, 1, lambda: pytest.fail("described too early"))


def test_a_wait_ends_early_when_it_can_no_longer_succeed():
    def died() -> None:
        raise DaemonDied("the broker ended", hint="look at its log")

    with pytest.raises(DaemonDied):
        wait_until(never, 60, lambda: "it", unless=died)


def test_an_error_of_the_last_poll_is_the_cause():
    def refused() -> None:
        raise ConnectionRefusedError("connection refused")

    with pytest.raises(DeadlineExceeded, match="connection refused") as failed:
        wait_until(refused, 0.01, lambda: "an answer", poll_s=0.001)
    assert isinstance(failed.value.__cause__, ConnectionRefusedError)


def test_an_error_that_is_a_bug_ends_the_wait():
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, 60, lambda: "it")
