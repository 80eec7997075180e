"""The thread that carries strikes out: what it waits for, what it says, and how it ends."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tidemark.chaos.scene import Scene
from tidemark.chaos.striker import Striker
from tidemark.chaos.strikes import NO_DATA, PLANNED, Sort, Strike
from tidemark.checkpoint import Checkpoint
from tidemark.errors import SinkFailed, TestbedError
from tidemark.stack import Executor
from tidemark.wait import wait_until

SOON_S = 10.0


class Output:
    """An output of two partitions in which nothing moves."""

    looks = 0

    def ends(self):
        self.looks += 1
        return {0: 3, 1: 4}

    def seen(self):
        return {"ends": {"0": 3, "1": 4}}


class Words:
    """A stack that writes down what is asked of it, and refuses what it was told to refuse."""

    def __init__(self, refused=()):
        self.said = []
        self.refused = refused

    def _word(self, *words):
        if words[0] in self.refused:
            raise TestbedError(f"{words[0]} was refused")
        self.said.append(words)

    def parts(self):
        return ["broker", "master", "worker-1", "driver"]

    def executors(self, driver):
        return [Executor("7", "worker-1", 4711, 0.0)]

    @contextmanager
    def hold(self, driver):
        self._word("hold", driver)
        try:
            yield
        finally:
            self._word("let go", driver)

    def kill(self, part):
        self._word("kill", part)

    def start(self, part):
        self._word("start", part)

    def pause(self, part):
        self._word("pause", part)

    def resume(self, part):
        self._word("resume", part)

    def kill_executor(self, driver, executor):
        self._word("kill executor", executor.executor_id)


class Batches:
    """A checkpoint, batch by batch."""

    def __init__(self, path):
        self.checkpoint = Checkpoint(path)
        for name in ("offsets", "commits"):
            (path / name).mkdir()

    def plan(self, batch, end):
        conf = '{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}'
        text = f'v1\n{conf}\n{{"lefts":{{"0":{end}}}}}\n'
        (self.checkpoint.path / "offsets" / str(batch)).write_text(text)

    def commit(self, batch):
        (self.checkpoint.path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def batches(tmp_path):
    return Batches(tmp_path)


def striker_of(batches, stack, *strikes, output=None, say=lambda _text: None):
    scene = Scene(stack, "driver", batches.checkpoint, output or Output())
    return Striker(scene, strikes, say)


def strike(part="executor", point=PLANNED, seconds=0.0, batch=1):
    return Strike(Sort(part, "kill", point, seconds), batch, 0.0)


def until(condition, what):
    wait_until(condition, SOON_S, lambda: what)


def test_a_fault_is_proved_and_its_recovery_is_the_commit_of_the_batch(batches):
    stack, output, heard = Words(), Output(), []
    striker = striker_of(batches, stack, strike(), output=output, say=heard.append)
    batches.plan(0, 5)
    striker.start()
    until(lambda: output.looks, "a look at the output before the batch")
    batches.commit(0)
    batches.plan(1, 9)
    until(lambda: striker.journal, "the fault in the journal")
    batches.commit(1)
    until(lambda: striker.journal[0].recovery_s is not None, "its recovery")
    [fault] = striker.finish()

    assert (fault.fault, fault.batch, fault.point, fault.done) == ("KillExecutor", 1, "planned", True)
    assert fault.proof == {
        "planned": True, "committed": False, "executor_id": "7", "worker": "worker-1", "pid": 4711,
        "ends_before": {"0": 3, "1": 4}, "ends": {"0": 3, "1": 4}, "ends_after": {"0": 3, "1": 4},
    }  # fmt: skip
    assert stack.said == [("hold", "driver"), ("kill executor", "7"), ("let go", "driver")]
    assert heard == [
        "KillExecutor at planned of batch 1",
        f"batch 1 is committed, {fault.recovery_s:.1f} s after KillExecutor",
    ]


def test_a_batch_of_which_the_brokers_tell_nothing_is_let_go(batches):
    class Mute(Output):
        asked = 0

        def seen(self):
            self.asked += 1
            if self.asked == 1:
                raise SinkFailed("cannot read the ledger entry")
            return super().seen()

    stack, output = Words(), Mute()
    striker = striker_of(batches, stack, strike(), output=output)
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    striker.start()
    until(lambda: output.asked, "a look at batch 1")
    batches.commit(1)
    batches.plan(2, 11)
    until(lambda: striker.journal, "the fault in batch 2")
    batches.commit(2)
    [fault] = striker.finish()

    assert (fault.batch, fault.done) == (2, True)
    assert stack.said == [
        ("hold", "driver"), ("let go", "driver"),
        ("hold", "driver"), ("kill executor", "7"), ("let go", "driver"),
    ]  # fmt: skip


def test_a_batch_that_reads_nothing_is_hit_at_no_data_only(batches):
    stack = Words()
    striker = striker_of(batches, stack, strike(point=NO_DATA), strike("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 5)  # nothing new: only the watermark has moved
    striker.start()
    until(lambda: striker.journal, "the fault at no-data")
    batches.commit(1)
    batches.plan(2, 5)
    until(lambda: stack.said.count(("hold", "driver")) == 2, "the look at batch 2")
    batches.commit(2)
    batches.plan(3, 9)
    until(lambda: len(striker.journal) == 2, "the fault at planned")
    batches.commit(3)
    until(lambda: striker.journal[1].recovery_s is not None, "its recovery")

    found = [(fault.fault, fault.batch, fault.point) for fault in striker.finish()]
    assert found == [("KillExecutor", 1, "no-data"), ("KillBroker", 3, "planned")]


def test_what_could_not_be_carried_out_before_the_end_is_not_done(batches):
    striker = striker_of(batches, Words(), strike(), strike("broker"))
    striker.start()

    assert [(fault.fault, fault.done) for fault in striker.finish()] == [
        ("KillExecutor", False),
        ("KillBroker", False),
    ]
    striker.must_be_well()


def test_whoever_publishes_hears_at_once_of_a_part_that_does_not_come_back(batches):
    striker = striker_of(batches, Words(refused=("start",)), strike("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    striker.must_be_well()
    striker.start()

    def is_said():
        try:
            striker.must_be_well()
        except TestbedError as error:
            return str(error)
        return ""

    until(is_said, "the error")
    assert "start was refused" in is_said()
    assert [fault.done for fault in striker.finish()] == [False]


def test_a_run_that_is_given_up_does_not_sit_out_an_outage(batches):
    stack = Words()
    striker = striker_of(batches, stack, strike("broker", seconds=3600.0))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    striker.start()
    until(lambda: ("kill", "broker") in stack.said, "the broker to be killed")
    striker.give_up()
    striker.finish()

    assert stack.said[-1] == ("start", "broker")
