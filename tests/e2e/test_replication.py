"""Three brokers: one may be lost while a join runs, and no row is."""

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


def test_every_topic_is_on_all_three_and_two_must_have_a_record(three):
    from confluent_kafka.admin import AdminClient, ConfigResource

    topic = "replicated"
    kafka.create_topics(three.bootstrap_servers, {topic: 2})
    try:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        components = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        assert [sorted(component.replicas) for component in components] == [[1, 2, 3], [1, 2, 3]]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        config = admin.describe_configs([resource])[resource].result(30)
        assert config["min.insync.replicas"].value == "2"
    finally:
        kafka.delete_topics(three.bootstrap_servers, [topic])


@pytest.mark.long_on("local")
@pytest.mark.parametrize("lost", ["broker", pytest.param("broker-3", marks=pytest.mark.long)])
def test_a_broker_is_lost_while_a_join_runs_and_no_row_is(three, judged, lost):
    """It is killed after the second slice and comes back after the fifth, so both happen while batches run."""
    killed_at, back_at, seen = 2, 5, []

    def strike(step: str, done: int, _total: int) -> None:
        if step == "publish" and done == killed_at:
            three.kill(lost)
            seen.append({component.name: component.state for component in three.status()}[lost])
        if step == "publish" and done == back_at:
            three.start(lost)
            seen.append({component.name: component.state for component in three.status()}[lost])

    verdict = judged(three, impressions=600, generator=("--slices", "8"), report=strike)

    assert seen == [ComponentState.STOPPED, ComponentState.RUNNING]
    assert verdict.verdict == "VALID", shown(verdict)
    assert verdict.goals["all_input_read"]
    assert verdict.goals["flushed"]
