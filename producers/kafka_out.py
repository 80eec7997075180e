"""The Kafka producer: sends the records of a trace with their partition, key, value, headers and timestamp.

The client is idempotent with ``acks=all``, so a retry neither duplicates nor reorders records: every duplicate in Kafka
is one of the trace. Records of transactions are sent by a second client. Before one of the two goes on, what the other
has sent is acknowledged: each partition has the order of the trace. Only failed deliveries call back into Python, which
would not keep up with a hundred thousand acknowledgements a second.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from producers.compaction import REMOVED, wait_until_compacted
from producers.transactions_out import Transactions
from tidemark.errors import TestbedError, TidemarkError, UsageError
from tidemark.formats.absent_records import CONTROL
from tidemark.formats.trace import Header, Record

DELIVERY_S = 120.0
"""Calibration: a killed broker is back in 7-14 s, on a busy machine in a few times that."""

ACK_GRACE_S = 10.0
"""The client gives up a record after ``DELIVERY_S``; this is added in case it does not."""

POLL_EVERY = 2_000
"""Records between two checks for errors: a check costs about as much as a record."""

QUEUE_RECORDS = 200_000
LARGEST_BYTES = 100_000_000
"""Above any limit of a broker, which decides how large a record may be (``max.message.bytes`` of the topic)."""

ABORT_S = 5.0
"""How long rolling back after an error may take. Calibration: 10 ms; where no broker answers, all of it."""

_POLL_S = 0.1


NO_LOGIN: Mapping[str, str] = MappingProxyType({})


class KafkaOut:
    """An open producer. ``topics`` maps the logical topics of the trace to topics in Kafka. A context manager.

    ``login`` has more settings of the client, for a broker that wants a login.
    """

    def __init__(
        self, bootstrap: str, topics: Mapping[str, str], login: Mapping[str, str] = NO_LOGIN
    ) -> None:
        self.bootstrap = bootstrap
        self.topics = dict(topics)
        self.sent: Counter[str] = Counter()
        self._since_poll = 0
        self._failed: tuple[KafkaError, str] | None = None
        self._last_error = ""
        self._broker = {**login, "bootstrap.servers": bootstrap, "log_level": 0}
        settings = {
            "client.id": "tidemark-producers",
            **self._broker,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 512 * 1024,
            "message.max.bytes": LARGEST_BYTES,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 256 * 1024,
            "message.timeout.ms": int(DELIVERY_S * 1000),
            "delivery.report.only.error": True,
            "on_delivery": self._delivered,
            "error_cb": self._note_error,
        }
        self._producer = self._latest = Producer(settings)
        self._transactions = Transactions(settings, self._broker)
        self._to_compact: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """After an error roll back an open transaction, which would block readers of committed records for minutes."""
        if kind is not None:
            if (second := self._transactions.opened) is not None:
                with suppress(KafkaException):  # none is open, or no broker answers
                    second.abort_transaction(ABORT_S)
            for producer in self._producers():
                producer.purge()

    def check_topics(self, header: Header, timeout_s: float) -> None:
        """Check that the broker answers and has all topics of the trace, each with enough partitions; raises if not."""
        try:
            known = self._producer.list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            self._producer.poll(0)
            raise unreachable(self.bootstrap, self._last_error or str(error.args[0].str())) from error
        for logical, spec in header.topics.items():
            topic = self.topics[logical]
            there = len(known[topic].partitions) if topic in known else 0
            if there < spec.partitions:
                has = f"topic {topic!r} has {there} partitions" if there else f"there is no topic {topic!r}"
                raise UsageError(
                    f"{has}; the trace needs {spec.partitions}",
                    hint="create it first, for instance with `tidemark replay --create`",
                )

    def send(self, record: Record) -> None:
        """Queue one record, or end its transaction. Raises the error of an earlier record, if its delivery failed."""
        if not record.is_plain:
            self._send_absent(record)
            return
        self._use(self._producer)
        self._produce(record, record.value_bytes())

    def _send_absent(self, record: Record) -> None:
        """Send what is in a transaction, or is not there for readers of committed records."""
        topic, number = self.topics[record.topic], record.transaction
        if number is not None and record.absent in CONTROL:
            self._transactions.end(number, record.absent, self.wait_for_acks)
            return
        if number is not None:
            self._use(self._transactions.producer(number, topic, record.partition))
        else:
            self._use(self._producer)
        value = record.value_bytes()
        if record.absent == "compacted":
            self._to_compact.add((topic, record.partition))
            value = REMOVED
        elif record.absent == "aborted":
            value = None if record.sent is None else record.sent.encode()
        self._produce(record, value)

    def _use(self, producer: Producer) -> None:
        """Send with this producer from now on; what the other one has sent is acknowledged first."""
        if producer is not self._latest:
            self.wait_for_acks()
            self._latest = producer

    def _produce(self, record: Record, value: bytes | None) -> None:
        timestamp_ms = record.arrival_ms if record.timestamp_ms is None else record.timestamp_ms
        if timestamp_ms <= 0:
            raise UsageError(
                f"a record of {record.topic!r} has the timestamp {timestamp_ms}",
                hint="Kafka's client would write the current time instead: use 1 or more,"
                " or leave timestamp_ms out for arrival_ms",
            )
        topic = self.topics[record.topic]
        while True:
            try:
                self._latest.produce(
                    topic,
                    value,
                    record.key_bytes(),
                    record.partition,
                    timestamp=timestamp_ms,
                    headers=record.header_values() or None,
                )
                break
            except BufferError:
                self._poll(_POLL_S)
            except KafkaException as error:
                raise self._refused(error.args[0], topic) from error
        self.sent[topic] += 1
        self._since_poll += 1
        if self._since_poll >= POLL_EVERY:
            self._poll(0)

    def check(self) -> None:
        """Process the client's callbacks. Raises the error of an earlier record, if its delivery failed."""
        self._poll(0)

    def wait_for_acks(self) -> None:
        """Wait until every record sent so far is acknowledged. Raises the error of one whose delivery failed."""
        deadline = time.monotonic() + DELIVERY_S + ACK_GRACE_S
        while sum(map(len, self._producers())):
            self._latest.flush(_POLL_S)
            self._poll(0)
            if time.monotonic() > deadline:
                raise unreachable(self.bootstrap, self._last_error or "records were not acknowledged")
        self._poll(0)

    def end_segments(self) -> None:
        """Let what was sent to topics that are compacted end a segment of their logs, before the next slice."""
        if self._to_compact:
            self.wait_for_acks()

    def wait_until_compacted(self) -> None:
        """Wait until compaction has removed what the trace says; raises ``TestbedError`` if it does not."""
        if self._to_compact:
            wait_until_compacted(self._broker, self._to_compact)
            self._to_compact.clear()

    def _producers(self) -> list[Producer]:
        second = self._transactions.opened
        return [self._producer] if second is None else [self._producer, second]

    def _poll(self, timeout_s: float) -> None:
        """Process the callbacks of all producers: an error of one that sends nothing counts as outstanding, too."""
        self._since_poll = 0
        for producer in self._producers():
            producer.poll(timeout_s if producer is self._latest else 0)
        if self._failed is not None:
            raise self._refused(*self._failed)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error, message.topic() or "?"

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def _refused(self, error: KafkaError, topic: str) -> TidemarkError:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return UsageError(
                f"a record is too large for topic {topic!r}",
                detail=error.str(),
                hint="raise max.message.bytes of the topic, or shorten the record",
            )
        if error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return unreachable(self.bootstrap, self._last_error or error.str())
        return TestbedError(
            f"topic {topic!r} rejected a record",
            detail=error.str(),
            hint="the broker's log says more: `tidemark status` names it",
        )


def unreachable(bootstrap: str, why: str) -> TestbedError:
    """The error for a broker that does not answer."""
    return TestbedError(
        f"no Kafka broker answers at {bootstrap!r}",
        detail=why,
        hint="`tidemark status` shows the address of the stack's broker; `tidemark up` starts one; a broker that"
        " wants a login needs --kafka-conf FILE",
    )
