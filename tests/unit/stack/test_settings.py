from __future__ import annotations

from pathlib import Path

from tidemark.stack import settings


def properties() -> dict[str, str]:
    lines = settings.broker_properties(Path("data"), 19092, 19093).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_broker_keeps_records_of_any_time():
    assert properties()["log.retention.ms"] == "-1"
    assert properties()["log.message.timestamp.after.max.ms"] == "9223372036854775807"


def test_everything_listens_on_the_loopback_address_only():
    assert properties()["listeners"] == "HOST://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    conf = settings.driver_conf(Path("/d"), Path("/e"), 1, [])
    assert {conf[name] for name in conf if "address" in name.lower() or name.endswith(".host")} == {
        "127.0.0.1"
    }


def test_one_broker_needs_no_second_replica():
    values = properties()
    assert {values[name] for name in values if name.endswith(("replication.factor", "min.isr"))} == {"1"}


def test_the_event_log_is_one_plain_file():
    conf = settings.driver_conf(Path("/d"), Path("/e"), 1, [])
    assert conf["spark.eventLog.dir"] == "file:///e"
    assert conf["spark.eventLog.compress"] == conf["spark.eventLog.rolling.enabled"] == "false"


def test_a_value_with_a_backslash_survives_the_properties_file():
    assert settings.as_spark_file({"a": "x\\y"}) == "a x\\\\y\n"
