"""Faults that overlap: each in effect while the next is injected, seen together, and ended on every way out."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.unit.faults.test_injector import (
    Output,
    Words,
    batches,
    begin_before_batch_1,
    injector_of,
    job_start,
    until,
)  # fmt: skip
from tests.unit.faults.test_network import Link
from tidemark.errors import DaemonDied, TestbedError
from tidemark.faults import joint_injection
from tidemark.faults.executor import StoppedExecutor
from tidemark.faults.schedule import PlannedFault, read_schedule
from tidemark.processes import ProcessId
from tidemark.stack import ComponentState, Executor

__all__ = ["batches"]

RUNNING, PAUSED, STOPPED = ComponentState.RUNNING, ComponentState.PAUSED, ComponentState.STOPPED


class Seen(Words):
    """A stack whose components and executors are as its words have left them; a driver comes back by :meth:`back`."""

    alive = 2
    heals_by_itself = ""

    def __init__(self, refused=()):
        super().__init__(refused)
        self.pids = dict.fromkeys(("broker", "master", "worker-1", "driver"), 1)

    def _state(self, name, *, ends="start"):
        said = [
            words[0]
            for words in self.said
            if words[1:] == (name,) and words[0] in ("kill", "pause", "resume", ends)
        ]
        if name == self.heals_by_itself:
            return RUNNING
        return {"kill": STOPPED, "pause": PAUSED}.get(said[-1] if said else "", RUNNING)

    def status(self):
        return [
            SimpleNamespace(name=name, state=self._state(name), pid=pid) for name, pid in self.pids.items()
        ]

    def back(self):
        self.pids["driver"] += 1
        self._word("start", "driver")

    def executors(self, driver):
        return [one for one in super().executors(driver) if self.executor_state(one) is not STOPPED]

    def executor_state(self, executor):
        said = [words[0] for words in self.said if words[1:] == (executor.executor_id,)]
        return {"kill executor": STOPPED, "pause executor": PAUSED}.get(said[-1] if said else "", RUNNING)

    def pause_executor(self, driver, executor):
        self._word("pause executor", executor.executor_id)

    def resume_executor(self, driver, executor):
        self._word("resume executor", executor.executor_id)


def overlapping(text):
    [spec] = read_schedule(text)
    return PlannedFault(spec, 1, 0.0)


def in_batch_1(batches, stack, text, say=lambda _text: None, output=None):
    """An injector of these faults that has begun, with batch 1 planned."""
    output = output or Output()
    injector = injector_of(batches, stack, overlapping(text), output=output, say=say)
    begin_before_batch_1(batches, injector, output)
    return injector


def faults_of(batches, injector, count):
    """The journal, once so many faults were injected and batch 1 was committed."""
    until(lambda: injector.journal and injector.journal[-1].together, "the overlap")
    batches.commit(1)
    until(lambda: all(fault.recovery_s is not None for fault in injector.journal), "the recovery")
    found = injector.finish()
    injector.check()
    assert len(found) == count
    return found


def test_a_driver_is_killed_while_the_broker_is_paused_and_both_are_seen(batches):
    stack, heard = Seen(), []
    text = "broker:pause@planned~0+driver@planned"
    pause, kill = faults_of(batches, in_batch_1(batches, stack, text, heard.append), 2)

    assert stack.said == [("pause", "driver"), ("pause", "broker"), ("kill", "driver"), ("resume", "broker")]
    assert [(one.label, one.batch, one.injected, one.together) for one in (pause, kill)] == [
        ("pause broker", 1, True, text),
        ("kill driver", 1, True, text),
    ]
    assert [pause.proof["component_name"], kill.proof["app_id"]] == ["broker", "app-0"]
    assert all(one.proof["planned"] and not one.proof["committed"] for one in (pause, kill))
    assert pause.proof["overlap"] == kill.proof["overlap"]
    overlap = pause.proof["overlap"]
    assert overlap["seen"]["states"] == ["paused", "gone"]
    assert (
        pause.at_utc <= kill.at_utc <= overlap["from_utc"] <= overlap["seen"]["at_utc"] <= overlap["to_utc"]
    )
    assert overlap["to_utc"] == pause.proof["in_effect"]["to_utc"] <= kill.proof["in_effect"]["to_utc"]
    assert heard[0] == f"{text}, in batch 1"


class OfThreeBrokers(Seen):
    """A stack of three brokers."""

    def __init__(self):
        super().__init__()
        self.pids |= dict.fromkeys(("broker-2", "broker-3"), 1)

    def components(self, kind=None):
        return ["broker", "broker-2", "broker-3"] if kind == "broker" else super().components(kind)


class Led(Output):
    """An output that node 2 leads, until ``moves`` says that another does."""

    def __init__(self, moves):
        self.moves = moves

    def brokers(self, role, batch):
        return {0: 3, 1: 3} if self.moves() else {0: 2, 1: 2}


def test_the_outage_of_a_leader_lasts_until_another_leads_when_a_driver_is_killed_meanwhile(batches):
    stack, said_before = OfThreeBrokers(), []
    asked = iter(range(10))

    def moves():
        said_before.append(list(stack.said))
        return next(asked) > 2

    text = "leader@planned~0+driver@planned"
    leader, kill = faults_of(batches, in_batch_1(batches, stack, text, output=Led(moves)), 2)

    assert leader.proof["role"]["node"] == 2
    assert leader.proof["moved_to"] == 3
    assert stack.said[-1] == ("start", "broker-2")
    assert ("kill", "driver") in said_before[-1]
    assert ("start", "broker-2") not in said_before[-1]
    assert kill.proof["overlap"]["seen"]["states"] == ["stopped", "gone"]


class DisturbedAndKilled(Link, Seen):
    """A stack of which a broker's link is disturbed; ``heals`` before anybody looks."""

    heals = False

    def link_is_disturbed(self, broker):
        if self.heals:
            self.heal_link(broker)
        return super().link_is_disturbed(broker)


