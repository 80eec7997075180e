"""What an error of Kafka means for the sink, and what to do about it. Free of Spark."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidemark.errors import SinkFailed

RIGHTS = (
    "allow, for the user who writes: WRITE and DESCRIBE on transactional ids with the option transactionalIdPrefix as "
    "prefix, READ and DESCRIBE on groups with that prefix and on the ledger topic, WRITE and DESCRIBE on the topic"
)
TOPIC = (
    "create it, or correct the option topic or the column of that name; the query goes on where it stopped"
)
FENCED = (
    "where a second copy of the query runs on the same checkpoint, end it; a task that was taken for dead is harmless; "
    "a batch longer than kafka.transaction.timeout.ms needs a longer one, or fewer rows (maxOffsetsPerTrigger)"
)
OLD = "brokers of Kafka 3.6.1 or newer are needed"
LOGIN = "look at kafka.security.protocol, kafka.sasl.* and kafka.ssl.*, whose files must be there on every executor"
SIZE = (
    "raise kafka.max.request.size (the client's limit) and the topic's max.message.bytes (the broker's), or make the "
    "value smaller; the query goes on where it stopped"
)
HINTS = {
    "MSG_SIZE_TOO_LARGE": SIZE,
    "CLUSTER_AUTHORIZATION_FAILED": RIGHTS,
    "UNKNOWN_TOPIC_OR_PART": TOPIC,
    "_UNKNOWN_TOPIC": TOPIC,
    "_UNKNOWN_PARTITION": "the column 'partition' names one that the topic does not have; correct it",
    "TOPIC_EXCEPTION": TOPIC,
    "_FENCED": FENCED,
    "INVALID_PRODUCER_EPOCH": FENCED,
    "PRODUCER_FENCED": FENCED,
    "INVALID_PRODUCER_ID_MAPPING": FENCED,
    "INVALID_TRANSACTION_TIMEOUT": "set kafka.transaction.timeout.ms to what the broker allows, or less",
    "UNSUPPORTED_VERSION": OLD,
    "_UNSUPPORTED_FEATURE": OLD,
    "_AUTHENTICATION": LOGIN,
    "SASL_AUTHENTICATION_FAILED": LOGIN,
    "_SSL": LOGIN,
}
AGAIN = "the batch is run again; look whether all brokers of kafka.bootstrap.servers can be reached from the executors"
NO_ANSWER = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT")
"""What a client says of a broker that hangs up, too: a wrong login is among the reasons."""
NOTHING = "nothing of this attempt is visible to readers at read_committed"
DOUBT = "whether the commit was taken is not known: the next attempt looks, and writes the rows if they are not there"


class Place(NamedTuple):
    """What a task writes to: its group, which is its transactional id as well, the ledger topic, the output topic."""

    group: str
    ledger: str
    topic: str


def failed(
    what: str, error: Any, *, known: Any = None, place: Place | None = None, in_doubt: bool = False
) -> SinkFailed:
    """``error`` (a ``KafkaError``) of a step as one of ours. ``known`` is the first of a record.

    ``in_doubt``: a commit may have been taken all the same.
    """
    reason = known or error
    detail = f"{reason.str()} ({reason.name()})"
    if known is not None and known.code() != error.code():
        detail += f"; of the transaction: {error.str()}"
    return SinkFailed(
        f"the exactly-once sink could not {what}",
        detail=f"{detail}\n{DOUBT if in_doubt else NOTHING}",
        hint=_hint(reason, place),
    )


def cause_of(error: Any, producer: Any, timeout_s: float) -> Any:
    """What made a producer unusable: it says only that it is when it is handed a row, and why when it aborts."""
    from confluent_kafka import KafkaException

    if error.name() == "_FATAL":
        try:
            producer.abort_transaction(timeout_s)
        except KafkaException as told:
            return told.args[0]
    return error


def missing_right(error: Any, place: Place) -> str:
    """The right that an error of Kafka asks for, or nothing."""
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
        return f"{right}; in all, {RIGHTS}"
    if reason.name() in NO_ANSWER:
        return f"{AGAIN}; {LOGIN}"
    return HINTS.get(reason.name(), AGAIN)


def too_long(took_s: float, timeout_s: float, error: Any) -> SinkFailed:
    """A transaction that the broker ended because it took too long."""
    return SinkFailed(
        f"a transaction took {took_s:.0f} s, longer than its timeout of {timeout_s:.0f} s",
        detail=f"{error.str()} ({error.name()}): the broker has aborted it; nothing of this attempt is visible",
        hint="raise kafka.transaction.timeout.ms, or write fewer rows per batch (maxOffsetsPerTrigger) or partition",
    )
