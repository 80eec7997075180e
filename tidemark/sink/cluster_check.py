"""A look at the Kafka cluster before a query starts, from inside a task: is all there that the sink needs?"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from tidemark.errors import SinkFailed, SinkRefused, TidemarkError
from tidemark.sink.kafka_errors import RIGHTS, failed
from tidemark.sink.sink_options import SinkOptions
from tidemark.waiting import pause

LOOK_S = 15.0
"""Calibration: a broker answers in 5-50 ms; one that does not within seconds is not there."""
KEPT_S = 5.0
"""Calibration: 30 ms; whoever may not ask is told so as fast."""
KEPT = "offsets.retention.minutes"
NEEDED = 4
"""The version of AddPartitionsToTxn by which brokers of 3.6 and newer ask the coordinator about a transaction."""
TAKES = re.compile(r"\bAddPartitionsToTxn \(\d+\) Versions \d+\.\.(\d+)")
CLIENT = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.", "enable.ssl")


def check_cluster(told: SinkOptions) -> dict[str, str]:
    """Look at brokers and topics, and make the ledger topic if there is none.

    What is wrong (``message``, ``detail``, ``hint``); or how long brokers keep offsets (``kept_s``), if they say.
    """
    try:
        kept_s = _look(told)
    except TidemarkError as error:
        return {"message": error.message, "detail": error.detail, "hint": error.hint}
    except ImportError as error:
        return {
            "message": "the Python that runs Spark's tasks cannot write to Kafka",
            "detail": f"{error}; it is {sys.executable}",
            "hint": "install confluent-kafka there, on the driver and on the executors, or use Spark's own Kafka sink",
        }
    return {} if kept_s is None else {"kept_s": str(int(kept_s))}


def admin_settings(told: SinkOptions) -> dict[str, Any]:
    """Of the settings of the client those that any client has: addresses and the login."""
    chosen = {name: value for name, value in told.client.items() if name.startswith(CLIENT)}
    return {**chosen, "log_level": 3}


def must_be_new_enough(versions: Iterable[int]) -> None:
    """Raise ``SinkRefused`` if a broker is older than Kafka 3.6, by the newest AddPartitionsToTxn that each takes.

    It cannot tell 3.6.0 from 3.6.1, which mended a fault of that check. What is not known is not refused.
    """
    oldest = min(versions, default=NEEDED)
    if oldest < NEEDED:
        raise SinkRefused(
            "a broker of this cluster is older than Kafka 3.6, and 3.6.1 or newer is needed",
            detail=f"it takes AddPartitionsToTxn up to version {oldest}, not {NEEDED}, and so does not ask whether a "
            "record belongs to a transaction that goes on: a late one of a task that was taken for dead could be "
            "committed with the next task's, or block readers for good",
            hint="upgrade the brokers to 3.6.1 or newer",
        )


class _Heard(logging.Handler):
    """Takes from librdkafka's log which versions of AddPartitionsToTxn each broker takes."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Read one line."""
        self.versions += map(int, TAKES.findall(record.getMessage()))


def _look(told: SinkOptions) -> float | None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    heard, log = _Heard(), logging.Logger(__name__)  # noqa: LOG001 - nobody else's, and gone with the client
    log.addHandler(heard)
    try:
        settings: dict[str, Any] = {**admin_settings(told), "debug": "feature", "log_level": 7, "logger": log}
        admin = AdminClient(settings)
        there = admin.list_topics(timeout=LOOK_S)
    except KafkaException as exception:
        raise failed("reach Kafka", exception.args[0]) from exception
    kept_s = _kept_s(admin, there.brokers)
    admin.poll(0)  # hands over the log
    must_be_new_enough(heard.versions)
    if told.topic and told.topic not in there.topics:
        raise SinkRefused(
            f"there is no topic {told.topic!r}",
            detail=f"at {told.client['bootstrap.servers']}, as the executors see it",
            hint="create it, or correct the option topic",
        )
    if told.ledger not in there.topics:
        _make_ledger(admin, told.ledger)
    return kept_s


def _kept_s(admin: Any, brokers: Iterable[int]) -> float | None:
    """For how many seconds brokers keep offsets; ``None`` if they do not say. Talks to each of them."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    asked = [ConfigResource("broker", str(broker)) for broker in brokers]
    found: list[float] = []
    for answer in admin.describe_configs(asked, request_timeout=KEPT_S).values() if asked else ():
        try:
            found.append(60.0 * int(answer.result(2 * KEPT_S)[KEPT].value))
        except (KafkaException, TimeoutError, KeyError, TypeError, ValueError):
            continue  # it is down, will not say, or has no such setting
    return min(found, default=None)


def _make_ledger(admin: Any, name: str) -> None:
    """One partition, never written to: offsets can only be committed for a topic that is there."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    try:
        admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(LOOK_S)
    except KafkaException as exception:
        if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SinkFailed(
                f"there is no ledger topic {name!r}, and it could not be made",
                detail=exception.args[0].str(),
                hint=f"allow CREATE on topic {name!r}, or create it by hand, with one partition; and {RIGHTS}",
            ) from exception
    deadline = time.monotonic() + LOOK_S
    while name not in admin.list_topics(timeout=LOOK_S).topics and time.monotonic() < deadline:
        pause(0.05)
