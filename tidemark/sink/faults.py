"""What an error of Kafka means for the sink, and what to do about it. Free of Spark."""

from __future__ import annotations

from typing import Any

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
OLD = "brokers of Kafka 2.5 or newer are needed, 3.6.1 or newer are advised"
LOGIN = "correct kafka.security.protocol, kafka.sasl.* and kafka.ssl.*; files must be there on every executor"
SIZE = (
    "raise kafka.max.request.size (the client's limit) and the topic's max.message.bytes (the broker's), or make the "
    "value smaller; the query goes on where it stopped"
)
HINTS = {
    "MSG_SIZE_TOO_LARGE": SIZE,
    "TOPIC_AUTHORIZATION_FAILED": RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": RIGHTS,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": RIGHTS,
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


def failed(what: str, error: Any, *, known: Any = None) -> SinkFailed:
    """``error`` (a ``KafkaError``) of a step as one of ours. ``known`` is the first of a record."""
    reason = known or error
    detail = f"{reason.str()} ({reason.name()})"
    if known is not None and known.code() != error.code():
        detail += f"; of the transaction: {error.str()}"
    return SinkFailed(
        f"the exactly-once sink could not {what}",
        detail=f"{detail}\nnothing of this attempt is visible to readers at read_committed",
        hint=HINTS.get(reason.name(), AGAIN),
    )


def too_long(took_s: float, timeout_s: float, error: Any) -> SinkFailed:
    """A transaction that the broker ended because it took too long."""
    return SinkFailed(
        f"a transaction took {took_s:.0f} s, longer than its timeout of {timeout_s:.0f} s",
        detail=f"{error.str()} ({error.name()}): the broker has aborted it; nothing of this attempt is visible",
        hint="raise kafka.transaction.timeout.ms, or write fewer rows per batch (maxOffsetsPerTrigger) or partition",
    )
