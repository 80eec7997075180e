"""Three brokers: a join loses no row, and a reader of the ledger survives, when one broker is lost."""

from __future__ import annotations

import multiprocessing
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.e2e.backends import BACKENDS
from tests.e2e.conftest import shown, stack_to_harm
from tidemark.errors import SinkFailed
from tidemark.kafka import client as kafka
from tidemark.sink.ledger import DEFAULT_LEDGER, TRY_S, Names, Reader
from tidemark.stack import ComponentState, StackSpec
from tidemark.waiting import wait_until

GROUPS = 50
"""As many as the offsets topic has partitions: each broker is the coordinator of some."""
ANSWER_S = 60.0


@pytest.fixture(scope="module", params=BACKENDS)
def three(request):
    with stack_to_harm("replicated", StackSpec(backend=request.param, brokers=3)) as stack:
        yield stack


def test_a_topic_has_three_replicas_of_which_two_must_be_in_sync(three):
    topic = "replicated"
    kafka.create_topics(three.bootstrap_servers, {topic: 2})
    try:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        assert [sorted(partition.replicas) for partition in partitions] == [[1, 2, 3], [1, 2, 3]]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        config = admin.describe_configs([resource])[resource].result(30)
        assert config["min.insync.replicas"].value == "2"
    finally:
        kafka.delete_topics(three.bootstrap_servers, [topic])


@pytest.mark.long_on("compose")
@pytest.mark.parametrize("lost", ["broker", pytest.param("broker-3", marks=pytest.mark.long)])
def test_a_join_loses_no_row_when_a_broker_is_lost(three, judged, lost):
    """The broker is killed after the second slice and restarted after the fifth, both while batches run."""
    killed_at, restarted_at, states = 2, 5, []

    def kill_and_restart(step: str, done: int, _total: int) -> None:
        if step == "publish" and done == killed_at:
            three.kill(lost)
            states.append({component.name: component.state for component in three.status()}[lost])
        if step == "publish" and done == restarted_at:
            three.start(lost)
            states.append({component.name: component.state for component in three.status()}[lost])

    verdict = judged(three, impressions=600, generator=("--slices", "8"), report=kill_and_restart)

    assert states == [ComponentState.STOPPED, ComponentState.RUNNING]
    assert verdict.verdict == "VALID", shown(verdict)
    assert verdict.goals["all_input_read"]
    assert verdict.goals["flushed"]


def read_the_ledger(bootstrap: str, answers: Synchronized) -> None:
    """Look up one group after the other until the process is ended; counts the answers."""
    names = Names("reader", str(uuid4()), "0")
    reader = Reader(lambda: AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), DEFAULT_LEDGER)
    while True:
        for partition in range(GROUPS):
            assert reader.look_up(names.group(partition), ANSWER_S) is None
            answers.value += 1


def must_answer(reader: BaseProcess, answers: Synchronized) -> None:
    """The reader lives, and each group is looked up."""
    before = answers.value
    wait_until(
        lambda: reader.exitcode is not None or answers.value >= before + GROUPS,
        ANSWER_S,
        lambda: f"{GROUPS} lookups; there were {answers.value - before}",
    )
    assert reader.exitcode is None


@pytest.mark.long
def test_a_reader_of_the_ledger_survives_brokers_that_stop_one_after_the_other(three):
    """A coordinator that has moved answers as it crashes librdkafka's admin client (librdkafka issue 5040)."""
    context = multiprocessing.get_context("spawn")
    answers = context.Value("q", 0)
    reader = context.Process(target=read_the_ledger, args=(three.bootstrap_servers, answers), daemon=True)
    reader.start()
    try:
        must_answer(reader, answers)
        for broker in ("broker", "broker-2", "broker-3"):
            three.stop(broker)
            three.start(broker)
            must_answer(reader, answers)
    finally:
        reader.kill()
        reader.join(ANSWER_S)


@pytest.mark.long_on("compose")
def test_a_reader_of_the_ledger_follows_a_coordinator_that_moved_while_its_broker_was_paused(three):
    """The broker is back and answers that it is not the coordinator; a client would ask it for 15 minutes."""
    readers = [new_reader(three), new_reader(three)]
    group = Names("moved", str(uuid4()), "0").group(0)
    [node] = {reader.coordinator(group, ANSWER_S) for reader in readers}
    broker = "broker" if node == 1 else f"broker-{node}"
    three.pause(broker)
    try:
        wait_until(
            lambda: told(new_reader(three), group) not in (None, node),
            ANSWER_S,
            lambda: f"another coordinator than node {node}",
        )
    finally:
        three.resume(broker)

    assert readers[0].look_up(group, ANSWER_S / 2) is None
    wait_until(
        lambda: told(readers[1], group) not in (None, node),
        ANSWER_S / 2,
        lambda: "the answer of another coordinator",
    )


def new_reader(stack) -> Reader:
    return Reader(lambda: AdminClient({"bootstrap.servers": stack.bootstrap_servers}), DEFAULT_LEDGER)


def told(reader: Reader, group: str) -> int | None:
    """The coordinator that the brokers name to a client; ``None`` while they name none."""
    try:
        return reader.coordinator(group, TRY_S)
    except SinkFailed:
        return None
