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
"""Calibration: a coordinator answers within 1-5 ms, one that is just being elected within some seconds."""
ASKED_S = 3600.0
"""The longest that librdkafka takes for a request's deadline."""
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


class Reader:
    """Reads the ledger, with a client that ``make`` makes (``admin``), and a new one for one that does not answer.

    librdkafka's own deadline cannot be used for it: a request to a coordinator that runs out while the broker is down
    ends the process when the broker is back (an assertion in ``rdkafka_queue.h``; librdkafka issue 4605, pull request
    5397, open as of 2.16). So a request runs as long as it may, and a client that nobody waits for any more is given up
    with it, and with its backoff, which is longest when a broker has been away for long.
    """

    def __init__(self, make: Callable[[], Any], ledger: str) -> None:
        self.admin = make()
        self._make = make
        self._ledger = ledger

    def look_up(self, group: str, timeout_s: float, *, stable: bool = True) -> Entry | None:
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
            patience_s = max(AGAIN_S, min(TRY_S, deadline - time.monotonic()))
            try:
                place = self._ask(group, stable, patience_s)
                error = place.error
                if error is None:
                    return read_entry(group, place.offset, place.metadata)
            except TimeoutError:
                self.admin = self._make()
                error = KafkaError(KafkaError._TIMED_OUT, f"no answer within {patience_s:.3g} s")
            except KafkaException as exception:
                error = exception.args[0]
            if error.code() not in again or time.monotonic() > deadline:
                raise _unread(group, error, self._ledger)
            pause(AGAIN_S)

    def listed(self, names: Names) -> list[int]:
        """The partitions of a sink that Kafka knows; raises ``SinkFailed`` if a broker does not answer."""
        found = map(names.partition, self.groups())
        return [partition for partition in found if partition is not None]

    def groups(self) -> list[str]:
        """All groups of the cluster; raises ``SinkFailed`` if a broker does not answer."""
        from confluent_kafka import KafkaException

        try:
            answer = self.admin.list_consumer_groups(request_timeout=TRY_S).result()
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

    def _ask(self, group: str, stable: bool, patience_s: float) -> Any:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(self._ledger, 0)])]
        answer = self.admin.list_consumer_group_offsets(asked, require_stable=stable, request_timeout=ASKED_S)
        return answer[group].result(patience_s).topic_partitions[0]


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


def committed(client: Mapping[str, str], ledger: str = DEFAULT_LEDGER) -> Iterator[tuple[str, Entry]]:
    """Every entry on a cluster: (group, entry), by group. ``client`` are librdkafka's settings.

    Raises:
        SinkFailed: a broker does not answer.
    """
    from confluent_kafka.admin import AdminClient

    reader = Reader(lambda: AdminClient({"log_level": 0, **client}), ledger)
    for group in sorted(reader.groups()):
        entry = reader.look_up(group, TRY_S)
        if entry is not None:
            yield group, entry


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
