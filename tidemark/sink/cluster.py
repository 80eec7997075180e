"""A look at the Kafka cluster before a query starts, from inside a task: is all there that the sink needs?"""

from __future__ import annotations

import time
from typing import Any

from tidemark.errors import SinkFailed, SinkRefused, TidemarkError
from tidemark.sink.faults import RIGHTS, failed
from tidemark.sink.options import SinkOptions
from tidemark.wait import pause

LOOK_S = 15.0
"""Calibration: a broker answers in 5-50 ms; one that does not within seconds is not there."""
CLIENT = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.", "enable.ssl")


def look_around(told: SinkOptions) -> dict[str, str]:
    """Make the ledger topic if there is none, and look for the output topic; what is wrong, or nothing."""
    try:
        _look(told)
    except TidemarkError as error:
        return {"message": error.message, "detail": error.detail, "hint": error.hint}
    return {}


def admin_settings(told: SinkOptions) -> dict[str, Any]:
    """Of the settings of the client those that any client has: addresses and the login."""
    chosen = {name: value for name, value in told.client.items() if name.startswith(CLIENT)}
    return {**chosen, "log_level": 3}


def _look(told: SinkOptions) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        admin = AdminClient(admin_settings(told))
        known = admin.list_topics(timeout=LOOK_S).topics
    except KafkaException as exception:
        raise failed("reach Kafka", exception.args[0]) from exception
    if told.topic and told.topic not in known:
        raise SinkRefused(
            f"there is no topic {told.topic!r}",
            detail=f"at {told.client['bootstrap.servers']}, as the executors see it",
            hint="create it, or correct the option topic",
        )
    if told.ledger not in known:
        _make_ledger(admin, told.ledger)


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
                hint=f"create it by hand, with one partition; and {RIGHTS}",
            ) from exception
    deadline = time.monotonic() + LOOK_S
    while name not in admin.list_topics(timeout=LOOK_S).topics and time.monotonic() < deadline:
        pause(0.05)
