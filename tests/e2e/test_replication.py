"""Three brokers: a join loses no row when one broker is lost."""

from __future__ import annotations

import pytest

from tests.e2e.backends import BACKENDS
from tests.e2e.conftest import shown, stack_to_harm
from tidemark.kafka import client as kafka
from tidemark.stack import ComponentState, StackSpec


@pytest.fixture(scope="module", params=BACKENDS)
def three(request):
    with stack_to_harm("replicated", StackSpec(backend=request.param, brokers=3)) as stack:
        yield stack


def test_a_topic_has_three_replicas_of_which_two_must_be_in_sync(three):
    from confluent_kafka.admin import AdminClient, ConfigResource

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


@pytest.mark.long_on("local")
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
