"""The ledger: the last batch of each partition of a query that is in Kafka. Free of Spark.

An entry is a committed consumer offset: of the group ``<prefix>.<query>.<sink>.<partition>``, for partition 0 of the
ledger topic (which stays empty). Its offset is the id of the *next* batch, its metadata a :class:`LedgerEntry` as
ASCII JSON. The transaction that writes the rows commits it, so rows and entry become visible together or not at all.

A lookup requires stable offsets: while a transaction is being completed the broker answers ``UNSTABLE_OFFSET_COMMIT``,
and the lookup retries. The broker reports an error on the *partition* of its answer, beside an offset of -1001; code
that read this as "no entry" would write the batch twice.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.kafka_errors import RIGHTS
from tidemark.waiting import pause

VERSION = 1
DEFAULT_PREFIX = "tidemark"
DEFAULT_LEDGER = "tidemark-ledger"
DEFAULT_SINK = "0"
NONE = -1001
TRY_S = 5.0
"""Calibration: a coordinator answers within 1-5 ms; electing a new one takes a few seconds."""
REQUEST_S = 3600.0
"""The longest request timeout that librdkafka accepts."""
RETRY_S = 0.005
"""Calibration: offsets are stable 1-15 ms after the transaction that wrote them."""
MOVED_S = 0.1
"""Calibration: a client is connected after 2-10 ms; a coordinator that moves is elsewhere after some 100 ms."""


_GROUP = re.compile(r"(.+)\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(.+)\.([0-9]+)")
"""Prefix and sink may contain dots; a query's id is a UUID."""


@dataclass(frozen=True)
class LedgerEntry:
    """The last batch of one partition that is in Kafka.

    ``keys`` is the fingerprint of its rows' keys, ``offsets`` that of the batch's source offsets (empty if the driver
    could not read the checkpoint), ``layout`` that of the key expressions; ``run`` is the ``runId`` that wrote it.
    """

    next_batch: int
    partitions: int
    rows: int
    keys: str
    offsets: str
    layout: str
    topic: str
    cluster: str
    run: str

    def to_metadata(self) -> str:
        """The entry as offset metadata: ASCII, below the broker's limit of 4096 bytes."""
        fields = {name: value for name, value in asdict(self).items() if name != "next_batch"}
        return json.dumps({"v": VERSION, **fields}, separators=(",", ":"))


@dataclass(frozen=True)
class Names:
    """The names of the ledger entries of one sink of one query."""

    prefix: str
    query: str
    sink: str

    def group(self, partition: int) -> str:
        """The group of one partition, which is also its transactional id."""
        return f"{self.prefix}.{self.query}.{self.sink}.{partition}"

    def partition(self, group: str) -> int | None:
        """The partition that a group belongs to; ``None`` if it is not one of this sink's groups."""
        number = group.rpartition(".")[2]
        return int(number) if number.isdecimal() and self.group(int(number)) == group else None


def read_group(group: str) -> tuple[Names, int] | None:
    """The names and the partition of a group; ``None`` if it is not the group of an exactly-once sink."""
    found = _GROUP.fullmatch(group)
    return (Names(found[1], found[2], found[3]), int(found[4])) if found else None


def group_metadata(group: str) -> bytes:
    """Group metadata for ``send_offsets_to_transaction``: a group without members (generation -1, no member id).

    The format is librdkafka's own (``CGMDv2``). It is built here because otherwise each task needs a consumer for it.
    """
    return b"CGMDv2:" + struct.pack("<i", -1) + group.encode() + b"\0" + b"\0" + b"\1"


