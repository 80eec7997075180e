"""Faults of the network: what counts as their effect, what is in the journal, and that the link is healed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.faults.test_injector import Words, batches, injected_in_batch_1, injector_of, planned, until
from tidemark.errors import TestbedError
from tidemark.faults import network
from tidemark.faults.network import StreamSeen, has_effect, seen_between, toxics_of
from tidemark.formats.faults import LINK_ACTIONS, FaultAction, FaultComponent
from tidemark.stack import REQUESTS, RESPONSES, LinkTraffic, StreamTraffic

__all__ = ["batches"]

NOTHING = StreamSeen(1.0, 0, 0)
PASSED, LOST = StreamSeen(1.0, 90, 90), StreamSeen(1.0, 90, 0)


def traffic(at_s, requests=(0, 0.0, 0, 0.0), responses=(0, 0.0, 0, 0.0)):
    return LinkTraffic(at_s, {REQUESTS: StreamTraffic(*requests), RESPONSES: StreamTraffic(*responses)})


@pytest.mark.parametrize(
    ("action", "requests", "responses", "shows"),
    [
        ("cut", LOST, NOTHING, True),
        ("cut", LOST, PASSED, False),
        ("cut", NOTHING, NOTHING, False),
        ("reset", LOST, LOST, True),
        ("cut-requests", LOST, PASSED, True),
        ("cut-requests", PASSED, LOST, False),
        ("cut-responses", PASSED, LOST, True),
        ("cut-responses", PASSED, NOTHING, False),
    ],
)
def test_a_cut_is_shown_by_bytes_that_came_and_did_not_pass(action, requests, responses, shows):
    during = {"requests": requests, "responses": responses}
    assert has_effect(FaultComponent.BROKER, FaultAction(action), None, during) is shows


@pytest.mark.parametrize(
    ("action", "held_ms", "shows"),
    [("delay", 160.0, True), ("delay", 20.0, False), ("throttle", 5.0, True), ("throttle", 0.3, False)],
)
def test_what_slows_is_shown_by_bytes_that_were_held(action, held_ms, shows):
    held = {"requests": StreamSeen(1.0, 90, 60, held_ms), "responses": NOTHING}
    assert has_effect(FaultComponent.BROKER, FaultAction(action), 200.0, held) is shows


@pytest.mark.parametrize(
    ("action", "sent", "received", "shows"),
    [
        ("cut", LOST, NOTHING, True),
        ("cut", PASSED, LOST, False),
        ("cut-sent", LOST, PASSED, True),
        ("cut-sent", PASSED, LOST, False),
        ("cut-received", PASSED, LOST, True),
        ("cut-received", LOST, NOTHING, False),
        ("loss", StreamSeen(1.0, 90, 80), PASSED, True),
        ("loss", PASSED, PASSED, False),
        ("throttle", StreamSeen(1.0, 90, 90, queued=3), PASSED, True),
        ("throttle", StreamSeen(1.0, 90, 60), PASSED, False),
        ("throttle", PASSED, PASSED, False),
    ],
)
def test_a_fault_of_an_executors_link_is_shown_by_packets_that_were_lost_or_had_to_wait(
    action, sent, received, shows
):
    during = {"from_executor": sent, "to_executor": received}
    assert has_effect(FaultComponent.EXECUTOR, FaultAction(action), None, during) is shows


def test_the_time_for_which_bytes_are_held_counts_those_that_are_still_there():
    """Ten bytes at 5.5 s that pass at 5.7 s, and ten at 5.9 s that are there still at 6 s: 0.15 s each."""
    first = traffic(5.0, (100, 400.0, 80, 300.0))
    last = traffic(6.0, (120, 400.0 + 10 * 5.5 + 10 * 5.9, 90, 300.0 + 10 * 5.7))

    seen = seen_between(FaultComponent.BROKER, first, last, holds=True)

    assert seen == {"requests": StreamSeen(1.0, 20, 10, 150.0), "responses": StreamSeen(1.0, 0, 0, None)}


@pytest.mark.parametrize("component", LINK_ACTIONS)
def test_each_action_of_a_link_is_another_thing(component):
    told = {str(toxics_of(action, 7)) for action in LINK_ACTIONS[component]}
    assert len(told) == len(LINK_ACTIONS[component])


def test_an_action_is_told_with_its_stream_and_its_amount():
    def told(action):
        return [(one.kind, one.stream, dict(one.attributes)) for one in toxics_of(action, 7)]

    assert told(FaultAction.CUT_RESPONSES) == [("timeout", RESPONSES, {"timeout": 0})]
    assert told(FaultAction.CUT_SENT) == [("timeout", REQUESTS, {"timeout": 0})]
    assert [one[2] for one in told(FaultAction.JITTER)] == 2 * [{"latency": 7, "jitter": 7}]
    assert [one[0:3:2] for one in told(FaultAction.LOSS)] == 2 * [("loss", {"percent": "7"})]


class Link(Words):
    """A link that loses what comes while it is disturbed, if anything comes."""

    def __init__(self, arriving=100, refused=()):
        super().__init__(refused)
        self.arriving, self.came, self.went, self.is_cut = arriving, 0, 0, False

    def watch_broker_link(self, broker, kind):
        return f"{broker}-packets" if kind == "loss" else broker

    def unwatch_links(self):
        self._word("unwatch")

    def disturb_link(self, broker, toxics):
        self._word("disturb", broker, *(toxic.stream for toxic in toxics))
        self.is_cut = True

    def heal_link(self, broker):
        self._word("heal", broker)
        self.is_cut = False
        self.arriving = 100

    def link_is_disturbed(self, broker):
        return self.is_cut

    def link_traffic(self, broker):
        self.came += self.arriving
        self.went += 0 if self.is_cut else self.arriving
        both = (self.came, 0.0, self.went, 0.0)
        return traffic(float(self.came), both, both)


def cut():
    return planned("broker", action="cut")


def test_a_cut_is_in_the_journal_with_the_bytes_before_during_and_after(batches):
    stack = Link()
    fault = injected_in_batch_1(batches, injector_of(batches, stack, cut()))

    assert (fault.label, fault.injected, fault.proof["component_name"]) == (
        "cut network of broker", True, "broker",
    )  # fmt: skip
    seen = {when: (one["requests"]["received"], one["requests"]["passed"])
            for when, one in fault.proof["traffic"].items()}  # fmt: skip
    assert seen == {"before": (100, 100), "during": (100, 0), "after": (100, 100)}
    assert [toxic["stream"] for toxic in fault.proof["toxics"]] == ["requests", "responses"]
    assert fault.proof["first_bytes_after_s"] >= 0
    assert fault.proof["committed_after_heal_s"] >= 0
    assert stack.said == [
        ("hold", "driver"), ("disturb", "broker", REQUESTS, RESPONSES), ("resumes", "driver"), ("heal", "broker"),
        ("unwatch",),
    ]  # fmt: skip


def test_packets_that_are_lost_are_those_of_the_packet_filter(batches):
    stack = Link()
    fault = injected_in_batch_1(batches, injector_of(batches, stack, planned("broker", action="loss")))

    assert (fault.label, fault.proof["component_name"]) == ("lose packets of broker", "broker")
    assert ("disturb", "broker-packets", REQUESTS, RESPONSES) in stack.said
    assert fault.proof["traffic"]["during"]["requests"]["held_ms"] is None
    assert stack.said[-2:] == [("heal", "broker-packets"), ("unwatch",)]


def test_a_cut_that_nothing_has_met_goes_on_until_something_does(batches):
    class Idle(Link):
        """On which nothing comes but from the second look during the cut on."""

        looks = 0

        def link_traffic(self, broker):
            self.looks += self.is_cut
            self.arriving = 0 if self.is_cut and self.looks < 3 else 100
            return super().link_traffic(broker)

    stack = Idle()
    fault = injected_in_batch_1(batches, injector_of(batches, stack, cut()))

    assert (fault.batch, fault.injected) == (1, True)
    assert fault.proof["traffic"]["during"]["requests"]["received"] == 100
    assert stack.looks == 3


def test_a_cut_that_nothing_met_is_tried_again_in_the_next_batch(batches, monkeypatch):
    monkeypatch.setattr(network, "MET_S", 0.0)
    stack = Link(arriving=0)
    injector = injector_of(batches, stack, cut())
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()
    until(lambda: ("heal", "broker") in stack.said, "the first cut to be healed")
    batches.commit(1)
    batches.plan(2, 13)
    until(lambda: injector.journal, "the fault in batch 2")
    batches.commit(2)

    [fault] = injector.finish()
    assert (fault.batch, fault.injected) == (2, True)


def test_an_aborted_run_heals_the_link_at_once(batches):
    stack = Link()
    hour = cut()
    injector = injector_of(batches, stack, replace(hour, spec=replace(hour.spec, duration_s=3600.0)))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()
    until(lambda: any(said[0] == "disturb" for said in stack.said), "the cut")
    injector.abort()
    injector.finish()

    assert stack.said[-2:] == [("heal", "broker"), ("unwatch",)]


def test_a_proxy_that_refuses_ends_the_run_and_the_link_is_healed(batches):
    stack = Link(refused=("disturb",))
    injector = injector_of(batches, stack, cut())
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()
    until(lambda: injector.error is not None, "the error")

    with pytest.raises(TestbedError, match="disturb was refused"):
        injector.check()
    assert stack.said[-1] == ("heal", "broker")
    assert [fault.injected for fault in injector.finish()] == [False]


class Watched(Link):
    """A stack whose executors' links are watched."""

    def watch_links(self, driver):
        self._word("watch", *(executor.executor_id for executor in self.executors(driver)))
        return ["worker-1"]

    def unwatch_links(self):
        self._word("unwatch")


