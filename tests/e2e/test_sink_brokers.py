"""One task of the exactly-once sink on brokers old and new, with a network that delays, loses and cuts off.

What ends a transaction is a request, EndTxn, and its answer; both are held in a proxy, while tasks are killed, others
take over, or the broker dies.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.own_broker import BEFORE_4, own_broker
from tests.e2e.proxy import ANSWER, REQUEST, proxy
from tests.e2e.tasks import LEDGER, UNWRITTEN, Writer, is_open, made, values, wanted
from tidemark import kafka
from tidemark.sink.cluster import look_around
from tidemark.sink.options import read_options
from tidemark.wait import wait_until

SETTLE_S = 1.0
STALE = (47, 90)
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""


class Site:
    """A broker that can be reached directly, and through a proxy."""

    def __init__(self, broker, between) -> None:
        self.broker = broker
        self.proxy = between
        between.target = broker.second

    def told(self) -> tuple[dict, dict]:
        """What the tasks of a query are told: directly, and through the proxy."""
        directly = made(self.broker.bootstrap)
        return directly, {**directly, "bootstrap": self.proxy.address}


@pytest.fixture(scope="module", params=[None, BEFORE_4], ids=["stacks-own", BEFORE_4])
def every_tests_site(request, tmp_path_factory):
    home = tmp_path_factory.mktemp("broker")
    with proxy() as between, own_broker(home, request.param, advertised=between.port) as broker:
        yield Site(broker, between)


@pytest.fixture
def site(every_tests_site):
    yield every_tests_site
    every_tests_site.proxy.open_up()


# The protocol on either coordinator


def test_a_broker_that_is_new_enough_is_accepted(site):
    told, through = site.told()
    for bootstrap in (told["bootstrap"], through["bootstrap"]):
        options = {"kafka.bootstrap.servers": bootstrap, "topic": told["topic"]}
        assert look_around(read_options(options)) == {"kept_s": str(7 * 24 * 3600)}


@pytest.mark.parametrize(
    "points", [("starting", "looked-up", "begun"), ("produced", "sent-entry", "committed")]
)
def test_a_task_killed_anywhere_and_run_again_writes_each_row_once(points, site):
    queries = [site.told()[0] for _ in points]
    victims = [Writer(**told, stop_at=point) for told, point in zip(queries, points, strict=True)]
    for victim, point in zip(victims, points, strict=True):
        assert victim.reached() == f"at {point}"
        victim.kill()
    again = [Writer(**told) for told in queries]
    for told, point, writer in zip(queries, points, again, strict=True):
        word, said = writer.go_on()
        assert (word, said["new"]) == ("done", point in UNWRITTEN), said
        assert values(told) == wanted(0)


def test_batch_follows_batch_and_one_that_was_rolled_back_is_refused(site):
    told, _ = site.told()
    for batch in range(3):
        assert Writer(**{**told, "batch": batch}).go_on()[1]["new"]
        assert not Writer(**{**told, "batch": batch}).go_on()[1]["new"]
    word, said = Writer(**{**told, "batch": 1}).go_on()
    assert word == "failed"
    assert "is older than what Kafka holds: batch 2" in said["message"]
    assert values(told) == wanted(0, 1, 2)


@pytest.mark.parametrize("point", ["looked-up", "produced", "sent-entry"])
def test_a_task_that_was_taken_for_dead_writes_nothing(point, site):
    told, _ = site.told()
    sleeper = Writer(**told, stop_at=point)
    assert sleeper.reached() == f"at {point}"
    assert Writer(**told).go_on()[1]["new"]
    word, said = sleeper.go_on()
    assert word == "failed"
    assert "a second copy of the query" in said["message"]
    assert values(told) == wanted(0)


def test_two_live_copies_that_fence_each_other_end_with_one(site):
    told, _ = site.told()
    sleepers = []
    for point in ("initialised", "looked-up", "begun", "produced", "sent-entry"):
        sleepers.append(Writer(**told, stop_at=point))
        assert sleepers[-1].reached() == f"at {point}"
    assert is_open(told)
    for sleeper in sleepers:
        sleeper.let_go()
    *fenced, last = [sleeper.go_on() for sleeper in sleepers]
    assert (last[0], last[1]["new"]) == ("done", True)
    # The first has yet to look up the ledger, waits until the last has ended, and may find what that has written.
    assert [word for word, _ in fenced[1:]] == ["failed"] * 3
    assert fenced[0][0] == "failed" or not fenced[0][1]["new"]
    assert values(told) == wanted(0)


def test_an_open_transaction_is_taken_over_within_seconds(site):
    told, _ = site.told()
    victim = Writer(**told, stop_at="sent-entry")
    victim.reached()
    victim.kill()
    assert is_open(told)
    heir = Writer(**told, stop_at="starting")
    heir.reached()
    began = time.monotonic()
    assert heir.go_on()[1]["new"]
    took_s = time.monotonic() - began
    print(f"take-over of an open transaction, to the end of the task: {took_s:.2f} s")
    assert took_s < 10
    assert values(told) == wanted(0)


# What is lost with the ledger


def test_without_its_ledger_a_batch_is_written_again(site):
    """What the sink does not promise, so that nobody believes it by chance."""
    told, _ = site.told()
    Writer(**told).go_on()
    kafka.delete_topics(told["bootstrap"], [LEDGER])
    wait_until(lambda: LEDGER not in kafka.partitions(told["bootstrap"]), 30, lambda: "the ledger to go")
    kafka.create_topics(told["bootstrap"], {LEDGER: 1})
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == sorted(wanted(0) * 2)


def test_a_deleted_group_is_a_lost_entry(site):
    told, _ = site.told()
    Writer(**told).go_on()
    group = f"tidemark.{told['query']}.0.0"
    admin = AdminClient({"bootstrap.servers": told["bootstrap"]})
    admin.delete_consumer_groups([group])[group].result(30)
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == sorted(wanted(0) * 2)


# The end of a transaction on a bad network


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


@pytest.mark.parametrize("direction", [REQUEST, ANSWER])
def test_a_commit_whose_connection_is_cut_counts_once(direction, site):
    told, writer, held = at_its_end(site, direction)
    held.cut()
    assert writer.go_on()[1]["new"]
    assert not Writer(**told).go_on()[1]["new"]
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("direction", [REQUEST, ANSWER])
def test_a_commit_that_is_lost_on_an_open_connection_counts_once(direction, site):
    told, writer, held = at_its_end(site, direction, options={"kafka.transaction.timeout.ms": "3000"})
    held.lose()
    word, said = writer.go_on()
    again, then = Writer(**told).go_on()
    assert again == "done"
    assert then["new"] == (word == "failed"), said
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("through_the_proxy", [False, True])
@pytest.mark.parametrize(("direction", "is_taken"), [(REQUEST, False), (ANSWER, True)])
def test_a_task_killed_while_its_commit_is_on_the_way_leaves_no_doubt(
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
        wait_until(lambda: is_open(told), 30, lambda: "the first rows to arrive")
        held = site.proxy.hold(REQUEST)
        writer.let_go()
        held.await_it()
    writer.kill()
    heir = Writer(**told, stop_at="produced")
    assert heir.reached() == "at produced"
    wait_until(lambda: is_open(told), 30, lambda: "the heir's rows to arrive")

    held.let_go()

    assert held.error() in STALE
    assert is_open(told)
    assert list(kafka.read_all(told["bootstrap"], told["topic"])) == []
    assert heir.go_on()[1]["new"]
    assert values(told, SETTLE_S) == wanted(0)


@pytest.mark.parametrize("direction", [REQUEST, ANSWER])
def test_a_broker_killed_in_the_middle_of_a_commit_and_started_again_counts_it_once(direction, site):
    told, writer, held = at_its_end(site, direction)
    if direction == ANSWER:
        # A lone broker that dies before it has written the markers may forget to: readers then wait for good.
        wait_until(lambda: not is_open(told), 30, lambda: "the markers")
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
    assert seen or is_open(told)
