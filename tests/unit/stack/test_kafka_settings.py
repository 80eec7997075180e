"""The settings of a broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidemark.stack.components import kafka_settings
from tidemark.stack.components.kafka_settings import BrokerNetwork

ONE = BrokerNetwork("127.0.0.1", ["127.0.0.1:19092"], [], ["127.0.0.1:19093"])
THREE = BrokerNetwork(
    "0.0.0.0",
    [f"127.0.0.1:{port}" for port in (1, 2, 3)],
    [f"{name}:9092" for name in ("broker", "broker-2", "broker-3")],
    [f"{name}:9093" for name in ("broker", "broker-2", "broker-3")],
)


def properties(node: int = 1, network: BrokerNetwork = ONE) -> dict[str, str]:
    lines = kafka_settings.broker_properties(node, Path("data"), network).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_broker_keeps_records_of_any_time():
    assert properties()["log.retention.ms"] == "-1"
    assert properties()["log.message.timestamp.after.max.ms"] == "9223372036854775807"


def test_a_local_broker_listens_on_the_loopback_address_only():
    assert properties()["listeners"] == "HOST://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"


def test_a_broker_behind_the_proxy_advertises_the_proxys_address_to_those_who_come_through_it():
    network = replace(ONE, proxied=["127.0.0.1:19094"], proxied_ports=[19095])
    values = properties(network=network)
    assert "PROXIED://127.0.0.1:19095" in values["listeners"]
    assert "PROXIED://127.0.0.1:19094" in values["advertised.listeners"]
    assert values["listener.security.protocol.map"] == "HOST:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert values["inter.broker.listener.name"] == "HOST"


def test_a_broker_in_a_container_has_one_address_for_each_side():
    values = properties(2, THREE)
    assert values["listeners"] == "HOST://0.0.0.0:2,INTERNAL://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093"
    assert values["advertised.listeners"] == (
        "HOST://127.0.0.1:2,INTERNAL://broker-2:9092,CONTROLLER://broker-2:9093"
    )
    assert values["inter.broker.listener.name"] == "INTERNAL"
    assert values["controller.quorum.voters"] == "1@broker:9093,2@broker-2:9093,3@broker-3:9093"


def test_of_three_brokers_any_one_may_be_lost():
    values = properties(1, THREE)
    assert {values[name] for name in values if name.endswith("replication.factor")} == {"3"}
    assert {values[name] for name in values if name.endswith(("min.isr", "min.insync.replicas"))} == {"2"}


def test_one_broker_needs_no_second_replica():
    values = properties()
    assert {
        values[name] for name in values if name.endswith(("replication.factor", "min.isr", "insync.replicas"))
    } == {"1"}