def test_a_cut_of_an_executor_is_in_the_journal_with_its_worker_and_nobody_watches_after(batches):
    stack = Watched()
    fault = injected_in_batch_1(batches, injector_of(batches, stack, planned("executor", action="cut")))

    assert (fault.label, fault.proof["component_name"], fault.proof["executor_ids"]) == (
        "cut network of executor", "worker-1", ["7"],
    )  # fmt: skip
    seen = {when: (one["from_executor"]["received"], one["from_executor"]["passed"])
            for when, one in fault.proof["traffic"].items()}  # fmt: skip
    assert seen["during"] == (100, 0)
    assert seen["after"] == (100, 100)
    assert seen["before"][0] > 0
    assert [toxic["stream"] for toxic in fault.proof["toxics"]] == ["from_executor", "to_executor"]
    assert [said for said in stack.said if said[0] != "watch"] == [
        ("hold", "driver"), ("disturb", "worker-1", REQUESTS, RESPONSES), ("resumes", "driver"), ("heal", "worker-1"),
        ("unwatch",),
    ]  # fmt: skip
    assert ("watch", "7") in stack.said


def test_the_link_of_an_executor_that_came_while_the_fault_waited_is_watched_first(batches):
    stack = Watched()
    injector = injector_of(batches, stack, planned("executor", action="cut-sent"))
    batches.plan(0, 5)
    injector.start()
    until(lambda: ("watch", "7") in stack.said, "the first executor to be watched")
    stack.alive = 2
    batches.commit(0)
    batches.plan(1, 9)
    until(lambda: injector.journal, "the fault")
    batches.commit(1)

    [fault] = injector.finish()
    assert fault.proof["executor_ids"] == ["7", "8"]
    assert stack.said.index(("watch", "7", "8")) < stack.said.index(("disturb", "worker-1", REQUESTS))


def test_without_an_executor_there_is_no_link(batches):
    stack = Watched()
    stack.alive = 0
    injector = injector_of(batches, stack, planned("executor", action="cut"))
    batches.plan(0, 5)
    batches.commit(0)
    batches.plan(1, 9)
    injector.start()
    until(lambda: injector.waits_for and len(stack.said) >= 2, "a try")
    batches.commit(1)

    [fault] = injector.finish()
    assert not fault.injected
    assert not any(said[0] == "disturb" for said in stack.said)
