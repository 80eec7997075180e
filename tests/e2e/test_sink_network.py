"""One task of the exactly-once sink on a network that delays, loses and cuts off the end of its transaction.

What ends a transaction is a request, EndTxn, and its answer; both are held in a proxy, while tasks are killed, others
take over, or the broker dies. Every day on a broker of the stack's version, in ``make long`` also on one before 4.0.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.own_broker import STACKS_OWN, on_brokers
from tests.e2e.proxy import ANSWER, REQUEST
from tests.e2e.tasks import Writer, await_rows, is_open, values, wanted
from tests.support.tiers import every_day
from tidemark.kafka import client as kafka
from tidemark.waiting import wait_until

pytestmark = [on_brokers(STACKS_OWN)]

SETTLE_S = 1.0
STALE = (47, 90)
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""
READER = """
import sys
from confluent_kafka.admin import AdminClient
from tidemark.errors import SinkFailed
from tidemark.sink.ledger import Reader

reader = Reader(lambda: AdminClient({"bootstrap.servers": sys.argv[1], "log_level": 0}), "tidemark-ledger")
for timeout_s in sys.stdin:
    try:
        print(reader.look_up("nobody", float(timeout_s)), flush=True)
    except SinkFailed as error:
        print(error.detail, flush=True)
"""


def at_its_end(site, direction, **more):
    """A task whose end of the transaction has just gone out (or whose answer has just come) and is held."""
    directly, through = site.told()
    writer = Writer(**through, **more, stop_at="sent-entry")
    assert writer.reached() == "at sent-entry"
    held = site.proxy.hold(direction)
    writer.let_go()
    held.await_it()
    return directly, writer, held


def test_a_commit_whose_answer_is_late_counts_once(site):
    told, writer, held = at_its_end(site, ANSWER)
    assert values(told, SETTLE_S) == wanted(0)
    assert writer.process.poll() is None
    held.let_go()
    assert writer.go_on()[1]["new"]
    assert not Writer(**told).go_on()[1]["new"]
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("direction", every_day([REQUEST, ANSWER], [ANSWER]))
def test_a_commit_whose_connection_is_cut_counts_once(direction, site):
    told, writer, held = at_its_end(site, direction)
    held.cut()
    assert writer.go_on()[1]["new"]
    assert not Writer(**told).go_on()[1]["new"]
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("direction", every_day([REQUEST, ANSWER], [ANSWER]))
def test_a_commit_that_is_lost_on_an_open_connection_counts_once(direction, site):
    told, writer, held = at_its_end(site, direction, options={"kafka.transaction.timeout.ms": "3000"})
    held.lose()
    word, said = writer.go_on()
    again, then = Writer(**told).go_on()
    assert again == "done"
    assert then["new"] == (word == "failed"), said
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("through_the_proxy", every_day([False, True], [False]))
@pytest.mark.parametrize(("direction", "is_taken"), [(REQUEST, False), (ANSWER, True)])
def test_a_task_killed_while_its_commit_is_in_flight_leaves_a_definite_outcome(
    direction, is_taken, through_the_proxy, site
):
    told, writer, held = at_its_end(site, direction)
    writer.kill()
    bootstrap = site.proxy.address if through_the_proxy else told["bootstrap"]
    word, said = Writer(**{**told, "bootstrap": bootstrap}).go_on()
    assert (word, said["new"]) == ("done", not is_taken)
    held.lose()
    assert values(told, SETTLE_S) == wanted(0)


def test_a_late_commit_of_a_task_that_was_fenced_does_nothing_to_the_next_ones_batch(site):
    told, writer, held = at_its_end(site, REQUEST)
    writer.kill()
    assert Writer(**told).go_on()[1]["new"]
    held.let_go()
    assert held.error() in STALE
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_late_end_of_a_task_that_was_fenced_does_not_end_the_next_ones_transaction(is_commit, site):
    if is_commit:
        told, writer, held = at_its_end(site, REQUEST)
    else:
        told, through = site.told()
        writer = Writer(**through, last_pad=3_000_000, stop_at="producing")
        assert writer.reached() == "at producing"
        await_rows(told)
        held = site.proxy.hold(REQUEST)
        writer.let_go()
        held.await_it()
    writer.kill()
    heir = Writer(**told, stop_at="produced")
    assert heir.reached() == "at produced"
    await_rows(told)

    held.let_go()

    assert held.error() in STALE
    assert is_open(told["bootstrap"], told["topic"])
    assert list(kafka.read_all(told["bootstrap"], told["topic"])) == []
    assert heir.go_on()[1]["new"]
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("direction", every_day([REQUEST, ANSWER], [ANSWER]))
def test_a_broker_killed_in_the_middle_of_a_commit_and_started_again_counts_it_once(direction, site):
    told, writer, held = at_its_end(site, direction)
    if direction == ANSWER:
        # A lone broker that dies before it has written the markers may forget to: readers then wait for good.
        wait_until(lambda: not is_open(told["bootstrap"], told["topic"]), 30, lambda: "the markers")
    site.broker.kill()
    held.cut()
    site.broker.start()
    word, said = writer.go_on()
    assert (word, said.get("new")) == ("done", True), said
    word, said = Writer(**told).go_on()
    assert (word, said.get("new")) == ("done", False), said
    assert values(told, SETTLE_S) == wanted(0)


def test_a_broker_killed_between_a_commit_and_its_markers_doubles_nothing(site):
    """It may leave a transaction that nobody ends (``is_open``); then the sink waits, and does not write again."""
    told, writer, held = at_its_end(site, ANSWER)
    site.broker.kill()
    held.cut()
    site.broker.start()
    assert writer.go_on()[0] in ("done", "failed")

    def decided():
        word, said = Writer(**told, options={"kafka.transaction.timeout.ms": "3000"}).go_on()
        return (word, said) if word == "done" or "find-hanging" in said["message"] else None

    word, said = wait_until(decided, 90, lambda: "an attempt that knows")
    assert word == "failed" or not said["new"]
    seen = sorted(row.value for row in kafka.read_all(told["bootstrap"], told["topic"]))
    assert seen in ([], wanted(0)), seen
    assert seen or is_open(told["bootstrap"], told["topic"])


def test_who_looked_into_the_ledger_in_vain_lives_on_when_the_broker_is_back(site):
    argv = [sys.executable, "-c", READER, site.broker.bootstrap]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes) as reader:

        def answer(timeout_s: float) -> str:
            reader.stdin.write(f"{timeout_s}\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert answer(30) == "None"
        site.broker.kill()
        assert "no answer within" in answer(0.1)
        site.broker.start()
        assert [answer(30) for _ in range(3)] == ["None"] * 3
        reader.stdin.close()
        assert reader.wait(30) == 0
