"""The harness's Kafka client: topics, offsets, and reading what a query wrote.

Records are read at ``read_committed``. ``read_all`` reads up to the last stable offset at the time of the call.
``drain`` reads until the output is complete: until the high watermark (``end``), the last stable offset (``stable``)
and the reader's position agree on every partition, and still agree ``SETTLE_S`` later. Offsets are end-exclusive.

Bytes of keys and values that are not valid UTF-8 are written as ``\\xff``, never as a replacement character. Values of
headers are kept without loss (``tidemark.formats.trace.Base64``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidemark.errors import DeadlineExceeded, OpenTransaction, TestbedError, UsageError
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.trace import header_value
from tidemark.kafka.connection import (
    ANSWER_S,
    NO_ANSWER,
    NOT_ALLOWED,
    SEE_LOG,
    Broker,
    address_of,
    client_of,
    connected_admin,
    not_done,
    unreachable,
)
from tidemark.waiting import wait_until

TOPIC_SETTINGS = {"retention.ms": "-1", "message.timestamp.after.max.ms": "9223372036854775807"}
"""Records keep the timestamps of their trace, years ago or far ahead: no broker may delete or reject them for that."""

COMPACTED_SETTINGS = {
    **TOPIC_SETTINGS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1",
}  # fmt: skip
"""Compacted as soon as there is anything to remove. Kafka never compacts the segment that is written, so each is short:
it ends with a record whose timestamp is later than that of its first one."""

TRY_S = 3.0
"""Calibration: as ANSWER_S, for one attempt: after a leader has died, the next attempt goes to its successor."""

TOPIC_S = 30.0
"""Calibration: a new topic has its leaders after 10-100 ms."""

DRAIN_S = 60.0
"""Calibration: 100,000 records are read in a second; the broker aborts an abandoned transaction after its timeout."""

TOPIC_CHECK_S = 2.0
"""Calibration: a fetch returns within 50 ms while there are records; the broker lists its topics in 5-50 ms."""

SETTLE_S = 1.0
"""How long an output must stay unchanged to count as complete: a late duplicate is a finding."""

NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""Error codes for a partition whose leader is just changing or coming back: the request is repeated."""

LAG_S = 5.0
"""So long a broker may not know a topic that another broker knows; of one broker nothing is waited for."""
BATCH_RECORDS = 10_000
READ_COMMITTED = "read_committed"
_POLL_S = 0.1

Ends = dict[str, dict[int, int]]
T = TypeVar("T")


def create_topics(broker: Broker, layout: Mapping[str, int], compacted: Collection[str] = ()) -> None:
    """Create topics (name -> partitions) that keep records of any age, and wait until each has its leaders.

    ``compacted`` are those that Kafka compacts.

    The number of replicas is the broker's default (``default.replication.factor``).
    """
    admin = connected_admin(broker)
    wanted = [
        NewTopic(
            name,
            num_partitions=partitions,
            config=COMPACTED_SETTINGS if name in compacted else TOPIC_SETTINGS,
        )
        for name, partitions in layout.items()
    ]
    for name, future in admin.create_topics(wanted, operation_timeout=ANSWER_S).items() if wanted else ():
        with _answered(broker, f"create topic {name!r}"):
            future.result(ANSWER_S)

    def led() -> bool:
        known = _metadata(admin, broker)
        return all(
            name in known
            and len(known[name].partitions) == partitions
            and all(part.leader >= 0 for part in known[name].partitions.values())
            for name, partitions in layout.items()
        )

    wait_until(led, TOPIC_S, lambda: f"leaders of the topics {', '.join(layout)}")
    _ends(admin, broker, layout, committed=False)  # a leader in the metadata may not yet know that it leads


def delete_topics(broker: Broker, topics: Collection[str]) -> None:
    """Delete topics; a topic that does not exist counts as deleted."""
    # Named, because a client without a reference is closed during its requests.
    admin = connected_admin(broker)
    for name, future in admin.delete_topics(list(topics)).items() if topics else ():
        with _answered(broker, f"delete topic {name!r}", forgive=(KafkaError.UNKNOWN_TOPIC_OR_PART,)):
            future.result(ANSWER_S)


