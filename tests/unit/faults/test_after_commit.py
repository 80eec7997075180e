"""A driver killed when its batch is committed: before the next one is planned, and with the commit removed."""

from __future__ import annotations

import pytest

from tests.unit.faults.test_injector import (
    KILL,
    RESUME,
    Output,
    Words,
    batches,
    begin_before_batch_1,
    injector_of,
    planned,
    until,
)  # fmt: skip
from tidemark.formats.faults import CommitPoint

__all__ = ["batches"]

SOME = {"0": 3, "1": 4}


class Written(Output):
    """An output into which the rows of a batch come as soon as it is planned, and that can tell whose they are."""

    def __init__(self, batches):
        self._checkpoint = batches.checkpoint

    def ends(self):
        self.looks += 1
        return {0: len(self._checkpoint.planned()), 1: 0}

    def written(self, batch):
        return {"rows": SOME, "ends": SOME}


class Committing(Words):
    """A driver that commits the running batch when it has run for some moments, and plans the next in the same one."""

    def __init__(self, batches, moments, *, plans_next=()):
        super().__init__()
        self._batches, self._moments, self._plans_next = batches, moments, plans_next
        self._ran = 0

    def resume(self, component):
        super().resume(component)
        batch = self._batches.checkpoint.running()
        self._ran += 1
        if batch is not None and self._ran == self._moments:
            self._ran = 0
            self._batches.commit(batch)
            if batch in self._plans_next:
                self._batches.plan(batch + 1, 5 + 4 * (batch + 1))


def begun(batches, stack, point):
    """An injector that waits for the driver's kill at this point, with batch 1 planned."""
    output = Written(batches)
    injector = injector_of(batches, stack, planned("driver", CommitPoint(point)), output=output)
    begin_before_batch_1(batches, injector, output)
    return injector


def recovered(injector):
    until(lambda: injector.journal and injector.journal[-1].recovery_s is not None, "the recovery")
    [fault] = injector.finish()
    injector.check()
    return fault


def test_a_driver_is_killed_when_its_batch_is_committed_and_recovers_with_the_next(batches):
    stack = Committing(batches, 3)
    injector = begun(batches, stack, "committed")
    until(lambda: injector.journal, "the fault in the journal")
    until(injector.is_armed, "the injector to arm: the next batch comes of what is published next")
    assert injector.journal[0].recovery_s is None
    batches.plan(2, 13)
    batches.commit(2)
    fault = recovered(injector)

    assert stack.said.count(RESUME) == 3
    assert stack.said[-1] == KILL
    assert (fault.label, fault.batch, fault.point) == ("kill driver", 1, "committed")
    assert (fault.proof["planned"], fault.proof["committed"], fault.proof["app_id"]) == (True, True, "app-0")
    assert 1 in batches.checkpoint.committed()


def test_the_commit_is_removed_before_the_driver_is_dead_and_the_batch_recovers_when_it_is_committed_anew(
    batches,
):
    stack = Committing(batches, 2)
    crc = batches.checkpoint.path / "commits" / ".1.crc"
    crc.write_text("of Hadoop")
    injector = begun(batches, stack, "deleted-commit")
    until(lambda: injector.journal, "the fault in the journal")

    assert stack.said[-1] == KILL
    assert (batches.checkpoint.committed(), batches.checkpoint.running()) == ([0], 1)
    assert not crc.exists()
    batches.commit(1)
    fault = recovered(injector)
    assert (fault.batch, fault.point, fault.proof["rows"]) == (1, "deleted-commit", SOME)
    assert fault.at_utc <= fault.proof["commit_removed_utc"]
    assert (fault.proof["planned"], fault.proof["committed"]) == (True, True)


@pytest.mark.parametrize("point", ["committed", "deleted-commit"])
def test_where_the_next_batch_is_planned_already_the_driver_goes_on_and_a_later_one_is_tried(batches, point):
    stack = Committing(batches, 2, plans_next=(1,))
    injector = begun(batches, stack, point)
    until(lambda: injector.journal, "the fault in batch 2")

    assert injector.journal[0].batch == 2
    assert stack.said.count(KILL) == 1
    injector.abort()
    injector.finish()
