from __future__ import annotations

from pathlib import Path

from tidemark.stack.components import kafka_settings, spark_settings
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


def test_everything_listens_on_the_loopback_address_only():
    assert properties()["listeners"] == "HOST://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    conf = spark_settings.driver_network("127.0.0.1", "127.0.0.1", 1)
    assert {conf[name] for name in conf if "address" in name.lower() or name.endswith(".host")} == {
        "127.0.0.1"
    }


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


def test_the_event_log_is_one_plain_file():
    conf = spark_settings.driver_conf(Path("/d"), Path("/e"))
    assert conf["spark.eventLog.dir"] == "file:///e"
    assert conf["spark.eventLog.compress"] == conf["spark.eventLog.rolling.enabled"] == "false"


def test_a_value_with_a_backslash_survives_the_properties_file():
    assert spark_settings.as_spark_file({"a": "x\\y"}) == "a x\\\\y\n"


def test_files_are_written_by_a_class_that_each_spark_has():
    """Its package has another name in 4.0."""
    before, since = (spark_settings.local_files(version) for version in ("4.0.5", "4.1.4"))
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert before.pop(manager).endswith("execution.streaming.FileSystemBasedCheckpointFileManager")
    assert since.pop(manager).endswith("streaming.checkpointing.FileSystemBasedCheckpointFileManager")
    assert before == since
