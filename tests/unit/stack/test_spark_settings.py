"""The settings of a driver."""

from __future__ import annotations

from pathlib import Path

from tidemark.stack.components import spark_settings


def test_a_local_driver_listens_on_the_loopback_address_only():
    conf = spark_settings.driver_network("127.0.0.1", "127.0.0.1", 1)
    assert {conf[name] for name in conf if "address" in name.lower() or name.endswith(".host")} == {
        "127.0.0.1"
    }


def test_the_event_log_is_one_plain_file():
    conf = spark_settings.driver_conf(Path("/d"), Path("/e"))
    assert conf["spark.eventLog.dir"] == "file:///e"
    assert conf["spark.eventLog.compress"] == conf["spark.eventLog.rolling.enabled"] == "false"


def test_a_value_with_a_backslash_survives_the_properties_file():
    assert spark_settings.as_spark_file({"a": "x\\y"}) == "a x\\\\y\n"


def test_files_are_written_by_a_class_that_each_spark_has():
    """Its package has another name until 4.0."""
    oldest, before, since = (spark_settings.local_files(version) for version in ("3.5.7", "4.0.5", "4.1.4"))
    assert oldest == before
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert before.pop(manager).endswith("execution.streaming.FileSystemBasedCheckpointFileManager")
    assert since.pop(manager).endswith("streaming.checkpointing.FileSystemBasedCheckpointFileManager")
    assert before == since
