"""Each word of the protocol, done to each part, and then a run: whatever was done, the join is right afterwards.

Every day the conformance tests do each word to each part, and chaos tests kill parts in the middle of a batch; the runs
after a word are in ``make long``.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import shown
from tidemark.stack import POWERS
from tidemark.waiting import wait_until

PARTS = ("broker", "master", "worker-1", "worker-2", "driver")
UNDONE_BY = {"stop": "start", "kill": "start", "pause": "resume"}
EXECUTORS_S = 60.0
"""Calibration: the master gives a driver its executors back within 3 s."""


def is_valid(verdict) -> None:
    assert verdict.verdict == "VALID", shown(verdict)


@pytest.mark.long
@pytest.mark.parametrize("word", UNDONE_BY)
def test_a_run_is_valid_after_every_component_was_killed_and_repaired(own_stack, judged, word):
    for part in PARTS:
        getattr(own_stack, word)(part)
        getattr(own_stack, UNDONE_BY[word])(part)
    is_valid(judged(own_stack))


@pytest.mark.long
@pytest.mark.parametrize("word", UNDONE_BY)
@pytest.mark.parametrize("part", PARTS)
def test_a_run_is_valid_after_a_component_was_killed_and_repaired(own_stack, judged, part, word):
    getattr(own_stack, word)(part)
    getattr(own_stack, UNDONE_BY[word])(part)
    is_valid(judged(own_stack))


@pytest.mark.long
def test_a_run_is_valid_after_an_executor_was_harmed(own_stack, judged):
    def both():
        found = own_stack.executors("driver")
        return found if len(found) == 2 else None

    paused, killed = wait_until(
        both, EXECUTORS_S, lambda: f"two executors, not {own_stack.executors('driver')}"
    )
    own_stack.pause_executor("driver", paused.executor_id)
    own_stack.resume_executor("driver", paused.executor_id)
    is_valid(judged(own_stack, "after-pause"))
    own_stack.kill_executor("driver", killed.executor_id)
    is_valid(judged(own_stack, "after-kill"))


@pytest.mark.long
def test_a_run_is_valid_after_the_broker_was_off_the_network(own_stack, judged):
    if "network" not in POWERS[own_stack.spec.backend]:
        pytest.skip("processes of one machine have no network to be cut off")
    own_stack.partition_network("broker")
    own_stack.heal_network("broker")
    is_valid(judged(own_stack))