def partitions(broker: Broker) -> dict[str, int]:
    """All topics of the cluster, with their numbers of partitions."""
    return {name: len(topic.partitions) for name, topic in _metadata(connected_admin(broker), broker).items()}


def end_offsets(broker: Broker, topics: Collection[str]) -> Ends:
    """Topic -> partition -> end offset (the high watermark). Raises ``UsageError`` for a topic that does not exist."""
    return _ends(connected_admin(broker), broker, topics, committed=False)


def stable_offsets(broker: Broker, topics: Collection[str]) -> Ends:
    """Topic -> partition -> last stable offset: where a reader at ``read_committed`` stops."""
    return _ends(connected_admin(broker), broker, topics, committed=True)


def start_offsets(broker: Broker, topics: Collection[str]) -> Ends:
    """Topic -> partition -> the first offset that has not been deleted."""
    return _offsets(connected_admin(broker), broker, topics, spec=OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def leaders(broker: Broker, topic: str) -> dict[int, int]:
    """The nodes that lead the partitions of a topic; -1 of one that has no leader now."""
    known = _metadata(connected_admin(broker), broker).get(topic)
    return {} if known is None else {at: part.leader for at, part in sorted(known.partitions.items())}


@contextmanager
def watched_ends(
    broker: Broker, topic: str, isolation: str = "read_uncommitted"
) -> Iterator[Callable[[], dict[int, int]]]:
    """Yields a function that returns each partition's end offset in 1-2 ms: its client stays connected.

    Open transactions are included; with ``read_committed`` it is the last stable offset.
    """
    settings = {**client_of(broker), "group.id": "tidemark-watcher", "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    places = [TopicPartition(topic, number) for number in end_offsets(broker, [topic])[topic]]

    def ends() -> dict[int, int]:
        try:
            return {place.partition: consumer.get_watermark_offsets(place, TRY_S)[1] for place in places}
        except KafkaException as exception:
            if exception.args[0].code() in NOT_YET:
                consumer.list_topics(topic, timeout=TRY_S)  # else it learns of another leader after minutes
            raise

    try:
        yield lambda: _retried(broker, f"the offsets of {topic!r}", ends)
    finally:
        consumer.close()


def read_all(broker: Broker, topic: str) -> Iterator[OutputRecord]:
    """The committed records of a topic, up to its present last stable offset; each partition in order."""
    stable = stable_offsets(broker, [topic])[topic]
    yield from map(output_record, read_messages(broker, topic, stable))


def read_messages(
    broker: Broker,
    topic: str,
    stable: Mapping[int, int],
    start: Mapping[int, int] | None = None,
    *,
    isolation: str = READ_COMMITTED,
) -> Iterator[Message]:
    """The records of the partitions that ``stable`` names, up to those offsets, from ``start`` on."""
    offsets = {partition: (start or {}).get(partition, 0) for partition in stable}
    with _Reader(broker, topic, offsets, isolation) as reader:
        while not reader.has_reached(stable):
            for message in reader.some(lambda: f"the committed records of {topic!r} up to {stable}", DRAIN_S):
                if (message.offset() or 0) < stable[message.partition() or 0]:  # later records are left out
                    yield message


def drain(
    broker: Broker, topic: str, *, settle_s: float = SETTLE_S, timeout_s: float = DRAIN_S
) -> Iterator[OutputRecord]:
    """The committed records of a topic, until no more follow.

    Raises:
        OpenTransaction: no record came for ``timeout_s``, and the offsets still disagree.
        DeadlineExceeded: no record came, and the broker had an error.
    """
    admin = connected_admin(broker)
    seen: tuple[dict[int, int], dict[int, int]] = {}, {}

    def settled_ends() -> dict[int, int] | None:
        """The end of each partition, if nothing lies between it and the last stable offset."""
        ends = _ends(admin, broker, [topic], committed=False)[topic]
        stable = _ends(admin, broker, [topic], committed=True)[topic]
        seen[0].update(ends)
        seen[1].update(stable)
        return ends if ends == stable else None

    with _Reader(broker, topic, dict.fromkeys(end_offsets(broker, [topic])[topic], 0)) as reader:
        settled_s: float | None = None
        finished: dict[int, int] | None = None

        def described() -> str:
            return f"{topic!r} to settle: position {reader.position}, end {seen[0]}, last stable {seen[1]}"

        while True:
            ends = settled_ends()
            if ends is None or not reader.has_reached(ends):
                settled_s = finished = None
                yield from map(output_record, reader.some(described, timeout_s))
            elif ends != finished:
                settled_s, finished = time.monotonic() + settle_s, ends
            elif settled_s is not None and time.monotonic() >= settled_s:
                return
            else:
                yield from map(output_record, reader.poll())


def output_record(message: Message) -> OutputRecord:
    """A message as a line of ``output.jsonl``."""
    kind, timestamp_ms = message.timestamp()
    return OutputRecord(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        value=visible(message.value()),
        key=visible(message.key()),
        headers=[(name, header_value(value)) for name, value in headers(message)],
        timestamp_ms=timestamp_ms if kind != TIMESTAMP_NOT_AVAILABLE else 0,
    )


def headers(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of a message, in order."""
    found: Any = message.headers() or []
    return [(str(name), value) for name, value in found]


def visible(data: bytes | str | None) -> str | None:
    """Bytes as text; bytes that are not valid UTF-8 become ``\\xNN``."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data


class _Reader:
    """Reads all partitions of a topic from these offsets on, at an isolation level. A context manager."""

    def __init__(
        self, broker: Broker, topic: str, offsets: Mapping[int, int], isolation: str = READ_COMMITTED
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._last_error = ""
        self._consumer = Consumer(
            {
                # Required by the client, and never joined: offsets are not committed. The client looks its coordinator
                # up all the same, so a login with rights for groups of another name has to name one.
                "group.id": "tidemark-reader",
                **client_of(broker),
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "queued.min.messages": 200_000,
                "error_cb": self._note,
            }
        )
        self.position = dict(offsets)
        self._consumer.assign(
            [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        )

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._consumer.close()

    def has_reached(self, offsets: Mapping[int, int]) -> bool:
        """Whether everything before ``offsets`` was read or skipped (control records, aborted ones)."""
        return all(self.position.get(partition, 0) >= offset for partition, offset in offsets.items())

    def poll(self) -> Iterator[Message]:
        """The messages that have arrived, possibly none."""
        for message in self._consumer.consume(BATCH_RECORDS, _POLL_S):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None
                assert offset is not None
                self.position[partition] = offset + 1
                self._last_error = ""
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                if partition is not None and offset is not None:
                    self.position[partition] = max(self.position[partition], offset)
            elif error.code() in NOT_ALLOWED:
                raise not_done(self._broker, f"read topic {self._topic!r}", error)
            elif error.fatal() or not (error.retriable() or error.code() in NOT_YET):
                raise TestbedError(
                    f"cannot read from {address_of(self._broker)!r}", detail=error.str(), hint=SEE_LOG
                )
            else:
                self._note(error)

    def some(self, describe: Callable[[], str], timeout_s: float) -> Iterator[Message]:
        """Read until there is progress: messages, or a new position.

        A consumer is not notified when its topic is deleted, so a reader without progress lists the topics every
        ``TOPIC_CHECK_S``.

        Raises:
            OpenTransaction: there was no progress for ``timeout_s``, and no error of the broker's.
            DeadlineExceeded: there was none, and an error.
            TestbedError: the topic was missing twice in a row, or at the deadline.
        """
        before = dict(self.position)
        now_s = time.monotonic()
        deadline_s, check_s, missing = now_s + timeout_s, now_s + TOPIC_CHECK_S, 0
        while self.position == before:
            yield from self.poll()
            now_s = time.monotonic()
            if self.position != before or now_s < min(check_s, deadline_s):
                continue
            missing = missing + 1 if self._is_missing() else 0
            check_s = time.monotonic() + TOPIC_CHECK_S
            is_late = now_s >= deadline_s
            if missing >= 2 or (missing and is_late):
                raise TestbedError(
                    f"topic {self._topic!r} was deleted while it was read",
                    detail=f"read up to {self.position}; last error: {self._last_error or 'none'}",
                    hint="the cluster no longer lists it: create it and run again",
                )
            if is_late:
                message = f"timed out after {timeout_s:g} s waiting for {describe()}"
                if self._last_error:
                    raise DeadlineExceeded(message, detail=f"last error: {self._last_error}", hint=SEE_LOG)
                raise OpenTransaction(
                    message, hint="an unfinished transaction blocks readers until the broker aborts it"
                )

    def _is_missing(self) -> bool:
        """Whether the cluster answers and does not list the topic."""
        try:
            return self._topic not in self._consumer.list_topics(timeout=TRY_S).topics
        except KafkaException as exception:
            self._note(exception.args[0])
            return False

    def _note(self, error: KafkaError) -> None:
        self._last_error = error.str()


def _metadata(admin: AdminClient, broker: Broker) -> Mapping[str, Any]:
    with _answered(broker, "list its topics"):
        topics: Mapping[str, Any] = admin.list_topics(timeout=ANSWER_S).topics
        return topics


def _metadata_with(admin: AdminClient, broker: Broker, topics: Collection[str]) -> Mapping[str, Any]:
    """The metadata with these topics, if they are there: of several brokers one may not know yet what another knows."""
    found: Mapping[str, Any] = {}

    def is_known() -> bool:
        nonlocal found
        with _answered(broker, "list its topics"):
            metadata = admin.list_topics(timeout=ANSWER_S)
        found = metadata.topics
        return len(metadata.brokers) < 2 or all(name in found for name in topics)

    with suppress(DeadlineExceeded):
        wait_until(is_known, LAG_S, lambda: f"the topics {', '.join(topics)} on each broker")
    return found


def _ends(admin: AdminClient, broker: Broker, topics: Collection[str], *, committed: bool) -> Ends:
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _offsets(admin, broker, topics, spec=spec, isolation_level=level)


def _offsets(
    admin: AdminClient, broker: Broker, topics: Collection[str], *, spec: OffsetSpec, **options: Any
) -> Ends:
    known = _metadata_with(admin, broker, topics)
    missing = [name for name in topics if name not in known]
    if missing:
        raise UsageError(
            f"there is no topic {missing[0]!r} at {address_of(broker)!r}",
            hint=f"topics there: {', '.join(sorted(name for name in known if name[:2] != '__')) or 'none'}",
        )
    asked = {TopicPartition(name, partition): spec for name in topics for partition in known[name].partitions}

    def request() -> Ends:
        ends: Ends = {name: {} for name in topics}
        answers = admin.list_offsets(asked, request_timeout=TRY_S, **options) if asked else {}
        for place, future in answers.items():
            ends[place.topic][place.partition] = future.result(ANSWER_S).offset
        return {name: dict(sorted(parts.items())) for name, parts in ends.items()}

    return _retried(broker, f"the offsets of {', '.join(topics)}", request)


def _retried(broker: Broker, what: str, request: Callable[[], T]) -> T:
    """The answer of ``request``, which is repeated while a broker is coming back."""
    last_error = ""

    def attempt() -> list[T] | None:
        nonlocal last_error
        with _answered(broker, f"return {what}"):
            try:
                return [request()]
            except KafkaException as exception:
                if exception.args[0].code() not in (*NOT_YET, *NO_ANSWER):
                    raise
                last_error = exception.args[0].str()
                return None

    try:
        [found] = wait_until(attempt, ANSWER_S, lambda: f"{what}: {last_error}")
    except DeadlineExceeded as error:
        raise unreachable(broker, error.message) from error
    return found


@contextmanager
def _answered(broker: Broker, what: str, *, forgive: Sequence[int] = ()) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise unreachable(broker, f"it did not {what} within {ANSWER_S:g} s") from error
    except KafkaException as exception:
        refusal = exception.args[0]
        if refusal.code() in forgive:
            return
        if refusal.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise UsageError(f"cannot {what}: it exists", hint="choose another name") from exception
        if refusal.code() in NO_ANSWER:
            raise unreachable(broker, refusal.str()) from exception
        raise not_done(broker, what, refusal) from exception