def test_a_driver_is_killed_while_the_proxy_says_that_the_network_is_cut(batches):
    text = "broker:cut@planned~0+driver@planned"
    cut, kill = faults_of(batches, in_batch_1(batches, DisturbedAndKilled(), text), 2)

    assert cut.proof["overlap"]["seen"]["states"] == ["disturbed", "gone"]
    assert cut.proof["traffic"]["during"]["requests"]["received"] > 0
    assert kill.together == text


def test_a_link_that_is_healed_when_it_is_looked_at_did_not_overlap(batches):
    stack = DisturbedAndKilled()
    stack.heals = True
    injector = in_batch_1(batches, stack, "broker:delay@planned~0+driver@planned")
    until(lambda: any(said[0] == "heal" for said in stack.said), "a look at the link")
    batches.commit(1)

    assert all(fault.together is None for fault in injector.finish() if fault.injected)


class SilentWhilePaused(DisturbedAndKilled):
    """Nothing comes to the link of a broker while the driver is paused by a fault."""

    def link_traffic(self, broker):
        self.arriving = 0 if self._state("driver") is PAUSED else 100
        return super().link_traffic(broker)


@pytest.mark.parametrize("text", ["driver:pause~0+broker:reset~0", "broker:cut~0+driver:pause~0"])
def test_a_link_stays_disturbed_until_something_meets_it_after_the_other_has_ended(batches, text):
    stack = SilentWhilePaused()
    found = {one.component: one for one in faults_of(batches, in_batch_1(batches, stack, text), 2)}
    pause, cut = found["driver"], found["broker"]

    said = [words[0] for words in stack.said]
    assert said.index("resume") < said.index("heal")
    assert sorted(cut.proof["overlap"]["seen"]["states"]) == ["disturbed", "paused"]
    assert (
        pause.proof["in_effect"]["to_utc"] <= cut.proof["in_effect"]["to_utc"] == cut.proof["healed_at_utc"]
    )
    assert cut.proof["overlap"]["to_utc"] == pause.proof["in_effect"]["to_utc"]
    assert cut.proof["traffic"]["during"]["requests"]["received"] > 0


def test_one_of_two_paused_executors_is_killed_and_the_other_resumed(batches):
    stack = Seen()
    text = "executors:pause@planned~0+executor@planned"
    pause, kill = faults_of(batches, in_batch_1(batches, stack, text), 2)

    assert stack.said == [
        ("hold", "driver"), ("pause executor", "7"), ("pause executor", "8"), ("kill executor", "7"),
        ("resumes", "driver"), ("resume executor", "8"),
    ]  # fmt: skip
    assert (pause.proof["executor_ids"], kill.proof["executor_id"]) == (["7", "8"], "7")
    assert pause.proof["overlap"]["seen"]["states"] == ["paused", "gone"]


def test_the_second_of_two_executors_is_another_one(batches):
    first, second = faults_of(batches, in_batch_1(batches, Seen(), "executor:pause~0+executor"), 2)

    assert (first.proof["executor_id"], second.proof["executor_id"]) == ("7", "8")


def test_a_driver_is_paused_while_the_broker_is_out(batches):
    stack = Seen()
    faults_of(batches, in_batch_1(batches, stack, "driver:pause~0+broker~0"), 2)

    assert stack.said == [
        ("hold", "driver"), ("pause", "driver"), ("kill", "broker"), ("resumes", "driver"),
        ("resume", "driver"), ("start", "broker"),
    ]  # fmt: skip


