"""Whoever publishes waits until who strikes has looked at the batch before; what missed says where it was tried."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from tests.unit.faults.test_striker import SOON_S, Words, batches, strike, striker_of, until
from tidemark.faults.schedule import NO_DATA

__all__ = ["batches"]


class Slow(Words):
    """A stack that takes its time until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.goes_on = threading.Event()

    @contextmanager
    def suspended(self, driver):
        assert self.goes_on.wait(SOON_S)
        with super().suspended(driver):
            yield


def test_who_looks_at_a_batch_does_not_lie_in_wait_for_the_next(batches):
    stack = Slow()
    striker = striker_of(batches, stack, strike(), strike(batch=2))
    assert not striker.lies_in_wait()
    striker.start()
    until(striker.lies_in_wait, "the striker to lie in wait")
    batches.plan(0, 5)
    batches.commit(0)
    assert striker.lies_in_wait()

    batches.plan(1, 9)
    until(lambda: not striker.lies_in_wait(), "the striker to look at batch 1")
    stack.goes_on.set()
    until(lambda: striker.journal, "the fault in the journal")
    assert not striker.lies_in_wait()
    batches.commit(1)
    until(striker.lies_in_wait, "the striker to lie in wait again")

    striker.finish()
    assert striker.lies_in_wait()


def test_nobody_waits_for_the_end_of_an_outage(batches):
    stack = Words()
    striker = striker_of(batches, stack, strike("broker", seconds=3600.0))
    batches.plan(0, 5)
    batches.commit(0)
    striker.start()
    until(striker.lies_in_wait, "the striker to lie in wait")
    batches.plan(1, 9)

    until(lambda: ("kill", "broker") in stack.said and striker.lies_in_wait(), "the outage")

    assert ("start", "broker") not in stack.said
    striker.give_up()
    striker.finish()


def test_what_missed_says_in_which_batches_it_was_tried(batches):
    striker = striker_of(batches, Words(), strike("driver", point=NO_DATA), strike("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    striker.start()
    for batch in (1, 2):  # both carry data
        batches.plan(batch, 5 + batch)
        until(lambda batch=batch: len(striker._tried) == batch, f"a try in batch {batch}")
        batches.commit(batch)

    driver, broker = striker.finish()
    assert [one["batch"] for one in driver.proof["tried"]] == [1, 2]
    assert all(0 <= one["seconds"] < SOON_S for one in driver.proof["tried"])
    assert broker.proof == {}
