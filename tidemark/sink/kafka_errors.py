"""Kafka errors as the sink's own errors, with a hint for each. Free of Spark."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidemark.errors import SinkFailed

RIGHTS = (
    "allow, for the sink's user: WRITE and DESCRIBE on transactional ids with the option transactionalIdPrefix as "
    "prefix, READ and DESCRIBE on groups with that prefix and on the ledger topic, WRITE and DESCRIBE on the topic"
)
TOPIC = (
    "create it, or correct the option or column topic; after a restart the query continues where it stopped"
)
FENCED = (
    "if a second copy of the query runs on the same checkpoint, stop it; if Spark had declared this task "
    "lost and retried "
    "it, nothing needs to be done; if a batch takes longer than kafka.transaction.timeout.ms, raise that timeout or "
    "reduce maxOffsetsPerTrigger"
)
OLD = "upgrade the brokers to Kafka 3.6.1 or newer"
LOGIN = (
    "check kafka.security.protocol, kafka.sasl.* and kafka.ssl.*; their files must exist on every executor"
)
SIZE = (
    "raise kafka.max.request.size (the client's limit) and the topic's max.message.bytes (the broker's), or make the "
    "value smaller; after a restart the query continues where it stopped"
)
HINTS = {
    "MSG_SIZE_TOO_LARGE": SIZE,
    "CLUSTER_AUTHORIZATION_FAILED": RIGHTS,
    "UNKNOWN_TOPIC_OR_PART": TOPIC,
    "_UNKNOWN_TOPIC": TOPIC,
    "_UNKNOWN_PARTITION": "the column 'partition' has a number that the topic does not have; correct it",
    "TOPIC_EXCEPTION": TOPIC,
    "_FENCED": FENCED,
    "INVALID_PRODUCER_EPOCH": FENCED,
    "PRODUCER_FENCED": FENCED,
    "INVALID_PRODUCER_ID_MAPPING": FENCED,
    "INVALID_TRANSACTION_TIMEOUT": "lower kafka.transaction.timeout.ms to the brokers' "
    "transaction.max.timeout.ms or less",
    "UNSUPPORTED_VERSION": OLD,
    "_UNSUPPORTED_FEATURE": OLD,
    "_AUTHENTICATION": LOGIN,
    "SASL_AUTHENTICATION_FAILED": LOGIN,
    "_SSL": LOGIN,
}
AGAIN = "Spark retries the task; check that the executors can reach all brokers of kafka.bootstrap.servers"
NO_ANSWER = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT")
"""Errors that also occur if a broker closes the connection, for example after a failed login."""
NOTHING_VISIBLE = "no row of this attempt is visible to readers at read_committed"
OUTCOME_UNKNOWN = (
    "the outcome of the commit is unknown: the next attempt looks up the ledger, and writes "
    "the rows if they are missing"
)


class Place(NamedTuple):
    """Where a task writes: its group (also its transactional id), the ledger topic, the output topic."""

    group: str
    ledger: str
    topic: str


def failed(
    what: str, error: Any, *, known: Any = None, place: Place | None = None, outcome_unknown: bool = False
) -> SinkFailed:
    """A ``SinkFailed`` for the ``KafkaError`` of a step. ``known`` is the first delivery error, if there was one.

    ``outcome_unknown``: the commit may have succeeded.
    """
    reason = known or error
    detail = f"{reason.str()} ({reason.name()})"
    if known is not None and known.code() != error.code():
        detail += f"; error of the transaction: {error.str()}"
    return SinkFailed(
        f"the exactly-once sink could not {what}",
        detail=f"{detail}\n{OUTCOME_UNKNOWN if outcome_unknown else NOTHING_VISIBLE}",
        hint=_hint(reason, place),
    )


def cause_of(error: Any, producer: Any, timeout_s: float) -> Any:
    """Why a producer failed fatally: ``produce`` raises only ``_FATAL``; ``abort_transaction`` reports the cause."""
    from confluent_kafka import KafkaException

    if error.name() == "_FATAL":
        try:
            producer.abort_transaction(timeout_s)
        except KafkaException as abort_error:
            return abort_error.args[0]
    return error


def missing_right(error: Any, place: Place) -> str:
    """The ACL that is missing according to a Kafka error; empty if it is another error."""
    name = error.name()
    if name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
        return f"allow WRITE on transactional id {place.group!r}"
    if name == "GROUP_AUTHORIZATION_FAILED":
        return f"allow READ on group {place.group!r}"
    if name == "TOPIC_AUTHORIZATION_FAILED" and place.ledger in error.str():
        return f"allow READ on the ledger topic {place.ledger!r}"
    if name == "TOPIC_AUTHORIZATION_FAILED":
        return f"allow WRITE on topic {place.topic!r}"
    return ""


def _hint(reason: Any, place: Place | None) -> str:
    right = missing_right(reason, place) if place is not None else ""
    if right:
        return f"{right}; the full list: {RIGHTS}"
    if reason.name() in NO_ANSWER:
        return f"{AGAIN}; {LOGIN}"
    return HINTS.get(reason.name(), AGAIN)


def too_long(took_s: float, timeout_s: float, error: Any) -> SinkFailed:
    """The error for a transaction that the broker aborted at its timeout."""
    return SinkFailed(
        f"a transaction took {took_s:.0f} s, longer than its timeout of {timeout_s:.0f} s",
        detail=f"{error.str()} ({error.name()}): the broker has aborted it; no row of this attempt is visible",
        hint="raise kafka.transaction.timeout.ms, or write fewer rows per batch (maxOffsetsPerTrigger) or partition",
    )
