"""One task of the exactly-once sink against a real broker, killed at each point of the protocol."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.e2e.tasks import (
    POINTS,
    UNWRITTEN,
    Writer,
    after_a_sleep,
    entries,
    is_open,
    lose_entries,
    made,
    values,
    wanted,
)
from tests.support.tiers import every_day
from tidemark.kafka import client as kafka
from tidemark.waiting import pause, wait_until

pytestmark = [pytest.mark.e2e]


@pytest.fixture
def told(stack):
    return made(stack.bootstrap_servers)


@pytest.mark.parametrize("point", POINTS)
def test_a_task_killed_anywhere_and_run_again_writes_each_row_once(point, told):
    victim = Writer(**told, stop_at=point)
    assert victim.reached() == f"at {point}"
    victim.kill()

    word, said = Writer(**told).go_on()

    assert word == "done"
    assert said["new"] == (point in UNWRITTEN)
    assert said["rows"] == 20
    assert values(told) == wanted(0)


def test_batch_follows_batch_and_the_ledger_names_the_last(told):
    for batch in range(3):
        assert Writer(**{**told, "batch": batch}).go_on()[1]["new"]

    assert values(told) == wanted(0, 1, 2)
    entry = entries(told["bootstrap"], told["query"])[0]
    assert (entry.next_batch, entry.rows, entry.topic) == (3, 20, told["topic"])


@pytest.mark.parametrize("point", ["looked-up", "begun", "produced", "sent-entry"])
def test_a_task_that_was_taken_for_dead_writes_nothing(point, told):
    word, said = after_a_sleep(told, point)
    assert word == "failed"
    assert "a second copy of the query" in said["message"]
    assert values(told) == wanted(0)


def test_a_partition_without_rows_does_not_talk_to_kafka(told):
    word, said = Writer(**{**told, "rows": 0, "bootstrap": "127.0.0.1:1"}).go_on()
    assert (word, said) == ("done", {"rows": 0, "new": False, "passed": []})


def test_a_checkpoint_that_was_rolled_back_is_refused(told):
    for batch in (0, 1, 2):
        Writer(**{**told, "batch": batch}).go_on()
    word, said = Writer(**{**told, "batch": 1}).go_on()
    assert word == "failed"
    assert "is older than the newest batch in Kafka: batch 2" in said["message"]
    assert values(told) == wanted(0, 1, 2)


def test_a_batch_of_other_input_is_refused(told):
    Writer(**told, offsets="aa").go_on()
    assert Writer(**told, offsets="aa").go_on()[0] == "done"
    word, said = Writer(**told, offsets="bb").go_on()
    assert word == "failed"
    assert "was read from other offsets" in said["message"]


def test_other_partitions_in_the_middle_of_a_batch_are_refused_by_every_task(told):
    Writer(**told, partition=1).go_on()

    for partition in (0, 1, 2):
        word, said = Writer(**told, partition=partition, run="next", options={"partitions": "3"}).go_on()
        assert word == "failed"
        assert "partitions 2 before, 3 now" in said["message"]
    assert Writer(**told, partition=0, run="back").go_on()[1]["new"]
    assert len(values(told)) == 40


def test_rows_that_differ_when_a_batch_is_run_again_are_refused(told):
    Writer(**told).go_on()
    word, said = Writer(**{**told, "rows": 19}).go_on()
    assert word == "failed"
    assert "19 rows now, 20 in Kafka" in said["message"]


def test_a_topic_that_is_not_there_is_said_at_once(told):
    word, said = Writer(**{**told, "topic": "missing"}).go_on()
    assert word == "failed"
    assert "could not find topic 'missing'" in said["message"]


def test_a_transaction_longer_than_its_timeout_is_said_so(told):
    slow = Writer(**told, stop_at="produced", options={"kafka.transaction.timeout.ms": "1000"})
    slow.reached()

    def aborted() -> bool:
        ends = kafka.end_offsets(told["bootstrap"], [told["topic"]])[told["topic"]]
        return sum(ends.values()) > 20 and not is_open(told["bootstrap"], told["topic"])

    wait_until(aborted, 60, lambda: "the broker to abort the transaction")
    word, said = slow.go_on()
    assert word == "failed"
    assert "longer than its timeout of 1 s" in said["message"]
    assert "kafka.transaction.timeout.ms" in said["message"]
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == wanted(0)


def test_a_transaction_timeout_above_the_brokers_limit_is_reported(told):
    word, said = Writer(**told, options={"kafka.transaction.timeout.ms": "86400000"}).go_on()
    assert word == "failed"
    assert "INVALID_TRANSACTION_TIMEOUT" in said["message"]
    assert "transaction.max.timeout.ms" in said["message"]


def test_a_record_above_the_brokers_size_limit_is_reported(told):
    admin = AdminClient({"bootstrap.servers": told["bootstrap"]})
    limit = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource("topic", told["topic"], incremental_configs=[limit])
    admin.incremental_alter_configs([asked])[asked].result()

    word, said = Writer(**{**told, "pad": 5000}, options={"kafka.compression.type": "none"}).go_on()

    assert word == "failed"
    assert "MSG_SIZE_TOO_LARGE" in said["message"]
    assert "max.message.bytes" in said["message"]
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == wanted(0)


BAD_ROWS = {
    "no topic": ({"columns": {"topic": [None]}}, "a row has no topic"),
    "a topic that is not there": (
        {"columns": {"topic": ["missing"]}},
        "create it, or correct the option or column topic",
    ),
    "no such partition": (
        {"columns": {"partition": [99]}},
        "the column 'partition' has a number that the topic does not",
    ),
    "a negative partition": (
        {"columns": {"partition": [-7]}},
        "the column 'partition' has a number that the topic does not",
    ),
    "a header's value": ({"columns": {"headers": [[{"key": "h", "value": 5}]]}}, "header names are text"),
    "too large": ({"last_pad": 2_000_000}, "kafka.max.request.size"),
}
GOOD_CELLS = {"partition": 0, "headers": []}


@pytest.mark.parametrize("case", every_day(BAD_ROWS, ("no topic", "no such partition", "too large")))
def test_one_row_that_cannot_be_written_fails_the_task_and_after_the_repair_each_row_is_there_once(
    case, told
):
    bad, hint = BAD_ROWS[case]
    columns = {
        name: [GOOD_CELLS.get(name, told["topic"])] * 19 + cells
        for name, cells in bad.get("columns", {}).items()
    }

    word, said = Writer(**told, **bad | ({"columns": columns} if columns else {})).go_on()

    assert word == "failed"
    assert hint in said["message"]
    assert values(told) == []
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == wanted(0)


def test_without_its_ledger_a_batch_is_written_again(told):
    """What the sink does not promise, so that nobody believes it by chance."""
    Writer(**told).go_on()
    lose_entries(told["bootstrap"], told["query"])
    assert Writer(**told).go_on()[1]["new"]
    assert len(values(told)) == 40


UNANSWERED_S = 0.5
"""How long a request may be on its way to a broker that does not answer: a thousand times what it takes."""


@contextmanager
def unanswered_commit(stack):
    """A task, and what it was told, whose commit the broker does not answer while the block lasts."""
    told = made(stack.bootstrap_servers)
    writer = Writer(**told, stop_at="sent-entry")
    writer.reached()
    stack.pause("broker")
    try:
        writer.let_go()
        pause(UNANSWERED_S)
        assert writer.process.poll() is None
        yield told, writer
    finally:
        stack.resume("broker")


@pytest.mark.long_on("compose")  # the task runs on this machine: the same there
def test_a_commit_that_is_answered_late_counts_once(own_stack):
    with unanswered_commit(own_stack) as (told, writer):
        pass
    assert writer.go_on()[1]["new"]
    assert values(told) == wanted(0)
    assert not Writer(**told).go_on()[1]["new"]


@pytest.mark.long_on("compose")
def test_a_task_killed_while_its_commit_is_unanswered_leaves_a_definite_outcome(own_stack):
    with unanswered_commit(own_stack) as (told, writer):
        writer.kill()
    assert Writer(**told).go_on()[0] == "done"
    assert values(told) == wanted(0)


@pytest.mark.long_on("compose")
@pytest.mark.parametrize("point", every_day(["produced", "sent-entry"], ["sent-entry"]))
def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(point, own_stack):
    told = made(own_stack.bootstrap_servers)
    writer = Writer(**told, stop_at=point)
    writer.reached()
    own_stack.kill("broker")
    writer.let_go()
    own_stack.start("broker")
    word, _ = writer.go_on()
    again, said = Writer(**told).go_on()
    assert (again, said["new"]) == ("done", word == "failed")
    assert values(told) == wanted(0)