def test_what_follows_the_kill_of_a_driver_is_injected_while_the_batch_is_run_again(batches):
    stack = Seen()
    log = batches.checkpoint.path / "log"
    stack.event_log = log
    (batches.checkpoint.path / "metadata").write_text('{"id":"q"}')
    log.write_text(job_start("q", 0))
    injector = in_batch_1(batches, stack, "driver@planned+driver@planned")
    until(lambda: injector.journal, "the first kill in the journal")
    assert [(one.label, one.together) for one in injector.journal] == [("kill driver", None)]
    stack.back()
    assert stack.said.count(("kill", "driver")) == 1
    log.write_text(job_start("q", 0) + job_start("q", 1))
    first, second = faults_of(batches, injector, 2)

    assert stack.said.count(("kill", "driver")) == 2
    assert [one.proof["app_id"] for one in (first, second)] == ["app-0", "app-1"]
    assert first.proof["overlap"]["seen"]["states"] == ["gone", "gone"]
    assert first.proof["overlap"]["from_utc"] >= second.at_utc


def test_what_the_driver_before_has_written_does_not_keep_a_fault_from_the_run_after_it(batches, monkeypatch):
    all_written = {"ledger": {"0": 2, "1": 2}, "ends": {"0": 3, "1": 4}}
    monkeypatch.setattr(Output, "snapshot", lambda _output: dict(all_written))
    stack = Seen()
    stack.event_log = batches.checkpoint.path / "log"
    (batches.checkpoint.path / "metadata").write_text('{"id":"q"}')
    stack.event_log.write_text(job_start("q", 0))
    injector = in_batch_1(batches, stack, "driver@planned+executor@planned")
    until(lambda: injector.journal, "the kill of the driver in the journal")
    stack.back()
    stack.event_log.write_text(job_start("q", 0) + job_start("q", 1))

    kills = faults_of(batches, injector, 2)
    assert [(one.label, one.together) for one in kills] == [
        ("kill driver", "driver@planned+executor@planned"), ("kill executor", "driver@planned+executor@planned"),
    ]  # fmt: skip


def test_the_victims_are_looked_at_before_the_batch_goes_on_and_is_committed(batches):
    class Fast(Seen):
        """Its batch is committed as soon as the driver goes on."""

        @contextmanager
        def suspended(self, driver):
            with super().suspended(driver):
                yield
            batches.commit(1)

    both = faults_of(batches, in_batch_1(batches, Fast(), "executor@planned+broker:pause@planned~0"), 2)
    assert [one.together for one in both] == ["executor@planned+broker:pause@planned~0"] * 2
    assert both[0].proof["overlap"]["seen"]["states"] == ["gone", "paused"]


def test_faults_that_were_not_seen_together_are_single_ones_and_tried_again(batches):
    class Once(Seen):
        """Its broker goes on by itself, in batch 1."""

        heals_by_itself = "broker"

    stack = Once()
    injector = in_batch_1(batches, stack, "broker:pause~0+executor")
    until(lambda: len(injector.journal) == 2, "both in the journal")
    until(lambda: ("resume", "broker") in stack.said, "the end of the pause")
    stack.heals_by_itself = ""
    batches.commit(1)
    until(lambda: injector.journal[1].recovery_s is not None, "the recovery")
    batches.plan(2, 13)
    until(lambda: injector.journal[-1].together, "the overlap in batch 2")
    batches.commit(2)
    until(lambda: injector.journal[-1].recovery_s is not None, "its recovery")
    found = injector.finish()

    assert [(one.label, one.batch, bool(one.together), "overlap" in one.proof) for one in found] == [
        ("pause broker", 1, False, False), ("kill executor", 1, False, False),
        ("pause broker", 2, True, True), ("kill executor", 2, True, True),
    ]  # fmt: skip


def test_faults_that_never_overlapped_are_not_injected_each_with_its_line(batches):
    text = "broker:pause@planned~0+driver@planned"
    injector = injector_of(batches, Seen(), overlapping(text))
    injector.start()

    assert [(one.label, one.injected, one.together) for one in injector.finish()] == [
        ("pause broker", False, text), ("kill driver", False, text),
    ]  # fmt: skip


EIGHTH = Executor("8", "worker-1", ProcessId(4719, 0, "boot"))


