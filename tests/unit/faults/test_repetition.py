"""A fault that is repeated, batch after batch, until something holds."""

from __future__ import annotations

from tests.unit.faults.test_injector import (
    Words,
    batches,
    begin_in_batch_1,
    injected_in_batch_1,
    injector_of,
    until,
)
from tidemark.faults.schedule import PlannedFault, read_schedule

__all__ = ["batches"]


def repeated(text):
    [spec] = read_schedule(text)
    return PlannedFault(spec, 1, 0.0)


def test_a_fault_is_repeated_batch_after_batch_until_so_many_are_committed(batches):
    injector = injector_of(batches, Words(), repeated("executor@planned*until=2batches"))
    begin_in_batch_1(batches, injector)
    for batch in (1, 2, 3):
        if batch > 1:
            batches.plan(batch, 9 + batch)
        until(lambda batch=batch: len(injector.journal) == batch, f"the fault of batch {batch}")
        batches.commit(batch)
    until(lambda: injector.waits_for == "", "the end of the repetition")

    assert [(fault.batch, fault.injected) for fault in injector.finish()] == [(1, True), (2, True), (3, True)]


def test_a_run_that_is_over_before_a_repetition_has_missed_no_fault(batches):
    injector = injector_of(batches, Words(), repeated("executor@planned*until=3600s"))

    fault = injected_in_batch_1(batches, injector)

    assert (fault.batch, fault.injected) == (1, True)
    injector.check()
