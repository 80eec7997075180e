"""The protocol by which one task writes its rows exactly once. Free of Spark; needs a broker, no mock will do.

    first rows -> new producer -> init_transactions -> look up the ledger
      next == batch + 1   the rows are there: verify, write nothing
      next >  batch + 1   the checkpoint is older than the topic: refuse
      else                begin -> produce -> send_offsets (the ledger entry) -> commit -> close

Why it is right: at most one transaction with a given entry is ever committed. ``init_transactions`` returns only when
every transaction of an earlier producer of this id has ended, and whoever had one can do nothing any more; the look-up
comes after it. So a task sees its predecessor's entry, or its predecessor's rows are never seen. One producer object
makes one transaction: within one producer epoch a delayed answer to the end of a transaction could end the next one.

A partition without rows does not talk to Kafka at all. Whatever goes wrong before the commit was sent aborts; when the
answer to the commit is lost, the commit is asked again, and at last the next attempt's look-up decides.
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
from tidemark.sink.ledger import Entry, Names, Reader, group_metadata
from tidemark.sink.ledger_checks import Task, must_fit, must_repeat
from tidemark.sink.records import KeySum, plain, records
from tidemark.sink.sink_options import SinkOptions

HIDDEN = "enable.sparse.connections"
"""A setting that librdkafka does not document: whether it connects only when it has something to ask."""
ABORT_S = 5.0
"""Calibration: an abort takes 5-20 ms."""
ROOM_S = 0.005
COMMIT = "commit its transaction"
TRY_S = 10.0
"""One try of a request that may be asked again: 10 times what the slowest answer of a healthy broker takes."""


@dataclass(frozen=True)
class Written:
    """What a task did: ``rows`` of its partition are in Kafka, by now (``new``) or since an earlier attempt."""

    partition: int
    rows: int
    new: bool


def nowhere(point: str) -> None:
    """What happens at the points of the protocol: nothing."""


def write_task(
    batches: Iterable[Any], task: Task, options: SinkOptions, at: Callable[[str], None] = nowhere
) -> Written:
    """Write the rows (Arrow batches) of one partition of one batch, or find that they are written.

    ``at`` is called with the name of each point that the protocol passes.

    Raises:
        SinkRefused: settings, checkpoint and ledger contradict each other; trying again will not help.
        SinkFailed: Kafka did not take it; nothing of this attempt is visible.
    """
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return Written(task.partition, 0, new=False)
    at("first-rows")
    with Writer(task, options, at) as writer:
        entry = writer.ledger_entry()
        at("looked-up")
        if entry is not None and entry.next_batch == task.batch + 1:
            if task.partitions > 1:
                must_repeat(entry, _fingerprint(chain([first], rows)), task)
            return Written(task.partition, entry.rows, new=False)
        count = writer.write(chain([first], rows))
        at("committed")
    at("closed")
    return Written(task.partition, count, new=True)


class Writer:
    """One producer, and the one transaction that it makes. A context manager."""

    def __init__(self, task: Task, options: SinkOptions, at: Callable[[str], None] = nowhere) -> None:
        self._task = task
        self._options = options
        self._at = at
        self._names = Names(options.prefix, task.query, options.sink)
        self._group = self._names.group(task.partition)
        self._place = Place(self._group, options.ledger, options.topic or "that the row names")
        self._deadline = time.monotonic() + options.timeout_s
        self._refused: list[Any] = []
        self._cluster = ""

    def __enter__(self) -> Writer:
        self._producer = new_producer(self._options, self._group, self._note)
        return self

    def __exit__(self, *_exc: object) -> None:
        from confluent_kafka import KafkaException

        close = getattr(self._producer, "close", None)  # before 2.13 a producer closes when nobody holds it
        if close is not None:
            try:
                close()
            except KafkaException:
                return  # one that was fenced has nothing left to close; what it did not commit is not visible

    def ledger_entry(self) -> Entry | None:
        """This partition's entry, once it is certain that nobody has written this very batch in another way.

        For that every entry of the query is looked at the first time in a run, also those of partitions that there are
        no longer. Where the driver sees the checkpoint, it has shut out whoever began a batch that is run again
        (``takeover.py``), so what is committed says all; elsewhere a transaction that is open is awaited.
        """
        own, task = self.own_entry(), self._task
        if own is not None and (own.next_batch == task.batch + 1 or own.run == task.run):
            return own
        numbers = {*range(task.partitions), *self._ledger.listed(self._names)} - {task.partition}
        for group in map(self._names.group, sorted(numbers)):
            stable = not task.offsets
            entry = self._ledger.look_up(group, self._options.timeout_s, stable=stable)
            if entry is not None:
                must_fit(entry, self._mine(0, ""), task)
        return own

    def own_entry(self) -> Entry | None:
        """This partition's entry. Fences whoever wrote under this name before, and then looks; the order matters."""
        self._ledger = ledger_reader(self._options)
        with ThreadPoolExecutor(1) as other:
            ready = other.submit(self._initialise)
            self._cluster = self._cluster_of(self._ledger.admin)
            ready.result()
        own = self._ledger.look_up(self._group, self._options.timeout_s)
        if own is not None:
            must_fit(own, self._mine(0, ""), self._task)
        return own

    def write(self, batches: Iterator[Any]) -> int:
        """Rows and entry in one transaction; returns the number of rows."""
        keys: list[KeySum] = []

        def send() -> None:
            keys.append(self._produce(batches))
            self._at("produced")
            self._send_entry(self._mine(keys[0].rows, str(keys[0])))

        self._in_transaction(send)
        return keys[0].rows

    def open_ledger(self) -> None:
        """An entry of a batch before the task's own, without rows."""
        entry = replace(self._mine(0, ""), next_batch=self._task.batch)
        self._in_transaction(lambda: self._send_entry(entry))

    def _in_transaction(self, send: Callable[[], None]) -> None:
        """Begin, do, commit; or abort."""
        from confluent_kafka import KafkaError

        began = time.monotonic()
        self._deadline = began + self._options.timeout_s
        self._step("begin a transaction", self._producer.begin_transaction)
        try:
            self._at("begun")
            send()
            self._at("sent-entry")
            self._step(COMMIT, lambda: self._producer.commit_transaction(TRY_S), again=True)
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
        self._step(
            "start its producer",
            lambda: self._producer.init_transactions(min(TRY_S, self._options.timeout_s)),
            again=True,
        )
        self._at("initialised")

    def _cluster_of(self, admin: Any) -> str:
        """The cluster's id. Also where a topic that is not there is found, which a producer would await for long."""
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
                        self._wait_for_room()
                        self._put(topic, value, key)
                    except Exception as error:
                        raise self._unproduced(error) from error
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
                self._wait_for_room()
            except Exception as error:
                raise self._unproduced(error) from error

    def _wait_for_room(self) -> None:
        self._producer.poll(ROOM_S)
        if self._refused or time.monotonic() > self._deadline:
            raise SinkFailed(
                "the exactly-once sink could not hand its rows to Kafka",
                detail=self._refused[0].str()
                if self._refused
                else "the brokers take none, and the buffer is full",
                hint="look whether the brokers are up, and whether the transaction's timeout is long enough",
            )

    def _send_entry(self, entry: Entry) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self._options.ledger, 0, entry.next_batch, entry.to_metadata())
        self._step(
            f"write the ledger entry of group {self._group!r}",
            lambda: self._producer.send_offsets_to_transaction([place], group_metadata(self._group), TRY_S),
            again=True,
        )

    def _mine(self, rows: int, keys: str) -> Entry:
        task = self._task
        return Entry(
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

    def _step(self, what: str, do: Callable[[], object], *, again: bool = False) -> None:
        """Do it; ask again while Kafka says that this may help, until the deadline."""
        from confluent_kafka import KafkaException

        is_asked_why = False
        while True:
            try:
                do()
                return
            except KafkaException as exception:
                error = exception.args[0]
                if again and error.name() == "_STATE" and not is_asked_why:
                    is_asked_why = (
                        True  # the transaction has failed meanwhile: asked once more, Kafka says of what
                    )
                    continue
                if not (again and error.retriable() and time.monotonic() < self._deadline):
                    known = next(iter(self._refused), None)
                    in_doubt = what == COMMIT and not error.txn_requires_abort()
                    raise failed(
                        what, error, known=known, place=self._place, in_doubt=in_doubt
                    ) from exception

    def _abort(self) -> None:
        """So that readers need not wait; where it fails, the next producer of this name does it, or the timeout."""
        from confluent_kafka import KafkaException

        try:
            self._producer.abort_transaction(ABORT_S)
        except KafkaException:
            return

    def _note(self, error: Any, _message: object) -> None:
        if error is not None and not error.name().startswith("_PURGE"):
            self._refused.append(error)

    def _unproduced(self, error: Exception) -> Exception:
        from confluent_kafka import KafkaException

        known = next(iter(self._refused), None)
        if isinstance(error, KafkaException):
            why = cause_of(error.args[0], self._producer, ABORT_S)
            return failed("hand a row to Kafka", why, known=known, place=self._place)
        return SinkFailed(
            "the exactly-once sink could not hand a row to Kafka",
            detail=f"{type(error).__name__}: {error}",
            hint="look at the row's headers and partition: names of headers are text, a partition is 0 or more",
        )


def new_producer(options: SinkOptions, group: str, on_delivery: Callable[[Any, object], None]) -> Any:
    """A producer of its own for a transactional id."""
    from confluent_kafka import Producer

    return _new(Producer, {**options.client, "transactional.id": group, "on_delivery": on_delivery})


def ledger_reader(options: SinkOptions) -> Reader:
    """For the look-up; its client waits for no timer of 50 ms before it asks for the first time."""
    from confluent_kafka.admin import AdminClient

    settings = {**admin_settings(options), HIDDEN: options.client[HIDDEN]}
    return Reader(lambda: _new(AdminClient, settings), options.ledger)


def _new(kind: Any, settings: dict[str, Any]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return kind(settings)
    except KafkaException as exception:
        if HIDDEN in exception.args[0].str():  # it may go one day: only slower then
            return kind({name: settings[name] for name in settings if name != HIDDEN})
        raise failed("make a client of its options", exception.args[0]) from exception


def _fingerprint(batches: Iterator[Any]) -> KeySum:
    keys = KeySum()
    for batch in batches:
        keys.add(batch)
    return keys
