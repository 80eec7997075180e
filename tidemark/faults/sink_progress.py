"""Sink progress: what a query's sink has written of a batch, seen from outside while the query runs.

For the exactly-once sink its ledger says which sink partitions have written their rows of a batch. Spark's own sink
keeps no such record: there the rows in the output say it (by their headers), once no more of them come while the
driver, or an executor, is stopped. Kafka says of the exactly-once sink what lies in transactions that are open: rows,
behind the last stable offset; a ledger entry, which has no stable offset until then.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient

from tidemark.formats.faults import CommitPoint, FaultComponent
from tidemark.kafka import client as kafka
from tidemark.kafka.connection import Broker, client_of
from tidemark.sink.ledger import DEFAULT_LEDGER, DEFAULT_PREFIX, DEFAULT_SINK, LedgerEntry, Names, Reader
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.waiting import pause

LOOK_UP_S = 15.0
"""Calibration: a coordinator answers within 5 ms; where a broker was killed, a client is given up after 5 s."""

SETTLED_S = 0.3
"""Calibration: a partition takes 10 to 100 ms from its first row to its entry; that of a stopped executor has none."""

STILL_S = 1.0
"""Calibration: between the first record of a batch and the last lie some hundred milliseconds."""

Proof = dict[str, Any]


class SinkProgress(Protocol):
    """The sink of one query."""

    def ends(self) -> dict[int, int]:
        """The end offsets of the output topic, rows of open transactions included; cheap."""

    def snapshot(self) -> Proof:
        """The end offsets and, where there is a ledger, the next batch of each sink partition."""

    def written(self, batch: int) -> Proof | None:
        """What shows that every sink partition has written the batch; ``None`` while nothing does."""

    def half_written(self, batch: int) -> Proof | None:
        """What shows that some sink partitions have written the batch and others have not; ``None`` otherwise."""

    def in_transaction(self, point: CommitPoint, batch: int, before: dict[int, int]) -> Proof | None:
        """What shows that rows of the batch, or a ledger entry, lie in a transaction that is open.

        ``before`` is where the output ended before the batch; ``None`` if there is none, or no transactions.
        """

    def brokers(self, role: FaultComponent, batch: int) -> dict[int, int]:
        """The nodes that lead the partitions of the output, or coordinate the ledger of each sink partition."""


class _LedgerProgress:
    """Of the exactly-once sink, by its ledger."""

    def __init__(
        self,
        broker: Broker,
        topic: str,
        checkpoint: Checkpoint,
        ends: Callable[[], dict[int, int]],
        stable: Callable[[], Callable[[], dict[int, int]]],
    ) -> None:
        """``ends`` gives the end offsets of the topic, ``stable`` what gives its last stable ones."""
        self.ends = ends
        self._stable = stable
        self._broker = broker
        self._topic = topic
        self._checkpoint = checkpoint
        self._reader = Reader(lambda: AdminClient(client_of(broker)), DEFAULT_LEDGER)

    def snapshot(self) -> Proof:
        """Entries and end offsets."""
        return {"ledger": self._entries(), "ends": by_partition(self.ends())}

    def written(self, batch: int) -> Proof | None:
        """Every partition has an entry of this batch."""
        snapshot = self.snapshot()
        return snapshot if set(snapshot["ledger"].values()) == {batch + 1} else None

    def half_written(self, batch: int) -> Proof | None:
        """Some partitions have an entry of this batch, some an older one or none; and so it stays for a while."""
        entries = self._entries()
        done = sum(entry == batch + 1 for entry in entries.values())
        if not 0 < done < len(entries):
            return None
        pause(SETTLED_S)
        snapshot = self.snapshot()
        return snapshot if snapshot["ledger"] == entries else None

    def in_transaction(self, point: CommitPoint, batch: int, before: dict[int, int]) -> Proof | None:
        """Rows: some lie between the last stable offset and the end. Entry: one is pending, with or without rows.

        Each is asked for first where it decides: this is done once a millisecond that an executor runs.
        """
        pending = self._pending(batch) if point is CommitPoint.ENTRY_SENT else []
        if point is CommitPoint.ENTRY_SENT and not pending:
            return None
        ends = self.ends()  # first: what is committed meanwhile is not taken for open
        stable = self._stable()()
        rows = {at: end for at, end in ends.items() if before.get(at, 0) <= stable[at] < end}
        if point is CommitPoint.ROWS_SENT:
            if not rows:
                return None
            pending = self._pending(batch)
        return {
            "open_rows": by_partition(rows),
            "stable": by_partition(stable),
            "pending": pending,
            **self.snapshot(),
        }

    def _pending(self, batch: int) -> list[int]:
        """The sink partitions whose entry lies in an open transaction."""
        partitions = range(self._checkpoint.partitions(batch))
        return [at for at in partitions if self._reader.is_pending(self._names.group(at), LOOK_UP_S)]

    def brokers(self, role: FaultComponent, batch: int) -> dict[int, int]:
        """Those of the ledger, or of the output."""
        if role is FaultComponent.LEADER:
            return kafka.leaders(self._broker, self._topic)
        groups = {at: self._names.group(at) for at in range(self._checkpoint.partitions(batch))}
        return {at: self._reader.coordinator(group, LOOK_UP_S) for at, group in groups.items()}

    def _entries(self) -> dict[str, int]:
        """The next batch of each partition, 0 if it has none."""
        first = self._entry(0)
        entries = {"0": 0 if first is None else first.next_batch}
        for partition in range(1, 1 if first is None else first.partitions):
            entry = self._entry(partition)
            entries[str(partition)] = 0 if entry is None else entry.next_batch
        return entries

    @cached_property
    def _names(self) -> Names:
        return Names(DEFAULT_PREFIX, self._checkpoint.query_id(), DEFAULT_SINK)

    def _entry(self, partition: int) -> LedgerEntry | None:
        return self._reader.look_up(self._names.group(partition), LOOK_UP_S, stable=False)


class _TopicProgress:
    """Of Spark's own sink, by the rows in its output topic."""

    def __init__(
        self, broker: Broker, topic: str, checkpoint: Checkpoint, ends: Callable[[], dict[int, int]]
    ) -> None:
        self.ends = ends
        self._broker = broker
        self._topic = topic
        self._checkpoint = checkpoint
        self._rows: Counter[tuple[str, str]] = Counter()
        self._read: dict[int, int] = {}
        self._since = 0.0

    def snapshot(self) -> Proof:
        """The end offsets."""
        return {"ends": by_partition(self.ends())}

    def written(self, batch: int) -> Proof | None:
        """All partitions have rows there, and nothing has come for a while."""
        rows, ends = self._still(batch)
        return {"rows": rows, "ends": ends} if len(rows) == self._checkpoint.partitions(batch) else None

    def half_written(self, batch: int) -> Proof | None:
        """Some partitions have rows there, some have none, and nothing has come for a while."""
        rows, ends = self._still(batch)
        return {"rows": rows, "ends": ends} if 0 < len(rows) < self._checkpoint.partitions(batch) else None

    def in_transaction(self, point: CommitPoint, batch: int, before: dict[int, int]) -> Proof | None:  # noqa: ARG002
        """It has no transactions."""
        return None

    def brokers(self, role: FaultComponent, batch: int) -> dict[int, int]:  # noqa: ARG002
        """Those of the output: it has no ledger."""
        return kafka.leaders(self._broker, self._topic)

    def _still(self, batch: int) -> tuple[dict[str, int], dict[str, int]]:
        """Rows of a batch by sink partition, and the ends; no rows while the output moves."""
        ends = self.ends()
        if ends != self._read:
            self._count(ends)
            self._since = time.monotonic()
        if time.monotonic() - self._since < STILL_S:
            return {}, by_partition(ends)
        rows = {partition: count for (of, partition), count in sorted(self._rows.items()) if of == str(batch)}
        return rows, by_partition(ends)

    def _count(self, ends: dict[int, int]) -> None:
        """Read what is new: how many rows of each batch each sink partition has in the output."""
        for message in kafka.read_messages(self._broker, self._topic, ends, self._read):
            headers = {name: kafka.visible(value) or "?" for name, value in kafka.headers(message)}
            self._rows[headers.get("batch", "?"), headers.get("partition", "?")] += 1
        self._read = ends


@contextmanager
def watch_sink_progress(
    sink: str, broker: Broker, topic: str, checkpoint: Checkpoint
) -> Iterator[SinkProgress]:
    """The progress of a query that writes ``topic`` with ``sink``, by clients that stay connected."""
    with ExitStack() as opened:
        ends = opened.enter_context(kafka.watched_ends(broker, topic))
        if sink == "exactly-once":
            committed = kafka.watched_ends(broker, topic, kafka.READ_COMMITTED)
            stable = functools.cache(
                lambda: opened.enter_context(committed)
            )  # only steps of transactions need it
            yield _LedgerProgress(broker, topic, checkpoint, ends, stable)
        else:
            yield _TopicProgress(broker, topic, checkpoint, ends)


def by_partition(ends: dict[int, int]) -> dict[str, int]:
    """End offsets as the journal has them."""
    return {str(partition): end for partition, end in sorted(ends.items())}
