"""The ways in which Spark can keep a join's state: store, format, changelog checkpointing."""

from __future__ import annotations

from collections.abc import Mapping

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
FORMAT_4 = "spark.sql.streaming.join.stateFormatV4.enabled"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

SPARKS_OWN = "HDFS, 2"
"""What it takes if it is not told otherwise."""
STATES: Mapping[str, Mapping[str, str]] = {
    SPARKS_OWN: {},
    "HDFS, 3": {FORMAT: "3"},
    "RocksDB, 2": {PROVIDER: ROCKSDB},
    "RocksDB, 2, changelog": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
    "RocksDB, 3": {PROVIDER: ROCKSDB, FORMAT: "3"},
    "RocksDB, 4": {PROVIDER: ROCKSDB, FORMAT: "4", FORMAT_4: "true"},
    "RocksDB, 4, changelog": {PROVIDER: ROCKSDB, FORMAT: "4", FORMAT_4: "true", CHANGELOG: "true"},
}
"""Name -> the settings that ask for it."""
UNSUPPORTED = {"HDFS, 3": "[UNSUPPORTED_FEATURE.STATE_STORE_MULTIPLE_COLUMN_FAMILIES]"}
"""Name -> how Spark refuses it: only RocksDB has column families. Since 4.3 it takes format 2 instead, and only its log
says so (``MicroBatchExecution.applyJoinStateConfigGuardrails``)."""


def named(conf: Mapping[str, str]) -> str:
    """The state that settings ask for, among others."""
    return max(
        (name for name in STATES if STATES[name].items() <= conf.items()), key=lambda name: len(STATES[name])
    )


def what_runs(state: str) -> tuple[int, str, bool]:
    """State format, store and changelog checkpointing that a run with these settings has."""
    conf = STATES[state]
    store = conf.get(PROVIDER, HDFS).rpartition(".")[2]
    return int(conf.get(FORMAT, "2")), store, CHANGELOG in conf
