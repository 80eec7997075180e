"""The thread that injects faults: what it waits for, what it says, and how it ends."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tidemark.errors import DeadlineExceeded, SinkFailed, TestbedError
from tidemark.faults.injector import FaultInjector
from tidemark.faults.schedule import FaultSpec, PlannedFault
from tidemark.faults.target import FaultTarget
from tidemark.formats.faults import CommitPoint, FaultAction, FaultComponent
from tidemark.processes import ProcessId
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Executor
from tidemark.waiting import wait_until

SOON_S = 10.0
PAUSE, KILL, RESUME = ("pause", "driver"), ("kill", "driver"), ("resume", "driver")


class Output:
    """An output of two partitions in which nothing moves."""

    looks = 0

    def ends(self):
        self.looks += 1
        return {0: 3, 1: 4}

    def snapshot(self):
        return {"ends": {"0": 3, "1": 4}}


class Words:
    """A stack that records the calls, and refuses those that it is to refuse."""

    alive = 1
    event_log = None

    def __init__(self, refused=()):
        self.said = []
        self.refused = refused

    def _word(self, *words):
        if words[0] in self.refused:
            raise TestbedError(f"{words[0]} was refused")
        self.said.append(words)

    def components(self, kind=None):
        kinds = {"broker": "broker", "master": "master", "worker-1": "worker", "driver": "driver"}
        kinds |= {"master-data-1": "driver"}  # named after the contract that it is a driver of
        return [name for name, its_kind in kinds.items() if kind in (None, its_kind)]

    def executors(self, driver):
        return [
            Executor(str(7 + number), "worker-1", ProcessId(4711 + number, 0, "boot"))
            for number in range(self.alive)
        ]

    @contextmanager
    def suspended(self, driver):
        self._word("hold", driver)
        try:
            yield
        finally:
            self._word("resumes", driver)

    def kill(self, component):
        self._word("kill", component)

    def start(self, component):
        self._word("start", component)

    def pause(self, component):
        self._word("pause", component)

    def resume(self, component):
        self._word("resume", component)

    def driver(self, name):
        """It is another one after each kill; all of them have one log."""
        return SimpleNamespace(app_id=f"app-{self.said.count(('kill', name))}", event_log=self.event_log)

    def kill_executor(self, driver, executor, *, with_workers=False):
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
        self._appear(f"offsets/{batch}", text)

    def commit(self, batch):
        self._appear(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def _appear(self, name, text):
        """Whole or not at all, as Spark has it: the injector reads it at any moment."""
        aside = self.checkpoint.path / "aside"
        aside.write_text(text)
        aside.rename(self.checkpoint.path / name)


def job_start(query, batch):
    properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
    return json.dumps({"Event": "SparkListenerJobStart", "Job ID": 1, "Properties": properties}) + "\n"


@pytest.fixture
def batches(tmp_path):
    return Batches(tmp_path)


def injector_of(batches, stack, *faults, output=None, say=lambda _text: None, recovery_s=SOON_S):
    target = FaultTarget(stack, lambda: "driver", batches.checkpoint, output or Output())
    return FaultInjector(target, faults, say, recovery_s)


def planned(component="executor", point=CommitPoint.PLANNED, seconds=0.0, batch=1, action="kill"):
    spec = FaultSpec(FaultComponent(component), FaultAction(action), point, seconds)
    return PlannedFault(spec, batch, 0.0)


def until(condition, what):
    wait_until(condition, SOON_S, lambda: what)


def begin_before_batch_1(batches, injector, output):
    """Start an injector in batch 0, and plan batch 1 once it has seen where the output ends before it."""
    batches.plan(0, 5)
    injector.start()
    until(lambda: output.looks >= 2, "a look at the output before the batch")
    batches.commit(0)
    batches.plan(1, 9)


def begin_in_batch_1(batches, injector):
    """Start an injector when batch 1 is planned."""
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()


def injected_in_batch_1(batches, injector):
    """The only fault of an injector, once it was injected in batch 1 and that is committed."""
    begin_in_batch_1(batches, injector)
    until(lambda: injector.journal, "the fault in the journal")
    batches.commit(1)
    [fault] = injector.finish()
    return fault


def test_a_fault_is_proved_and_its_recovery_is_the_commit_of_the_batch(batches):
    stack, output, heard = Words(), Output(), []
    injector = injector_of(batches, stack, planned(), output=output, say=heard.append)
    begin_before_batch_1(batches, injector, output)
    until(lambda: injector.journal, "the fault in the journal")
    batches.commit(1)
    until(lambda: injector.journal[0].recovery_s is not None, "its recovery")
    [fault] = injector.finish()

    assert (fault.label, fault.batch, fault.point, fault.injected) == ("kill executor", 1, "planned", True)
    assert fault.ended_at_utc is None
    assert fault.proof == {
        "planned": True, "committed": False, "executor_id": "7", "worker": "worker-1", "pid": 4711,
        "ends_before": {"0": 3, "1": 4}, "ends": {"0": 3, "1": 4}, "ends_after": {"0": 3, "1": 4},
    }  # fmt: skip
    assert stack.said == [("hold", "driver"), ("kill executor", "7"), ("resumes", "driver")]
    assert heard == [
        "kill executor at planned of batch 1",
        f"batch 1 is committed, {fault.recovery_s:.1f} s after kill executor",
    ]


def test_a_batch_of_which_the_brokers_say_nothing_is_left_for_the_next(batches):
    class Mute(Output):
        asked = 0

        def snapshot(self):
            self.asked += 1
            if self.asked == 1:
                raise SinkFailed("cannot read the ledger entry")
            return super().snapshot()

    stack, output = Words(), Mute()
    injector = injector_of(batches, stack, planned(), output=output)
    begin_in_batch_1(batches, injector)
    until(lambda: output.asked, "a look at batch 1")
    batches.commit(1)
    batches.plan(2, 11)
    until(lambda: injector.journal, "the fault in batch 2")
    batches.commit(2)
    [fault] = injector.finish()

    assert (fault.batch, fault.injected) == (2, True)
    assert stack.said == [
        ("hold", "driver"), ("resumes", "driver"),
        ("hold", "driver"), ("kill executor", "7"), ("resumes", "driver"),
    ]  # fmt: skip


def test_a_batch_that_reads_nothing_is_hit_at_no_data_only(batches):
    stack = Words()
    injector = injector_of(batches, stack, planned(point=CommitPoint.NO_DATA), planned("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 5)  # nothing new: only the watermark has moved
    injector.start()
    until(lambda: injector.journal, "the fault at no-data")
    batches.commit(1)
    batches.plan(2, 5)
    until(lambda: stack.said.count(("hold", "driver")) == 2, "the look at batch 2")
    batches.commit(2)
    batches.plan(3, 9)
    until(lambda: len(injector.journal) == 2, "the fault at planned")
    batches.commit(3)
    until(lambda: injector.journal[1].recovery_s is not None, "its recovery")

    found = [(fault.label, fault.batch, fault.point) for fault in injector.finish()]
    assert found == [("kill executor", 1, "no-data"), ("kill broker", 3, "planned")]


def test_a_fault_that_could_not_be_injected_before_the_end_is_journalled_as_not_injected(batches):
    injector = injector_of(batches, Words(), planned(), planned("broker"))
    injector.start()

    assert [(fault.label, fault.injected) for fault in injector.finish()] == [
        ("kill executor", False),
        ("kill broker", False),
    ]
    injector.check()


def test_a_fault_whose_recovery_is_cut_short_is_in_the_journal_once(batches):
    injector = injector_of(batches, Words(), planned(), planned("broker"))
    begin_in_batch_1(batches, injector)
    until(lambda: injector.journal, "the fault in the journal")
    injector.abort()

    assert [
        (fault.label, fault.batch, fault.injected, "tried" in fault.proof) for fault in injector.finish()
    ] == [
        ("kill executor", 1, True, False),
        ("kill broker", None, False, False),
    ]


@pytest.mark.parametrize("moves", [True, False])
def test_a_batch_that_is_far_off_is_awaited_for_as_long_as_others_come_first(batches, monkeypatch, moves):
    injector = injector_of(batches, Words(), planned(batch=3))
    batches.plan(0, 5)
    until_it_is, latest = injector._until, iter([0, 1, 2])

    def too_early(condition, what, *timeout_s):
        batch = next(latest, None)
        if batch is None:
            return until_it_is(condition, what, *timeout_s)
        if moves:
            batches.commit(batch)
            batches.plan(batch + 1, 9 + batch)
        raise DeadlineExceeded("too early")

    monkeypatch.setattr(injector, "_until", too_early)
    injector.start()
    until(lambda: injector.journal or injector.error, "the fault in the journal")
    if moves:
        batches.commit(3)
    assert [fault.batch for fault in injector.finish()] == [3 if moves else None]
    assert (injector.error is None) is moves


def test_ctrl_c_while_its_thread_is_awaited_leaves_a_complete_journal(batches, monkeypatch):
    def interrupted(_timeout_s=None):
        raise KeyboardInterrupt

    injector = injector_of(batches, Words(), planned(), planned("broker"))
    injector.start()
    with monkeypatch.context() as patched:
        patched.setattr(injector._thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            injector.finish()

    assert [(fault.label, fault.injected) for fault in injector.journal] == [
        ("kill executor", False), ("kill broker", False),
    ]  # fmt: skip
    injector._thread.join()


def test_a_component_that_does_not_come_back_fails_the_next_check(batches):
    injector = injector_of(batches, Words(refused=("start",)), planned("broker"))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.check()
    injector.start()

    def is_said():
        try:
            injector.check()
        except TestbedError as error:
            return str(error)
        return ""

    until(is_said, "the error")
    assert "start was refused" in is_said()
    assert [fault.injected for fault in injector.finish()] == [False]


def test_an_aborted_run_ends_an_outage_at_once(batches):
    stack = Words()
    injector = injector_of(batches, stack, planned("broker", seconds=3600.0))
    begin_in_batch_1(batches, injector)
    until(lambda: ("kill", "broker") in stack.said, "the broker to be killed")
    injector.abort()
    injector.finish()

    assert stack.said[-1] == ("start", "broker")


def test_a_batch_committed_while_the_run_ends_counts(batches):
    class Late(Checkpoint):
        """Says what was so before the commit, and the run's end, that come while it looks."""

        def committed(self):
            before = super().committed()
            if injector.journal and 1 not in before:
                batches.commit(1)
                injector.abort()
            return before

    batches.checkpoint = Late(batches.checkpoint.path)
    injector = injector_of(batches, Words(), planned())
    begin_in_batch_1(batches, injector)
    until(lambda: injector.journal, "the fault in the journal")
    [fault] = injector.finish()

    injector.check()
    assert (fault.batch, fault.injected) == (1, True)
    assert fault.recovery_s is not None


