"""The protocol by which one task writes its rows exactly once. Free of Spark; tested against real brokers only.

    first rows -> new producer -> init_transactions -> look up the ledger
      next == batch + 1   the rows are in Kafka: verify them, write nothing
      next >  batch + 1   the checkpoint is older than the topic: refuse
      else                begin -> produce -> send_offsets (the ledger entry) -> commit -> close

Why it is correct: at most one transaction with a given entry is ever committed. ``init_transactions`` returns only when
every transaction of an earlier producer of this id has ended and those producers are fenced; the lookup comes after it.
So either a task finds its predecessor's entry, or its predecessor's rows are never committed. A producer object makes
one transaction only: within one producer epoch, a delayed EndTxn request could end the next transaction.

A partition without rows sends nothing to Kafka. An error before the commit request aborts the transaction. If the
response to the commit is lost, the commit is retried; if that fails too, the lookup of the next attempt decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tidemark.errors import SinkFailed
from tidemark.sink.cluster_check import admin_settings
from tidemark.sink.kafka_errors import Place, cause_of, failed, too_long
from tidemark.sink.ledger import LedgerEntry, Names, Reader, group_metadata
from tidemark.sink.ledger_checks import Task, check_entry, check_fingerprint
from tidemark.sink.records import KeySum, plain, records
from tidemark.sink.sink_options import SinkOptions

SPARSE_CONNECTIONS = "enable.sparse.connections"
"""An undocumented setting of librdkafka: connect to a broker only when there is a request for it."""
ABORT_S = 5.0
"""Calibration: an abort takes 5-20 ms."""
BUFFER_POLL_S = 0.005
COMMIT = "commit its transaction"
TRY_S = 10.0
"""Timeout of one try of a request that is retried: 10 times the slowest answer of a healthy broker."""


@dataclass(frozen=True)
class Written:
    """Result of a task: ``rows`` of its partition are in Kafka, written by this attempt (``new``) or an earlier one."""

    partition: int
    rows: int
    new: bool


def no_hook(point: str) -> None:
    """The default hook for protocol points: does nothing."""


def write_task(
    batches: Iterable[Any], task: Task, options: SinkOptions, at: Callable[[str], None] = no_hook
) -> Written:
    """Write the rows (Arrow batches) of one partition of one batch, unless the ledger shows that they are written.

    ``at`` is called with the name of each point of the protocol: a hook for tests and faults (``held_steps``).

    Raises:
        SinkRefused: settings, checkpoint and ledger contradict each other; a retry cannot succeed.
        SinkFailed: a request to Kafka failed; no row of this attempt is visible.
    """
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return Written(task.partition, 0, new=False)
    at("first-rows")
    with TransactionWriter(task, options, at) as writer:
        entry = writer.ledger_entry()
        at("looked-up")
        if entry is not None and entry.next_batch == task.batch + 1:
            if task.partitions > 1:
                check_fingerprint(entry, _fingerprint(chain([first], rows)), task)
            return Written(task.partition, entry.rows, new=False)
        count = writer.write(chain([first], rows))
        at("committed")
    at("closed")
    return Written(task.partition, count, new=True)


class TransactionWriter:
    """One producer and its only transaction. A context manager."""

    def __init__(self, task: Task, options: SinkOptions, at: Callable[[str], None] = no_hook) -> None:
        self._task = task
        self._options = options
        self._at = at
        self._names = Names(options.prefix, task.query, options.sink)
        self._group = self._names.group(task.partition)
        self._place = Place(self._group, options.ledger, options.topic or "of the row")
        self._deadline = time.monotonic() + options.timeout_s
        self._delivery_errors: list[Any] = []
        self._cluster = ""

    def __enter__(self) -> TransactionWriter:
        self._producer = new_producer(self._options, self._group, self._on_delivery)
        return self

    def __exit__(self, *_exc: object) -> None:
        from confluent_kafka import KafkaException

        close = getattr(
            self._producer, "close", None
        )  # before 2.13 a producer closes when it is garbage-collected
        if close is not None:
            try:
                close()
            except KafkaException:
                return  # a fenced producer cannot close; its uncommitted rows are not visible

    def ledger_entry(self) -> LedgerEntry | None:
        """This partition's entry, after checking that no other layout of this batch has been written.

        In the first batch of a run this looks up every entry of the query, also of partitions that no longer exist. If
        the driver can read the checkpoint, it has fenced the earlier attempts already (``takeover.py``), and committed
        entries suffice; otherwise the lookup waits for open transactions.
        """
        own, task = self.own_entry(), self._task
        if own is not None and (own.next_batch == task.batch + 1 or own.run == task.run):
            return own
        numbers = {*range(task.partitions), *self._ledger.listed(self._names)} - {task.partition}
        for group in map(self._names.group, sorted(numbers)):
            stable = not task.offsets
            entry = self._ledger.look_up(group, self._options.timeout_s, stable=stable)
            if entry is not None:
                check_entry(entry, self._new_entry(0, ""), task)
        return own

    def own_entry(self) -> LedgerEntry | None:
        """This partition's entry. Fences earlier producers of this id before the lookup; the order matters."""
        self._ledger = ledger_reader(self._options)
        with ThreadPoolExecutor(1) as other:
            ready = other.submit(self._initialise)
            self._cluster = self._cluster_id(self._ledger.admin)
            ready.result()
        self._at("initialised")
        own = self._ledger.look_up(self._group, self._options.timeout_s)
        if own is not None:
            check_entry(own, self._new_entry(0, ""), self._task)
        return own

    def write(self, batches: Iterator[Any]) -> int:
        """Write rows and entry in one transaction; returns the number of rows."""
        keys: list[KeySum] = []

        def send() -> None:
            keys.append(self._produce(batches))
            self._at("produced")
            self._send_entry(self._new_entry(keys[0].rows, str(keys[0])))

        self._in_transaction(send)
        return keys[0].rows

    def open_ledger(self) -> None:
        """Write an entry without rows, for the batch before the task's own."""
        entry = replace(self._new_entry(0, ""), next_batch=self._task.batch)
        self._in_transaction(lambda: self._send_entry(entry))

    def _in_transaction(self, send: Callable[[], None]) -> None:
        """Begin a transaction, send, commit; abort on any error."""
        from confluent_kafka import KafkaError

        began = time.monotonic()
        self._deadline = began + self._options.timeout_s
        self._request("begin a transaction", self._producer.begin_transaction)
        try:
            self._at("begun")
            send()
            self._at("sent-entry")
            self._request(COMMIT, lambda: self._producer.commit_transaction(TRY_S), again=True)
        except BaseException as error:
            self._abort()
            took_s = time.monotonic() - began
            cause = getattr(error.__cause__, "args", [None])[0]
            is_ended = isinstance(cause, KafkaError) and not cause.retriable()
            if isinstance(error, SinkFailed) and is_ended and took_s > self._options.timeout_s:
                raise too_long(took_s, self._options.timeout_s, cause) from error
            raise

    def _initialise(self) -> None:
        self._at("starting")
        self._request(
            "start its producer",
            lambda: self._producer.init_transactions(min(TRY_S, self._options.timeout_s)),
            again=True,
        )

    def _cluster_id(self, admin: Any) -> str:
        """The cluster's id. Also finds that the topic is missing, before the producer waits for its metadata."""
        from confluent_kafka import KafkaException

        topic = self._options.topic
        try:
            known = admin.list_topics(topic, timeout=TRY_S) if topic else admin.list_topics(timeout=TRY_S)
        except KafkaException as exception:
            raise failed("reach Kafka", exception.args[0]) from exception
        if topic and known.topics[topic].error is not None:
            raise failed(f"find topic {topic!r}", known.topics[topic].error, place=self._place)
        return str(known.cluster_id)

    def _produce(self, batches: Iterator[Any]) -> KeySum:
        keys, topic, producer = KeySum(), self._options.topic, self._producer
        stamp = self._task.stamp() if self._options.provenance else []
        for batch in batches:
            keys.add(batch)
            both = None if stamp else plain(batch, topic)
            if both is not None:
                for value, key in zip(*both, strict=True):
                    try:
                        producer.produce(topic, value, key)
                    except BufferError:
                        self._wait_for_buffer()
                        self._put(topic, value, key)
                    except Exception as error:
                        raise self._produce_error(error) from error
            else:
                for record in records(batch, topic, stamp):
                    self._put(*record)
            producer.poll(0)
            self._at("producing")
        return keys

    def _put(self, topic: Any, value: Any, key: Any, *more: Any) -> None:
        partition, headers = more or (-1, None)
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:
                self._wait_for_buffer()
            except Exception as error:
                raise self._produce_error(error) from error

    def _wait_for_buffer(self) -> None:
        self._producer.poll(BUFFER_POLL_S)
        if self._delivery_errors or time.monotonic() > self._deadline:
            raise SinkFailed(
                "the exactly-once sink could not send its rows to Kafka",
                detail=self._delivery_errors[0].str()
                if self._delivery_errors
                else "the send buffer is full, and the brokers acknowledge no records",
                hint="check that the brokers are up, and that kafka.transaction.timeout.ms is long enough",
            )

    def _send_entry(self, entry: LedgerEntry) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self._options.ledger, 0, entry.next_batch, entry.to_metadata())
        self._request(
            f"write the ledger entry of group {self._group!r}",
            lambda: self._producer.send_offsets_to_transaction([place], group_metadata(self._group), TRY_S),
            again=True,
        )

    def _new_entry(self, rows: int, keys: str) -> LedgerEntry:
        task = self._task
        return LedgerEntry(
            next_batch=task.batch + 1,
            partitions=task.partitions,
            rows=rows,
            keys=keys,
            offsets=task.offsets,
            layout=self._options.keys,
            topic=self._options.topic or "",
            cluster=self._cluster,
            run=task.run,
        )

    def _request(self, what: str, do: Callable[[], object], *, again: bool = False) -> None:
        """Run a request; with ``again``, retry errors that Kafka marks as retriable, until the deadline."""
        from confluent_kafka import KafkaException

        is_cause_requested = False
        while True:
            try:
                do()
                return
            except KafkaException as exception:
                error = exception.args[0]
                if again and error.name() == "_STATE" and not is_cause_requested:
                    is_cause_requested = True  # the transaction has failed; a second call reports the cause
                    continue
                if not (again and error.retriable() and time.monotonic() < self._deadline):
                    known = next(iter(self._delivery_errors), None)
                    outcome_unknown = what == COMMIT and not error.txn_requires_abort()
                    raise failed(
                        what, error, known=known, place=self._place, outcome_unknown=outcome_unknown
                    ) from exception

    def _abort(self) -> None:
        """Abort, so that readers need not wait; if it fails, the next producer of this id or the timeout aborts."""
        from confluent_kafka import KafkaException

        try:
            self._producer.abort_transaction(ABORT_S)
        except KafkaException:
            return

    def _on_delivery(self, error: Any, _message: object) -> None:
        if error is not None and not error.name().startswith("_PURGE"):
            self._delivery_errors.append(error)

    def _produce_error(self, error: Exception) -> Exception:
        from confluent_kafka import KafkaException

        known = next(iter(self._delivery_errors), None)
        if isinstance(error, KafkaException):
            why = cause_of(error.args[0], self._producer, ABORT_S)
            return failed("send a row to Kafka", why, known=known, place=self._place)
        return SinkFailed(
            "the exactly-once sink could not send a row to Kafka",
            detail=f"{type(error).__name__}: {error}",
            hint="check the row's headers and partition: header names are text, a partition is 0 or more",
        )


def new_producer(options: SinkOptions, group: str, on_delivery: Callable[[Any, object], None]) -> Any:
    """A new producer for a transactional id."""
    from confluent_kafka import Producer

    return _new(Producer, {**options.client, "transactional.id": group, "on_delivery": on_delivery})


def ledger_reader(options: SinkOptions) -> Reader:
    """A ledger reader whose client connects at once, instead of after a timer of 50 ms."""
    from confluent_kafka.admin import AdminClient

    settings = {**admin_settings(options), SPARSE_CONNECTIONS: options.client[SPARSE_CONNECTIONS]}
    return Reader(lambda: _new(AdminClient, settings), options.ledger)


def _new(kind: Any, settings: dict[str, Any]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return kind(settings)
    except KafkaException as exception:
        if (
            SPARSE_CONNECTIONS in exception.args[0].str()
        ):  # removed in a newer librdkafka: without it the first request is only slower
            return kind({name: settings[name] for name in settings if name != SPARSE_CONNECTIONS})
        raise failed("create a client from its options", exception.args[0]) from exception


def _fingerprint(batches: Iterator[Any]) -> KeySum:
    keys = KeySum()
    for batch in batches:
        keys.add(batch)
    return keys
