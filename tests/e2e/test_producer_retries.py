"""Kafka's own producer, which Spark's sink uses, sends records twice when a broker dies: why copies are permitted.

``tidemark/oracle/delivery.py`` says how it comes about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import JavaGateway, JavaObject

from tests.e2e.own_broker import STACKS_OWN, on_brokers
from tests.e2e.proxy import ANSWER
from tests.e2e.sites import Site
from tidemark.kafka import client as kafka
from tidemark.waiting import wait_until

pytestmark = [on_brokers(STACKS_OWN)]

PRODUCE = 0
"""The API by which a producer sends records."""
ARRIVED_S = 60.0
SETTINGS = {
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
}


@pytest.fixture
def java(site: Site) -> Iterator[JavaGateway]:
    """A JVM with the broker's own version of the client, which ends with this process at the latest."""
    [py4j] = Path(pyspark.__file__).with_name("jars").glob("py4j-*.jar")
    jars = ":".join(site.broker.jars)
    gateway = JavaGateway.launch_gateway(classpath=jars, jarpath=str(py4j), die_on_exit=True)
    yield gateway
    gateway.shutdown()


def producer(java: JavaGateway, bootstrap: str) -> JavaObject:
    """An idempotent one, as they are if nothing else is said: Spark's sink says nothing else."""
    properties = java.jvm.java.util.Properties()
    for name, value in {**SETTINGS, "bootstrap.servers": bootstrap}.items():
        properties.setProperty(name, value)
    return java.jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)


def await_end(site: Site, topic: str, end: int) -> None:
    """Wait until so many records are there."""
    arrived = lambda: kafka.end_offsets(site.broker.bootstrap, [topic])[topic][0] == end  # noqa: E731
    wait_until(arrived, ARRIVED_S, lambda: f"{end} records in {topic}")


@pytest.fixture
def sent(java: JavaGateway, site: Site) -> Iterator[Callable[..., str]]:
    """A function that sends records, kills the broker when all are there and none is answered, and starts it again."""
    client = producer(java, site.proxy.address)
    record = java.jvm.org.apache.kafka.clients.producer.ProducerRecord

    def send(*values: str) -> str:
        topic = site.told()[0]["topic"]
        client.send(record(topic, 0, None, "first")).get()
        held = site.proxy.hold(ANSWER, PRODUCE)
        for end, value in enumerate(values, 2):
            client.send(record(topic, 0, None, value))
            await_end(site, topic, end)  # before the next is sent, so that each is a batch of its own
        held.await_it()
        site.broker.kill()
        held.cut()
        site.broker.start()
        client.flush()
        return topic

    yield send
    client.close()


def test_a_batch_of_records_that_had_arrived_alone_is_known_again(sent, site):
    topic = sent("a")

    assert [row.value for row in kafka.read_all(site.broker.bootstrap, topic)] == ["first", "a"]


def test_two_that_had_arrived_unanswered_are_there_twice_in_all_that_a_producer_sets(sent, site):
    topic = sent("a", "b")

    rows = list(kafka.read_all(site.broker.bootstrap, topic))
    assert [row.value for row in rows] == ["first", "a", "b", "a", "b"]
    assert [row.timestamp_ms for row in rows[1:3]] == [row.timestamp_ms for row in rows[3:]]