class Growing(Output):
    """An output that grows by a row with each batch that is planned."""

    def __init__(self, batches):
        self._checkpoint = batches.checkpoint

    def ends(self):
        self.looks += 1
        return {0: len(self._checkpoint.planned()), 1: 0}

    def snapshot(self):
        return {"ends": {"0": len(self._checkpoint.planned()), "1": 0}}


def test_in_a_backlog_the_end_of_the_output_before_each_batch_is_known(batches):
    """Where the next batch is planned before the injector is done with the last one."""
    stack, output = Words(), Growing(batches)

    class Backlog(Checkpoint):
        """A query that plans the next batch in the same moment in which it commits one."""

        def committed(self):
            found = super().committed()
            if injector.journal and 1 not in found and output.looks >= looks + 2:
                batches.commit(1)
                batches.plan(2, 13)
            return super().committed()

    looks = 0
    batches.checkpoint = Backlog(batches.checkpoint.path)
    injector = injector_of(batches, stack, planned(), planned(batch=2), output=output)
    batches.plan(0, 5)
    injector.start()
    until(lambda: output.looks >= 2, "a look at the output before batch 1")
    batches.commit(0)
    looks = output.looks
    batches.plan(1, 9)
    until(lambda: len(injector.journal) == 2, "the fault in batch 2")
    batches.commit(2)
    until(lambda: injector.journal[1].recovery_s is not None, "its recovery")

    faults = injector.finish()
    assert [(fault.batch, fault.injected) for fault in faults] == [(1, True), (2, True)]
    assert [fault.proof["ends_before"] for fault in faults] == [{"0": 1, "1": 0}, {"0": 2, "1": 0}]


def test_a_driver_is_not_killed_at_planned_in_a_batch_whose_beginning_was_not_seen(batches):
    stack, output = Words(), Output()
    injector = injector_of(batches, stack, planned("driver"), output=output)
    begin_in_batch_1(batches, injector)
    until(lambda: RESUME in stack.said, "the driver to be resumed")
    looks = output.looks
    until(lambda: output.looks >= looks + 2, "a look at the output before batch 2")
    batches.commit(1)
    batches.plan(2, 11)
    until(lambda: injector.journal, "the fault in batch 2")
    batches.commit(2)

    [fault] = injector.finish()
    assert (fault.batch, fault.injected, fault.proof["ends_before"]) == (2, True, {"0": 3, "1": 4})


def test_all_executors_are_killed_while_the_driver_is_held(batches):
    stack = Words()
    stack.alive = 3
    fault = injected_in_batch_1(batches, injector_of(batches, stack, planned("executors")))

    assert (fault.label, fault.injected, fault.proof["executor_ids"]) == (
        "kill all executors",
        True,
        ["7", "8", "9"],
    )
    assert stack.said == [
        ("hold", "driver"), *(("kill executor", name) for name in "789"), ("resumes", "driver"),
    ]  # fmt: skip
