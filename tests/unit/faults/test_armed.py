"""The publisher waits until the injector is armed; a fault that was not injected says where it was tried."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from tests.unit.faults.test_injector import SOON_S, Words, batches, injector_of, planned, until
from tidemark.faults.injector import MOST_TRIES
from tidemark.formats.faults import CommitPoint

__all__ = ["batches"]


class Slow(Words):
    """A stack that suspends the driver only once it may."""

    def __init__(self):
        super().__init__()
        self.may_suspend = threading.Event()

    @contextmanager
    def suspended(self, driver):
        assert self.may_suspend.wait(SOON_S)
        with super().suspended(driver):
            yield


def test_an_injector_that_looks_at_a_batch_is_not_armed(batches):
    stack = Slow()
    injector = injector_of(batches, stack, planned(), planned(batch=2))
    assert not injector.is_armed()
    injector.start()
    until(injector.is_armed, "the injector to arm")
    batches.plan(0, 5)
    batches.commit(0)
    assert injector.is_armed()

    batches.plan(1, 9)
    until(lambda: not injector.is_armed(), "the injector to look at batch 1")
    stack.may_suspend.set()
    until(lambda: injector.journal, "the fault in the journal")
    assert not injector.is_armed()
    batches.commit(1)
    until(injector.is_armed, "the injector to arm again")

    injector.finish()
    assert injector.is_armed()


def test_during_an_outage_the_injector_is_armed(batches):
    stack = Words()
    injector = injector_of(batches, stack, planned("broker", seconds=3600.0))
    batches.plan(0, 5)
    batches.commit(0)
    injector.start()
    until(injector.is_armed, "the injector to arm")
    batches.plan(1, 9)

    until(lambda: ("kill", "broker") in stack.said and injector.is_armed(), "the outage")

    assert ("start", "broker") not in stack.said
    injector.abort()
    injector.finish()


def test_a_fault_that_was_not_injected_says_in_which_batches_it_was_tried(batches):
    injector = injector_of(batches, Words(), planned("driver", point=CommitPoint.NO_DATA), planned("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    injector.start()
    for batch in (1, 2):  # both carry data
        batches.plan(batch, 5 + batch)
        until(lambda batch=batch: len(injector._tried) == batch, f"a try in batch {batch}")
        batches.commit(batch)

    driver, broker = injector.finish()
    assert [one["batch"] for one in driver.proof["tried"]] == [1, 2]
    assert all(0 <= one["seconds"] < SOON_S for one in driver.proof["tried"])
    assert broker.proof == {}


def batches_seen(injector):
    """The batches in which a fault was tried or injected so far."""
    of_journal = [one for line in injector.journal for one in line.proof.get("tried", [])]
    return {one["batch"] for one in (*injector._tried, *of_journal)} | {
        line.batch for line in injector.journal
    }


def test_a_fault_that_is_tried_in_vain_for_long_gives_its_turn_to_the_next_and_the_last_one_does_not(batches):
    impossible = planned("driver", point=CommitPoint.NO_DATA)
    injector = injector_of(batches, Words(), impossible, planned("broker", seconds=0.0), impossible)
    batches.plan(0, 5)
    batches.commit(0)
    injector.start()
    for batch in range(1, 2 * MOST_TRIES + 4):  # all carry data
        batches.plan(batch, 5 + batch)
        until(lambda batch=batch: batch in batches_seen(injector), f"a try in batch {batch}")
        batches.commit(batch)

    driver, broker, last = injector.finish()
    assert (driver.injected, len(driver.proof["tried"])) == (False, MOST_TRIES)
    assert (broker.injected, broker.batch) == (True, MOST_TRIES)
    assert not last.injected
    assert len(last.proof["tried"]) > MOST_TRIES
