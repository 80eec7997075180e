"""How Spark can keep a join's state: store, format, changelog checkpointing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemark.oracle.spark.known_defects import ROCKSDB

if TYPE_CHECKING:
    from tidemark.oracle.compare.spark_account import SparkAccount

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
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


def other_than(state: str, account: SparkAccount) -> str:
    """With which format, store and changelog checkpointing a run was, if not with those of the state; else nothing."""
    conf = STATES[state]
    store = conf.get(PROVIDER, HDFS).rpartition(".")[2]
    asked = int(conf.get(FORMAT, "2")), store, CHANGELOG in conf
    ran = account.format, account.provider, bool(account.changelog)
    return "" if ran == asked else f"it ran with {ran}, and not with {asked}"
