"""A fault that lasts has its end in the journal; a query whose batch does not come back after one hung."""

from __future__ import annotations

import pytest

from tests.unit.faults.test_injector import (
    Batches,
    Words,
    injected_in_batch_1,
    injector_of,
    planned,
    until,
)
from tests.unit.faults.test_second_kill import Next
from tidemark.errors import QueryHung


@pytest.fixture
def batches(tmp_path):
    return Batches(tmp_path)


class Logged(Words):
    """A stack with logs."""

    def logs(self, _component, _lines):
        return "the end of its log"


def test_a_batch_that_the_next_driver_does_not_run_again_is_that_of_a_query_that_hung(batches):
    injector = Next(batches, Logged(), recovery_s=0.2).injector
    until(lambda: injector.error, "the end of its patience")

    with pytest.raises(QueryHung, match="waiting for the driver after app-0 to run batch 1 again"):
        injector.check()
    assert injector.finish()[0].label == "kill driver"


def test_a_batch_that_is_not_committed_after_a_fault_is_that_of_a_query_that_hung(batches):
    injector = injector_of(batches, Logged(), planned(), recovery_s=0.2)
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()
    until(lambda: injector.error, "the end of its patience")

    with pytest.raises(QueryHung) as raised:
        injector.check()
    assert raised.value.waited_for == "batch 1 to be committed after kill executor"
    assert raised.value.detail == "the end of its log"
    [fault] = injector.finish()
    assert (fault.injected, fault.recovery_s) == (True, None)


def test_a_fault_that_lasts_has_its_end_in_the_journal_and_one_that_does_not_has_none(batches):
    lasting = injector_of(batches, Words(), planned("broker", action="pause", seconds=0.01))
    fault = injected_in_batch_1(batches, lasting)

    assert fault.ended_at_utc is not None
    assert fault.ended_at_utc >= fault.at_utc
