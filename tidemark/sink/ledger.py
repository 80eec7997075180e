"""The ledger: which batch of which partition of a query is in Kafka. Free of Spark.

An entry is a committed consumer offset: of the group ``<prefix>.<query>.<sink>.<partition>``, for partition 0 of the
ledger topic (which stays empty). Its offset is the id of the *next* batch, its metadata an :class:`Entry` as ASCII
JSON. It is written by the transaction that writes the rows, so either both are there or neither.

Reading asks for stable offsets only: while a transaction is being completed the broker answers
``UNSTABLE_OFFSET_COMMIT``, which is asked again. An error is on the *partition* of the answer, beside an offset of
-1001: read as "none" it would write a batch twice.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.faults import RIGHTS
from tidemark.wait import pause

VERSION = 1
DEFAULT_PREFIX = "tidemark"
DEFAULT_LEDGER = "tidemark-ledger"
DEFAULT_SINK = "0"
NONE = -1001
TRY_S = 5.0
"""Calibration: a coordinator answers within 1-5 ms, one that is just being elected within some seconds."""
AGAIN_S = 0.005
"""Calibration: offsets are stable 1-15 ms after the transaction that wrote them."""


_GROUP = re.compile(r"(.+)\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(.+)\.([0-9]+)")
"""Prefix and sink may have dots in them; a query's id is a UUID."""


@dataclass(frozen=True)
class Entry:
    """What is known of the last batch of one partition.

    ``keys`` is the fingerprint of the keys of its rows, ``offsets`` that of what the batch read (empty if nobody could
    see it), ``layout`` that of the key expressions; ``run`` is the query's run that wrote it.
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
        """As it is stored: ASCII, below the broker's limit of 4096 bytes."""
        fields = {name: value for name, value in asdict(self).items() if name != "next_batch"}
        return json.dumps({"v": VERSION, **fields}, separators=(",", ":"))


@dataclass(frozen=True)
class Names:
    """How the entries of one sink of one query are named."""

    prefix: str
    query: str
    sink: str

    def group(self, partition: int) -> str:
        """The group, and the transactional id, of one partition."""
        return f"{self.prefix}.{self.query}.{self.sink}.{partition}"

    def partition(self, group: str) -> int | None:
        """The partition that a group is of; ``None`` for one of somebody else."""
        number = group.rpartition(".")[2]
        return int(number) if number.isdecimal() and self.group(int(number)) == group else None


def read_group(group: str) -> tuple[Names, int] | None:
    """The names and the partition that a group stands for; ``None`` for one of somebody else."""
    found = _GROUP.fullmatch(group)
    return (Names(found[1], found[2], found[3]), int(found[4])) if found else None


def group_metadata(group: str) -> bytes:
    """What ``send_offsets_to_transaction`` wants of a group without members: generation -1, no member, no instance.

    The form is librdkafka's own (``CGMDv2``); made by hand, because its only other source is a consumer per task.
    """
    return b"CGMDv2:" + struct.pack("<i", -1) + group.encode() + b"\0" + b"\0" + b"\1"


def look_up(admin: Any, group: str, ledger: str, timeout_s: float, *, stable: bool = True) -> Entry | None:
    """The entry of a group, or ``None`` if there is none.

    An open transaction of this name is awaited; not ``stable``, what is committed so far is taken for all.

    Raises:
        SinkFailed: the broker did not say within ``timeout_s``, or may not say.
        SinkRefused: somebody else's offset is there.
    """
    from confluent_kafka import KafkaError, KafkaException

    again = {
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    }
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            place = _ask(admin, group, ledger, stable)
            error = place.error
            if error is None:
                return read_entry(group, place.offset, place.metadata)
        except KafkaException as exception:
            error = exception.args[0]
        if error.code() not in again or time.monotonic() > deadline:
            raise _unread(group, error, ledger)
        pause(AGAIN_S)


def read_entry(group: str, offset: int, metadata: str | None) -> Entry | None:
    """A committed offset as an entry; raises ``SinkRefused`` for one that this sink did not write."""
    if offset == NONE:
        return None
    try:
        fields = json.loads(metadata or "")
        if fields.pop("v") != VERSION:
            raise ValueError("another version")
        return Entry(next_batch=offset, **fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SinkRefused(
            f"the ledger entry of group {group!r} cannot be read: offset {offset}, metadata {metadata!r}",
            detail="somebody else commits offsets under this name, or a newer version of the sink wrote it",
            hint="set the option transactionalIdPrefix to a name that nobody else uses",
        ) from error


def listed(admin: Any, names: Names) -> list[int]:
    """The partitions of a sink that Kafka knows; raises ``SinkFailed`` if a broker does not answer."""
    found = map(names.partition, _groups(admin))
    return [partition for partition in found if partition is not None]


def committed(client: Mapping[str, str], ledger: str = DEFAULT_LEDGER) -> Iterator[tuple[str, Entry]]:
    """Every entry on a cluster: (group, entry), by group. ``client`` are librdkafka's settings.

    Raises:
        SinkFailed: a broker does not answer.
    """
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"log_level": 0, **client})
    for group in sorted(_groups(admin)):
        entry = look_up(admin, group, ledger, TRY_S)
        if entry is not None:
            yield group, entry


def _groups(admin: Any) -> list[str]:
    from confluent_kafka import KafkaException

    try:
        answer = admin.list_consumer_groups(request_timeout=TRY_S).result()
        trouble = [str(error) for error in answer.errors]  # of brokers that did not answer
    except KafkaException as exception:
        trouble = [str(exception.args[0])]
    if trouble:
        raise SinkFailed(
            "cannot list the groups of the ledger",
            detail=trouble[0],
            hint="look whether the brokers can be reached, and whether this client may DESCRIBE groups",
        )
    return [group.group_id for group in answer.valid]


def _ask(admin: Any, group: str, ledger: str, stable: bool) -> Any:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(ledger, 0)])]
    answer = admin.list_consumer_group_offsets(asked, require_stable=stable, request_timeout=TRY_S)
    return answer[group].result().topic_partitions[0]


def _unread(group: str, error: Any, ledger: str) -> SinkFailed:
    code = error.name()
    if code in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"):
        where = f"group {group!r}" if code.startswith("GROUP") else f"the ledger topic {ledger!r}"
        hint = f"allow READ on {where}; in all, {RIGHTS}"
    elif code == "UNSTABLE_OFFSET_COMMIT":
        hint = (
            "a transaction of this group has not ended: one of a task that goes on, which ends soon, or one that the "
            "brokers have lost, which `kafka-transactions.sh find-hanging` shows; the batch is run again"
        )
    else:
        hint = "the batch is run again; look whether the brokers of kafka.bootstrap.servers can be reached"
    return SinkFailed(
        f"cannot read the ledger entry of group {group!r}",
        detail=f"{error.str()} ({code}); without it nobody can say whether the rows are already in Kafka",
        hint=hint,
    )
