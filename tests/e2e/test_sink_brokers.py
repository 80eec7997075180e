"""One task of the exactly-once sink on the coordinators of brokers before and since 4.0.

Every day on one before: on the stack's own there is ``test_sink_protocol.py``.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException

from tests.e2e.own_broker import BEFORE_4, on_brokers
from tests.e2e.tasks import LEDGER, UNWRITTEN, Writer, after_a_sleep, await_rows, lose_entries, values, wanted
from tidemark.kafka import client as kafka
from tidemark.sink.cluster_check import check_cluster
from tidemark.sink.kafka_errors import cause_of
from tidemark.sink.sink_options import WRITER_S, read_options
from tidemark.sink.task.transaction import ABORT_S, new_producer
from tidemark.waiting import wait_until

pytestmark = [on_brokers(BEFORE_4)]

# The protocol on either coordinator


def test_a_broker_that_is_new_enough_is_accepted(site):
    told, through = site.told()
    for bootstrap in (told["bootstrap"], through["bootstrap"]):
        options = {"kafka.bootstrap.servers": bootstrap, "topic": told["topic"]}
        assert check_cluster(read_options(options)) == {"retention_s": str(7 * 24 * 3600)}


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
    assert "is older than the newest batch in Kafka: batch 2" in said["message"]
    assert values(told) == wanted(0, 1, 2)


def test_a_producer_that_was_fenced_unnoticed_says_so_when_it_is_handed_a_row(site):
    told, _ = site.told()
    options = read_options({"kafka.bootstrap.servers": told["bootstrap"], "topic": told["topic"]})
    first, second = (new_producer(options, f"fenced-{told['query']}", lambda *_: None) for _ in range(2))
    first.init_transactions(ABORT_S)
    first.begin_transaction()
    second.init_transactions(ABORT_S)
    said = []

    def refused() -> bool:
        try:
            first.produce(told["topic"], b"a row")
        except KafkaException as error:
            said.append(error.args[0])
        return bool(said)

    wait_until(refused, WRITER_S, lambda: "the first to notice")

    assert said[0].name() == "_FATAL"
    assert cause_of(said[0], first, ABORT_S).name() == "_FENCED"


@pytest.mark.parametrize("point", ["looked-up", "produced", "sent-entry"])
def test_a_task_that_was_taken_for_dead_writes_nothing(point, site):
    told, _ = site.told()
    word, said = after_a_sleep(told, point)
    assert word == "failed"
    assert "a second copy of the query" in said["message"]
    assert values(told) == wanted(0)


@pytest.mark.parametrize("point", ["starting", "initialised"])
def test_a_task_that_slept_before_it_looked_finds_what_was_written_meanwhile(point, site):
    told, _ = site.told()
    word, said = after_a_sleep(told, point)
    assert (word, said.get("new")) == ("done", False), said
    assert values(told) == wanted(0)


def test_two_live_copies_that_fence_each_other_end_with_one(site):
    told, _ = site.told()
    sleepers = []
    for point in ("initialised", "looked-up", "begun", "produced", "sent-entry"):
        sleepers.append(Writer(**told, stop_at=point))
        assert sleepers[-1].reached() == f"at {point}"
    await_rows(told)  # the last one's
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
    await_rows(told)
    victim.kill()
    heir = Writer(**told, stop_at="starting")
    heir.reached()
    began = time.monotonic()
    assert heir.go_on()[1]["new"]
    took_s = time.monotonic() - began
    print(f"take-over of an open transaction, to the end of the task: {took_s:.2f} s")
    assert took_s < WRITER_S / 2, "it waited for the transaction to time out"
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
    lose_entries(told["bootstrap"], told["query"])
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == sorted(wanted(0) * 2)
