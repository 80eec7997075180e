"""How Spark can keep a join's state: store, format, changelog checkpointing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.oracle.spark.spark_versions import Version, minor_version
from tidemark.sparkfiles.checkpoint import CHANGELOG, STATE_FORMAT, STATE_PROVIDER

if TYPE_CHECKING:
    from tidemark.oracle.compare.spark_account import SparkAccount

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FORMAT_4 = "spark.sql.streaming.join.stateFormatV4.enabled"

SPARKS_OWN = "HDFS, 2"
"""What it takes if it is not told otherwise."""
STATES: Mapping[str, Mapping[str, str]] = {
    SPARKS_OWN: {},
    "HDFS, 3": {STATE_FORMAT: "3"},
    "RocksDB, 2": {STATE_PROVIDER: ROCKSDB},
    "RocksDB, 2, changelog": {STATE_PROVIDER: ROCKSDB, CHANGELOG: "true"},
    "RocksDB, 3": {STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "3"},
    "RocksDB, 4": {STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "4", FORMAT_4: "true"},
    "RocksDB, 4, changelog": {
        STATE_PROVIDER: ROCKSDB, STATE_FORMAT: "4", FORMAT_4: "true", CHANGELOG: "true",
    },
}  # fmt: skip
"""Name -> the settings that ask for it."""
FORMAT_SINCE: Mapping[str, Version] = {"3": (4, 1), "4": (4, 2)}
"""The first Spark that has a state format; all have 2."""
STATE_READER_SINCE: Version = (4, 0)
"""The first Spark with the state data source: of others no state is compared, only metrics."""
UNSUPPORTED = {"HDFS, 3": "[UNSUPPORTED_FEATURE.STATE_STORE_MULTIPLE_COLUMN_FAMILIES]"}
"""Name -> how Spark refuses it: only RocksDB has column families. Since 4.3 it takes format 2 instead, and only its log
says so (``MicroBatchExecution.applyJoinStateConfigGuardrails``)."""


def as_known_to(spark: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Settings without a state format that a version of Spark does not have: it takes its own format instead."""
    since, version = FORMAT_SINCE.get(conf.get(STATE_FORMAT, "2")), minor_version(spark)
    if since is None or version is None or version >= since:
        return dict(conf)
    return {name: value for name, value in conf.items() if name not in (STATE_FORMAT, FORMAT_4)}


def states_of(spark: str) -> list[str]:
    """The states that a version of Spark can be asked for."""
    return [state for state, conf in STATES.items() if as_known_to(spark, conf) == conf]


def can_be_read(spark: str) -> bool:
    """Whether a version of Spark can read the state of a query."""
    return (minor_version(spark) or STATE_READER_SINCE) >= STATE_READER_SINCE


def named(conf: Mapping[str, str]) -> str:
    """The state that settings ask for, among others."""
    return max(
        (name for name in STATES if STATES[name].items() <= conf.items()), key=lambda name: len(STATES[name])
    )


def other_than(state: str, account: SparkAccount) -> str:
    """With which format, store and changelog checkpointing a run was, if not with those of the state; else nothing."""
    conf = STATES[state]
    store = conf.get(STATE_PROVIDER, HDFS).rpartition(".")[2]
    asked = int(conf.get(STATE_FORMAT, "2")), store, CHANGELOG in conf
    ran = account.format, account.provider, bool(account.changelog)
    return "" if ran == asked else f"it ran with {ran}, and not with {asked}"
