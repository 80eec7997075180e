"""A connection to Kafka with a login or without: clients that say within seconds why they are not let in."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import KafkaRefused, TestbedError, UsageError
from tidemark.kafka.refused_connection import refusal

ANSWER_S = 15.0
"""Calibration: a broker answers an admin request in 5-50 ms, a broker that is starting within 5 s."""

TRY_S = 1.0
"""Of one attempt, after which is asked why there was no answer."""

FIRST_S = 2.0
"""Without an answer for so long, a broker is asked for the reason; a wrong login is heard of at once."""

NO_ANSWER = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,  # the client forgot the broker, which its metadata no longer names, before it answered
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
)
"""Error codes that mean that no broker answered."""

NOT_ALLOWED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Error codes of a right that is missing."""

SEE_LOG = "the broker's log says more: `tidemark status` names it"

Broker = str | Mapping[str, str]
"""A broker's ``HOST:PORT``, or client settings with ``bootstrap.servers``, for a broker that requires a login."""


def client_of(broker: Broker) -> dict[str, str | int | float | bool]:
    """The settings of a client of the C library."""
    return {"client.id": "tidemark", "log_level": 0, **settings_of(broker)}


def settings_of(broker: Broker) -> dict[str, str]:
    """What is set of a client, with ``bootstrap.servers``."""
    return {"bootstrap.servers": broker} if isinstance(broker, str) else dict(broker)


def address_of(broker: Broker) -> str:
    """Where a broker is."""
    return settings_of(broker).get("bootstrap.servers", "?")


def connected_admin(broker: Broker) -> AdminClient:
    """An admin client that a broker has answered.

    Raises:
        UsageError: a setting is none of Kafka's client, or a file that it names cannot be used.
        KafkaRefused: a broker refuses the login, or a certificate is not valid.
        TestbedError: none answers.
    """
    errors: list[KafkaError] = []
    admin = new_admin(broker, errors)
    deadline_s, watch = time.monotonic() + ANSWER_S, RefusalWatch(broker)
    while True:
        try:
            admin.list_topics(timeout=TRY_S)
            return admin
        except KafkaException as exception:
            last = exception.args[0]
            if last.code() not in NO_ANSWER:
                raise not_done(broker, "list its topics", last) from exception
        admin.poll(0)
        watch.raise_if_refused([*errors, last])
        if time.monotonic() >= deadline_s:
            raise unreachable(broker, (errors or [last])[-1].str())


def new_admin(broker: Broker, errors: list[KafkaError]) -> AdminClient:
    """An admin client that adds to ``errors`` what it has to say; raises ``UsageError`` for settings that are none."""
    try:
        return AdminClient({**client_of(broker), "error_cb": errors.append})  # type: ignore[dict-item]
    except KafkaException as exception:
        raise UsageError(
            f"Kafka's client cannot be made with the settings for {address_of(broker)!r}",
            detail=exception.args[0].str(),
            hint="correct the file of --kafka-conf: names are those of Kafka's Java client or of librdkafka",
        ) from exception


class RefusalWatch:
    """Whether a broker that does not answer refuses the client, or is only slow or away."""

    def __init__(self, broker: Broker) -> None:
        self._settings = settings_of(broker)
        self._since_s = time.monotonic()
        self._before = ""

    def raise_if_refused(self, errors: Sequence[KafkaError]) -> None:
        """Raise ``KafkaRefused`` once a broker has refused the client twice for the same reason.

        ``errors`` is what the client has said so far. Once is not enough: a broker that dies closes connections, too.
        """
        codes = [error.code() for error in errors]
        logins = [error for error in errors if error.code() == KafkaError._AUTHENTICATION]
        if len(logins) > 1:
            raise wrong_login(self._settings, logins[-1])
        if KafkaError._SSL not in codes and time.monotonic() - self._since_s < FIRST_S:
            return
        reason = refusal(self._settings)
        if reason is not None and reason.message == self._before:
            raise reason
        self._before = "" if reason is None else reason.message


def wrong_login(settings: Mapping[str, str], error: KafkaError) -> KafkaRefused:
    """The error for a user name or a password that the broker does not know."""
    user = settings.get("sasl.username")
    whose = f" of user {user!r}" if user else ""
    return KafkaRefused(
        f"Kafka at {settings.get('bootstrap.servers', '?')!r} does not accept the login{whose}",
        detail=f"sasl.mechanism is {settings.get('sasl.mechanism', 'not set')}; {error.str()}",
        hint="correct user name, password and mechanism in the file of --kafka-conf (sasl.jaas.config, or sasl.username"
        " and sasl.password)",
    )


def not_done(broker: Broker, what: str, error: KafkaError) -> TestbedError:
    """The error for a request that a broker has answered with an error."""
    if error.code() in NOT_ALLOWED:
        user = settings_of(broker).get("sasl.username")
        return KafkaRefused(
            f"the login{f' of user {user!r}' if user else ''} at {address_of(broker)!r} may not {what}",
            detail=f"{error.str()} ({error.name()})",
            hint="allow it; docs/howto/external-cluster.md has the table of rights",
        )
    return TestbedError(
        f"the broker at {address_of(broker)!r} did not {what}", detail=error.str(), hint=SEE_LOG
    )


def unreachable(broker: Broker, why: str) -> TestbedError:
    """The error for a broker that does not answer."""
    return TestbedError(
        f"no Kafka broker answers at {address_of(broker)!r}",
        detail=why,
        hint="check the address; `tidemark status` shows that of a stack's broker, and `tidemark up` starts one"
        + ("" if "security.protocol" in settings_of(broker) else "; a login is given with --kafka-conf FILE"),
    )
