"""Checks the Kafka cluster before a query starts: brokers, topics, ledger topic. Runs inside a task."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tidemark.errors import SinkFailed, SinkRefused, TidemarkError
from tidemark.sink.kafka_errors import RIGHTS, failed
from tidemark.sink.sink_options import SinkOptions, read_options
from tidemark.waiting import pause

ADMIN_S = 15.0
"""Calibration: a broker answers in 5-50 ms; one that takes seconds is down."""
DESCRIBE_S = 5.0
"""Calibration: 30 ms; a denied request is answered as fast."""
RETENTION = "offsets.retention.minutes"
REQUIRED_VERSION = 4
"""The version of AddPartitionsToTxn with which brokers since 3.6 verify a transaction at its coordinator (KIP-890)."""
SUPPORTED_VERSIONS = re.compile(r"\bAddPartitionsToTxn \(\d+\) Versions \d+\.\.(\d+)")
SHARED_SETTINGS = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.", "enable.ssl")


def check_given(given: Mapping[str, str]) -> dict[str, str]:
    """:func:`check_cluster` with the options as they are given; an option that is refused is an answer, too."""
    try:
        return check_cluster(read_options(given))
    except TidemarkError as error:
        return {"message": error.message, "detail": error.detail, "hint": error.hint}


def check_cluster(options: SinkOptions) -> dict[str, str]:
    """Check brokers and topics, and create the ledger topic if it is missing.

    Returns the error (``message``, ``detail``, ``hint``), or for how many seconds the brokers keep committed offsets
    (``retention_s``); empty if the brokers do not report that.
    """
    try:
        retention_s = _check(options)
    except TidemarkError as error:
        return {"message": error.message, "detail": error.detail, "hint": error.hint}
    except ImportError as error:
        return {
            "message": "the Python environment of Spark's tasks cannot write to Kafka",
            "detail": f"{error}; interpreter: {sys.executable}",
            "hint": "install confluent-kafka on the driver and on the executors, or use Spark's own Kafka sink",
        }
    return {} if retention_s is None else {"retention_s": str(int(retention_s))}


def admin_settings(options: SinkOptions) -> dict[str, Any]:
    """The client settings that an admin client shares with the producer: addresses and security."""
    chosen = {name: value for name, value in options.client.items() if name.startswith(SHARED_SETTINGS)}
    return {**chosen, "log_level": 3}


def check_broker_versions(versions: Iterable[int]) -> None:
    """Raise ``SinkRefused`` if a broker is older than Kafka 3.6.

    ``versions`` has the newest version of AddPartitionsToTxn that each broker supports; a broker whose version is
    unknown is accepted. 3.6.0, where that check has a bug, cannot be distinguished from 3.6.1, where it is fixed.
    """
    oldest = min(versions, default=REQUIRED_VERSION)
    if oldest < REQUIRED_VERSION:
        raise SinkRefused(
            "a broker of this cluster is older than Kafka 3.6; the sink needs 3.6.1 or newer",
            detail=f"it supports AddPartitionsToTxn up to version {oldest}, not {REQUIRED_VERSION}, and so "
            f"does not verify that a "
            "record belongs to an open transaction (KIP-890): a late record of a fenced task could be committed "
            "by the next task's transaction, or block readers indefinitely",
            hint="upgrade the brokers to 3.6.1 or newer",
        )


class _VersionLog(logging.Handler):
    """Collects, from librdkafka's log, the newest version of AddPartitionsToTxn that each broker supports."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Parse one log line."""
        self.versions += map(int, SUPPORTED_VERSIONS.findall(record.getMessage()))


def _check(options: SinkOptions) -> float | None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    version_log, log = _VersionLog(), logging.Logger(__name__)  # noqa: LOG001 (private to this client)
    log.addHandler(version_log)
    try:
        settings: dict[str, Any] = {
            **admin_settings(options),
            "debug": "feature",
            "log_level": 7,
            "logger": log,
        }
        admin = AdminClient(settings)
        there = admin.list_topics(timeout=ADMIN_S)
    except KafkaException as exception:
        raise failed("reach Kafka", exception.args[0]) from exception
    retention_s = _retention_s(admin, there.brokers)
    admin.poll(0)  # delivers the log lines
    check_broker_versions(version_log.versions)
    if options.topic and options.topic not in there.topics:
        raise SinkRefused(
            f"topic {options.topic!r} does not exist",
            detail=f"on the cluster at {options.client['bootstrap.servers']}, as seen from an executor",
            hint="create the topic, or correct the option topic",
        )
    if options.ledger not in there.topics:
        _create_ledger(admin, options.ledger)
    return retention_s


def _retention_s(admin: Any, brokers: Iterable[int]) -> float | None:
    """For how many seconds the brokers keep offsets, the shortest of all; ``None`` if no broker reports it."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    asked = [ConfigResource("broker", str(broker)) for broker in brokers]
    found: list[float] = []
    for answer in admin.describe_configs(asked, request_timeout=DESCRIBE_S).values() if asked else ():
        try:
            found.append(60.0 * int(answer.result(2 * DESCRIBE_S)[RETENTION].value))
        except (KafkaException, TimeoutError, KeyError, TypeError, ValueError):
            continue  # the broker is down, denies the request, or has no such setting
    return min(found, default=None)


def _create_ledger(admin: Any, name: str) -> None:
    """Create the ledger topic: it stays empty, but offsets can only be committed for a topic that exists."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    try:
        admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(ADMIN_S)
    except KafkaException as exception:
        if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SinkFailed(
                f"ledger topic {name!r} does not exist, and the sink could not create it",
                detail=exception.args[0].str(),
                hint=f"allow CREATE on topic {name!r}, or create it yourself with one partition; and {RIGHTS}",
            ) from exception
    deadline = time.monotonic() + ADMIN_S
    while name not in admin.list_topics(timeout=ADMIN_S).topics and time.monotonic() < deadline:
        pause(0.05)
