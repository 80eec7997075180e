"""Which component a fault hits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.faults.test_striker import Words, batches, strike, striker_of, until

__all__ = ["batches"]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_fault_in_the_master_never_hits_a_driver_whose_name_begins_with_master(batches, victim):
    stack = Words()
    striker = striker_of(batches, stack, replace(strike("master"), whom=victim))
    batches.plan(0, 5)
    batches.commit(0)
    striker.start()
    batches.plan(1, 9)
    until(lambda: striker.journal, "the fault in the journal")
    batches.commit(1)
    (fault,) = striker.finish()

    assert fault.done
    assert fault.proof["part"] == "master"
    assert [said for said in stack.said if said[0] in ("kill", "start")] == [
        ("kill", "master"),
        ("start", "master"),
    ]