class Reader:
    """Reads the ledger with an admin client (``admin``) from ``make``, and replaces a client that does not answer.

    librdkafka's request timeout cannot be used: if a request to a coordinator times out while the broker is down, an
    assertion in ``rdkafka_queue.h`` aborts the process when the broker returns (librdkafka issue 4605, pull request
    5397, open as of 2.16). So requests get the longest timeout, and the reader discards a client that does not answer
    in time. This also discards its reconnect backoff, which grows while a broker is down.

    The coordinator is asked to describe a group before it is asked for the group's offset: librdkafka crashes if a
    coordinator that has moved, or that still loads, answers the request for offsets of an admin client
    (``rd_kafka_handle_OffsetFetch``, librdkafka issue 5040, open as of 2.16).

    A client keeps the coordinator of a group for ``metadata.max.age.ms``, 15 minutes, and asks it again after it has
    answered that it is none (``NOT_COORDINATOR``; a broker that was paused and is back does). Such a client is
    replaced, too.
    """

    def __init__(self, make: Callable[[], Any], ledger: str) -> None:
        self.admin = make()
        self._make = make
        self._ledger = ledger

    def look_up(self, group: str, timeout_s: float, *, stable: bool = True) -> LedgerEntry | None:
        """The entry of a group, or ``None`` if there is none.

        With ``stable``, waits until no transaction of the group is open; without it, returns the last committed entry.

        Raises:
            SinkFailed: no answer within ``timeout_s``, or access is denied.
            SinkRefused: the committed offset was not written by this sink.
        """
        from confluent_kafka import KafkaError, KafkaException

        deadline = time.monotonic() + timeout_s
        while True:
            request_s = max(RETRY_S, min(TRY_S, deadline - time.monotonic()))
            try:
                self._await_coordinator(group, request_s)
                place = self._ask(group, stable, request_s)
                error = place.error
                if error is None:
                    return read_entry(group, place.offset, place.metadata)
            except TimeoutError:
                self.admin = self._make()
                error = KafkaError(KafkaError._TIMED_OUT, f"no answer within {request_s:.3g} s")
            except KafkaException as exception:
                error = exception.args[0]
            if error.code() not in _retried() or time.monotonic() > deadline:
                raise _read_error(group, error, self._ledger)
            pause(MOVED_S if self._replaced_if_moved(error) else RETRY_S)

    def is_pending(self, group: str, timeout_s: float) -> bool:
        """Whether an entry of a group lies in a transaction that is open; raises ``SinkFailed`` as :meth:`look_up`."""
        from confluent_kafka import KafkaError

        def ask() -> Any:
            self._await_coordinator(group, timeout_s)
            return self._ask(group, stable=True, request_s=timeout_s)

        error = self._once(group, timeout_s, ask).error
        if error is not None and error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise _read_error(group, error, self._ledger)
        return error is not None

    def coordinator(self, group: str, timeout_s: float) -> int:
        """The node that coordinates a group; raises ``SinkFailed`` if there is none now."""

        def ask() -> Any:
            answer = self.admin.describe_consumer_groups([group], request_timeout=REQUEST_S)
            return answer[group].result(timeout_s)

        return int(self._once(group, timeout_s, ask).coordinator.id)

    def _once(self, group: str, timeout_s: float, ask: Callable[[], Any]) -> Any:
        """An answer that is not asked for again; raises ``SinkFailed``."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            return ask()
        except TimeoutError:
            self.admin = self._make()
            error = KafkaError(KafkaError._TIMED_OUT, f"no answer within {timeout_s:.3g} s")
        except KafkaException as exception:
            error = exception.args[0]
            self._replaced_if_moved(error)
        raise _read_error(group, error, self._ledger)

    def _replaced_if_moved(self, error: Any) -> bool:
        """Replace a client that asked a broker that is not the coordinator any more; whether it was replaced."""
        from confluent_kafka import KafkaError

        if error.code() != KafkaError.NOT_COORDINATOR:
            return False
        self.admin = self._make()
        return True

    def listed(self, names: Names) -> list[int]:
        """The partitions of a sink that have a group; raises ``SinkFailed`` if a broker does not answer."""
        found = map(names.partition, self.groups())
        return [partition for partition in found if partition is not None]

    def groups(self) -> list[str]:
        """All groups of the cluster; raises ``SinkFailed`` if a broker does not answer."""
        from confluent_kafka import KafkaException

        try:
            answer = self.admin.list_consumer_groups(request_timeout=TRY_S).result()
            errors = [str(error) for error in answer.errors]  # of brokers that did not answer
        except KafkaException as exception:
            errors = [str(exception.args[0])]
        if errors:
            raise SinkFailed(
                "the consumer groups of the ledger could not be listed",
                detail=errors[0],
                hint="check that the brokers can be reached, and that this user may DESCRIBE groups",
            )
        return [group.group_id for group in answer.valid]

    def _await_coordinator(self, group: str, request_s: float) -> None:
        """Raise ``KafkaException`` if a group's coordinator cannot answer yet; other errors are the lookup's."""
        from confluent_kafka import KafkaException

        answer = self.admin.describe_consumer_groups([group], request_timeout=REQUEST_S)
        try:
            answer[group].result(request_s)
        except KafkaException as exception:
            if exception.args[0].code() in _retried():
                raise

    def _ask(self, group: str, stable: bool, request_s: float) -> Any:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(self._ledger, 0)])]
        answer = self.admin.list_consumer_group_offsets(
            asked, require_stable=stable, request_timeout=REQUEST_S
        )
        return answer[group].result(request_s).topic_partitions[0]


def read_entry(group: str, offset: int, metadata: str | None) -> LedgerEntry | None:
    """The entry of a committed offset; raises ``SinkRefused`` if this sink did not write it."""
    if offset == NONE:
        return None
    try:
        fields = json.loads(metadata or "")
        if fields.pop("v") != VERSION:
            raise ValueError("unknown version")
        return LedgerEntry(next_batch=offset, **fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SinkRefused(
            f"the ledger entry of group {group!r} could not be read: offset {offset}, metadata {metadata!r}",
            detail="another application commits offsets for this group, or a newer version of the sink wrote the entry",
            hint="set the option transactionalIdPrefix to a prefix that no other application uses",
        ) from error


def committed(client: Mapping[str, str], ledger: str = DEFAULT_LEDGER) -> Iterator[tuple[str, LedgerEntry]]:
    """Every entry on a cluster: (group, entry), sorted by group. ``client`` has librdkafka's settings.

    Raises:
        SinkFailed: a broker does not answer.
    """
    from confluent_kafka.admin import AdminClient

    reader = Reader(lambda: AdminClient({"log_level": 0, **client}), ledger)
    for group in sorted(reader.groups()):
        entry = reader.look_up(group, TRY_S)
        if entry is not None:
            yield group, entry


def _retried() -> frozenset[int]:
    """The errors after which a lookup is tried again."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError.UNSTABLE_OFFSET_COMMIT,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.NOT_COORDINATOR,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
        }
    )


def _read_error(group: str, error: Any, ledger: str) -> SinkFailed:
    code = error.name()
    if code in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"):
        where = f"group {group!r}" if code.startswith("GROUP") else f"the ledger topic {ledger!r}"
        hint = f"allow READ on {where}; the full list: {RIGHTS}"
    elif code == "UNSTABLE_OFFSET_COMMIT":
        hint = (
            "a transaction of this group is still open: either its task is still running, or the transaction hangs, "
            "which `kafka-transactions.sh find-hanging` shows; Spark retries the task"
        )
    else:
        hint = "Spark retries the task; check that the brokers of kafka.bootstrap.servers can be reached"
    return SinkFailed(
        f"the ledger entry of group {group!r} could not be read",
        detail=f"{error.str()} ({code}); without it, the sink cannot know whether the rows are already in Kafka",
        hint=hint,
    )
