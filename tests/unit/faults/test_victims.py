"""Which component a fault hits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.faults.test_injector import Words, batches, injector_of, planned, until

__all__ = ["batches"]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_fault_in_the_master_never_hits_a_driver_whose_name_begins_with_master(batches, victim):
    stack = Words()
    injector = injector_of(batches, stack, replace(planned("master"), victim=victim))
    batches.plan(0, 5)
    batches.commit(0)
    injector.start()
    batches.plan(1, 9)
    until(lambda: injector.journal, "the fault in the journal")
    batches.commit(1)
    (fault,) = injector.finish()

    assert fault.injected
    assert fault.proof["component_name"] == "master"
    assert [said for said in stack.said if said[0] in ("kill", "start")] == [
        ("kill", "master"),
        ("start", "master"),
    ]
