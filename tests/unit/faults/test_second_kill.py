"""A driver that is killed twice in a batch, and what is left in order when the injector is ended or fails."""

from __future__ import annotations

import pytest

from tests.unit.faults.test_injector import (
    KILL,
    PAUSE,
    RESUME,
    SOON_S,
    Output,
    Words,
    batches,
    begin_before_batch_1,
    begin_in_batch_1,
    injector_of,
    job_start,
    planned,
    until,
)

__all__ = ["batches"]


class Next:
    """A driver that is killed in batch 1, and the one that runs the batch again."""

    def __init__(self, batches, stack, recovery_s=SOON_S):
        self.batches, self.stack, self.log = batches, stack, batches.checkpoint.path / "log"
        stack.event_log = self.log
        (batches.checkpoint.path / "metadata").write_text('{"id":"q"}')
        self.log.write_text(job_start("another", 1) + job_start("q", 0))
        self.output = Output()
        self.injector = injector_of(
            batches, stack, planned("driver", action="kill-twice"), output=self.output, recovery_s=recovery_s
        )
        batches.plan(0, 5)
        batches.commit(0)
        self.injector.start()
        self.dies(1)

    def dies(self, batch):
        kills, looks = self.stack.said.count(KILL), self.output.looks
        # The first may have been for the proof of the fault before.
        until(lambda: self.output.looks >= looks + 2, "a look at the output before the batch")
        self.batches.plan(batch, 5 + 4 * batch)
        until(lambda: self.stack.said.count(KILL) > kills, "the first kill")

    def runs_again(self, batch):
        looks = self.stack.said.count(PAUSE)
        with self.log.open("a") as log:
            log.write(job_start("q", batch))
        until(lambda: self.stack.said.count(PAUSE) > looks, "a look at the next driver")


def test_a_driver_is_killed_again_once_it_runs_the_batch_again(batches):
    run = Next(batches, Words())
    until(lambda: run.injector.journal, "the first kill in the journal")
    assert (run.injector.journal[0].label, run.injector.journal[0].injected) == ("kill driver", True)
    run.runs_again(1)
    until(lambda: run.injector.journal[0].label == "kill driver twice", "the second kill in the journal")
    batches.commit(1)
    [fault] = run.injector.finish()

    assert run.stack.said == [PAUSE, KILL, PAUSE, KILL]
    assert (fault.label, fault.batch, fault.injected) == ("kill driver twice", 1, True)
    assert (fault.proof["app_id"], fault.proof["committed"]) == ("app-0", False)
    assert fault.proof["again"] == {
        "app_id": "app-1", "planned": True, "committed": False, "ends": {"0": 3, "1": 4},
    }  # fmt: skip


def test_a_second_kill_that_comes_too_late_leaves_the_first_and_both_are_tried_again(batches):
    class Faster(Words):
        """Whose second driver is done with batch 1 when it is stopped."""

        def pause(self, component):
            super().pause(component)
            if self.said.count(KILL) == 1:
                batches.commit(1)

    run = Next(batches, Faster())
    run.runs_again(1)
    until(lambda: RESUME in run.stack.said, "the next driver to be resumed")
    until(lambda: run.injector.journal[0].recovery_s is not None, "the recovery")
    run.dies(2)
    run.runs_again(2)
    until(lambda: run.injector.journal[-1].label == "kill driver twice", "the second kill of batch 2")
    batches.commit(2)
    until(lambda: run.injector.journal[-1].recovery_s is not None, "the recovery from both")

    run.injector.finish()
    run.injector.check()
    assert [(fault.label, fault.batch, fault.injected) for fault in run.injector.journal] == [
        ("kill driver", 1, True), ("kill driver twice", 2, True),
    ]  # fmt: skip


def test_a_run_aborted_between_two_kills_has_the_first_in_its_journal(batches):
    run = Next(batches, Words())
    until(lambda: run.injector.journal, "the first kill in the journal")
    run.injector.abort()

    run.injector.finish()
    run.injector.check()
    assert [(fault.label, fault.batch, fault.injected) for fault in run.injector.journal] == [
        ("kill driver", 1, True), ("kill driver twice", None, False),
    ]  # fmt: skip


def test_ctrl_c_while_its_thread_is_awaited_ends_an_outage_at_once(batches, monkeypatch):
    stack = Words()
    injector = injector_of(batches, stack, planned("broker", seconds=3600.0))
    begin_in_batch_1(batches, injector)
    until(lambda: ("kill", "broker") in stack.said, "the broker to be killed")
    join = injector._thread.join

    def interrupted(timeout_s=None):
        if timeout_s is None:
            raise KeyboardInterrupt
        join(timeout_s)

    monkeypatch.setattr(injector._thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        injector.finish()

    assert stack.said[-1] == ("start", "broker")


def test_a_driver_that_cannot_be_killed_is_resumed(batches):
    stack, output = Words(refused=("kill",)), Output()
    injector = injector_of(batches, stack, planned("driver"), output=output)
    begin_before_batch_1(batches, injector, output)
    until(lambda: injector.error is not None, "the error")

    injector.finish()
    assert stack.said == [PAUSE, RESUME]


class AllWritten(Output):
    """An output in which every partition has its entry for batch 1."""

    def snapshot(self):
        return {"ledger": {"0": 2, "1": 2}, "ends": {"0": 3, "1": 4}}


def test_nothing_is_injected_at_planned_into_a_batch_that_is_written(batches):
    stack = Words()
    injector = injector_of(batches, stack, planned("executor"), output=AllWritten())
    begin_in_batch_1(batches, injector)
    until(lambda: ("resumes", "driver") in stack.said, "the first try")
    batches.commit(1)
    batches.plan(2, 12)
    until(lambda: injector.journal, "the fault in batch 2")
    batches.commit(2)

    assert [(fault.batch, fault.injected) for fault in injector.finish()] == [(2, True)]


def test_a_second_kill_whose_recovery_is_cut_short_is_in_the_journal_once(batches):
    run = Next(batches, Words())
    until(lambda: run.injector.journal, "the first kill in the journal")
    run.runs_again(1)
    until(lambda: run.injector.journal[0].label == "kill driver twice", "the second kill in the journal")
    run.injector.abort()

    assert [(fault.label, fault.injected) for fault in run.injector.finish()] == [("kill driver twice", True)]