class Ended(Seen):
    """A stack of which an executor has just ended, in batch 1: it is still among those of the driver."""

    is_known = False

    def executors(self, driver):
        return Words.executors(self, driver)

    def executor_state(self, executor):
        gone = not self.is_known and executor.executor_id == "8"
        return STOPPED if gone else super().executor_state(executor)

    tried = 0

    def pause_executor(self, driver, executor):
        if self.executor_state(executor) is STOPPED:
            self.tried += 1
            raise DaemonDied(f"executor {executor.executor_id} cannot be suspended")
        super().pause_executor(driver, executor)


@pytest.mark.parametrize("text", ["broker:pause@planned~0+executors:pause@planned~0", "executors:pause~0"])
def test_an_executor_that_has_just_ended_leaves_the_pause_to_the_next_batch(batches, text):
    stack = Ended()
    injector = in_batch_1(batches, stack, text)
    until(lambda: ("resume executor", "7") in stack.said, "an end of what is in effect")
    assert ("pause executor", "8") not in stack.said
    stack.is_known = True
    batches.commit(1)
    batches.plan(2, 13)
    until(lambda: injector.journal and injector.journal[-1].batch == 2, "the fault in batch 2")
    batches.commit(2)
    until(lambda: injector.journal[-1].recovery_s is not None, "the recovery")

    assert injector.finish()[-1].label == "pause all executors"


@pytest.mark.parametrize(
    "text", ["executors:pause@planned~0", "broker:pause@planned~0+executors:pause@planned~0"]
)
def test_an_executor_that_lives_and_cannot_be_paused_is_an_error_and_none_stays_paused(batches, text):
    class Stuck(Seen):
        def pause_executor(self, driver, executor):
            if executor.executor_id == "8":
                raise DaemonDied("executor 8 cannot be suspended")
            super().pause_executor(driver, executor)

    stack = Stuck()
    injector = in_batch_1(batches, stack, text)
    with pytest.raises(DaemonDied):
        until(injector.check, "the error")
    assert [words for words in stack.said if words[-1] == "7"] == [
        ("pause executor", "7"),
        ("resume executor", "7"),
    ]


def test_an_executor_that_ends_while_it_is_throttled_leaves_its_fault_to_the_next_batch(batches):
    stack = Ended()
    stack.alive = 1
    stack.executors = lambda _driver: Words.executors(stack, "driver") if stack.is_known else [EIGHTH]
    injector = in_batch_1(batches, stack, "executor:pause@half-written~0")
    until(lambda: stack.tried, "a try to stop it")
    injector.abort()

    assert [one.injected for one in injector.finish()] == [False]
    injector.check()


@pytest.mark.parametrize("refused", ["kill", "kill executor"])
def test_an_error_in_the_middle_ends_what_is_in_effect(batches, refused):
    stack = Seen(refused=(refused,))
    then = "driver" if refused == "kill" else "executor"
    injector = in_batch_1(batches, stack, f"broker:pause@planned~0+{then}@planned")

    def is_failed():
        try:
            injector.check()
        except TestbedError:
            return True
        return False

    until(is_failed, "the error")
    assert ("resume", "broker") in stack.said
    assert stack.said[-1] in (("resume", "driver"), ("resumes", "driver"), ("resume", "broker"))
    assert [(one.label, one.injected, bool(one.together)) for one in injector.finish()] == [
        ("pause broker", True, False), ("pause broker", False, True), (f"kill {then}", False, True),
    ]  # fmt: skip


def test_an_aborted_run_ends_an_overlap_at_once(batches):
    stack = Seen()
    injector = in_batch_1(batches, stack, "broker:pause@planned~3600+driver@planned")
    until(lambda: ("kill", "driver") in stack.said, "the kill")
    injector.abort()
    injector.finish()

    assert stack.said[-1] == ("resume", "broker")


def test_an_executor_paused_with_its_batch_half_written_stays_so_while_the_driver_is_killed(
    batches, monkeypatch
):
    stack = Seen()
    victim = stack.executors("driver")[0]
    ends = {"ends": {"0": 3, "1": 4}}
    stopped = StoppedExecutor(victim, ends, lambda: stack.resume_executor("driver", victim), lambda: ends)

    def stop(*_args, **_more):
        stack.pause_executor("driver", victim)
        return stopped

    monkeypatch.setattr(joint_injection, "stop_executor_at_point", stop)
    injector = in_batch_1(batches, stack, "executor:pause@half-written~0+driver@half-written")
    pause, _ = faults_of(batches, injector, 2)

    assert stack.said == [
        ("pause executor", "7"), ("hold", "driver"), ("kill", "driver"), ("resumes", "driver"),
        ("resume executor", "7"),
    ]  # fmt: skip
    assert pause.proof["overlap"]["seen"]["states"] == ["paused", "gone"]
