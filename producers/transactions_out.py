"""The transactions of a trace: a transactional producer, whose control records have the offsets that the trace says.

A broker answers that a transaction has ended before its control records are written. Only once they are, the next
record is sent: else it could come before them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tidemark.errors import TestbedError
from tidemark.formats.trace import Absent
from tidemark.waiting import wait_until

ID_PREFIX = "tidemark-producers-"
"""Of transactional ids: those of a stack with a login begin with ``tidemark``."""

END_S = 120.0
"""Calibration: a transaction ends in 10 ms; after a broker was killed, once it is back, in 7-14 s."""

ANSWER_S = 10.0

MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)
"""Error codes of a partition whose leader is just changing or coming back: it is asked again."""


class Transactions:
    """One transactional producer, which is made with the first transaction.

    ``settings`` are those of the producer, ``broker`` those of any client: its address and its login.
    """

    def __init__(self, settings: Mapping[str, Any], broker: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._broker = dict(broker)
        self._producer: Producer | None = None
        self._admin: AdminClient | None = None
        self._number: int | None = None
        self._last_error = ""
        self._places: set[tuple[str, int]] = set()

    @property
    def opened(self) -> Producer | None:
        """The producer, if there was a transaction."""
        return self._producer

    def producer(self, number: int, topic: str, partition: int) -> Producer:
        """The producer to send a record of a transaction with, which is begun if it has not.

        Raises ``TestbedError`` if the broker begins none.
        """
        try:
            if self._producer is None:
                self._producer = Producer(
                    {
                        **self._settings,
                        "transactional.id": f"{ID_PREFIX}{uuid.uuid4().hex[:12]}",
                        "transaction.timeout.ms": int(END_S * 1000),
                    }
                )
                self._producer.init_transactions(END_S)
            if not self._places:  # the number says nothing: another trace begins with 1, too
                self._producer.begin_transaction()
                self._number = number
        except KafkaException as error:
            raise _refused(f"transaction {number} could not begin", error) from error
        self._places.add((topic, partition))
        return self._producer

    def end(self, number: int, how: Absent, flush: Callable[[], None]) -> None:
        """End a transaction, and wait until its control records are there; nothing if it has ended.

        ``flush`` waits until all that was sent is acknowledged: what is rolled back has to be in the log, too.
        """
        if self._producer is None or number != self._number or not self._places:
            return
        flush()
        try:
            if how == "abort":
                self._producer.abort_transaction(END_S)
            else:
                self._producer.commit_transaction(END_S)
        except KafkaException as error:
            raise _refused(f"transaction {number} could not end ({how})", error) from error
        wait_until(
            self._has_control_records,
            END_S,
            lambda: (
                f"the control records of transaction {number} in {sorted(self._places)}{self._last_error}"
            ),
            poll_s=0.002,
        )
        self._places.clear()

    def _has_control_records(self) -> bool:
        """Whether a reader of committed records can read to the end of each partition."""
        committed, written = map(self._ends, (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED))
        return committed is not None and committed == written

    def _ends(self, level: IsolationLevel) -> list[int] | None:
        """The end of each partition; ``None`` if one has no leader that answers now.

        Another client asks then: one that has learned of a leader sends its epoch with each request, and learns of the
        next one minutes later; until then the broker refuses all of them (``FENCED_LEADER_EPOCH``).
        """
        if self._admin is None:
            self._admin = AdminClient(self._broker)
        asked = {
            TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, partition in sorted(self._places)
        }
        found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S)
        try:
            ends = [int(future.result(ANSWER_S).offset) for future in found.values()]
        except KafkaException as error:
            if error.args[0].code() not in MOVING:
                raise _refused("the ends of the input topics are not known", error) from error
            self._last_error = f" ({error.args[0].str()})"
            self._admin = None
            return None
        self._last_error = ""
        return ends


def _refused(what: str, error: KafkaException) -> TestbedError:
    return TestbedError(
        what,
        detail=error.args[0].str(),
        hint="the broker's log says more: `tidemark status` names it; a login needs the right to WRITE with"
        f" transactional ids that begin with {ID_PREFIX!r}",
    )
