"""What a query's sink has written of a batch, seen from outside while the query runs.

``written`` of a batch means that every sink partition has written its rows. For the exactly-once sink its ledger says
so. Spark's own sink keeps no such record: there every partition must have rows of the batch in the output (by their
headers), and the output must stand still, while the driver is stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient

from tidemark import kafka
from tidemark.checkpoint import Checkpoint
from tidemark.sink.ledger import DEFAULT_LEDGER, DEFAULT_PREFIX, DEFAULT_SINK, Names, look_up

LOOK_S = 5.0
"""Calibration: a coordinator answers within 5 ms."""

STILL_S = 1.0
"""Calibration: between the first record of a batch and the last lie some hundred milliseconds."""

Proof = dict[str, Any]


class Output(Protocol):
    """One query's output."""

    def ends(self) -> dict[int, int]:
        """The end offsets of the output topic, rows of open transactions included; cheap."""

    def written(self, batch: int) -> Proof | None:
        """What shows that every sink partition has written the batch; ``None`` while nothing does."""


class _Ledger:
    """Of the exactly-once sink."""

    def __init__(self, bootstrap: str, checkpoint: Checkpoint, ends: Callable[[], dict[int, int]]) -> None:
        self.ends = ends
        self._checkpoint = checkpoint
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def written(self, batch: int) -> Proof | None:
        """Every partition has an entry of this batch."""
        names = Names(DEFAULT_PREFIX, self._checkpoint.query_id(), DEFAULT_SINK)
        entries: dict[str, int] = {}
        partition = count = 0
        while partition <= count:
            entry = look_up(self._admin, names.group(partition), DEFAULT_LEDGER, LOOK_S)
            if entry is None or entry.next_batch != batch + 1:
                return None
            entries[str(partition)], count = entry.next_batch, entry.partitions - 1
            partition += 1
        return {"ledger": entries, "ends": _named(self.ends())}


class _Topic:
    """Of Spark's own sink."""

    def __init__(
        self, bootstrap: str, topic: str, checkpoint: Checkpoint, ends: Callable[[], dict[int, int]]
    ) -> None:
        self.ends = ends
        self._bootstrap = bootstrap
        self._topic = topic
        self._checkpoint = checkpoint
        self._rows: Counter[tuple[str, str]] = Counter()
        self._read: dict[int, int] = {}
        self._since = 0.0

    def written(self, batch: int) -> Proof | None:
        """All partitions have rows there, and nothing has come for a while."""
        ends = self.ends()
        if ends != self._read:
            self._count(ends)
            self._since = time.monotonic()
        rows = {part: count for (of, part), count in sorted(self._rows.items()) if of == str(batch)}
        is_still = time.monotonic() - self._since >= STILL_S
        whole = len(rows) == self._checkpoint.partitions(batch)
        return {"rows": rows, "ends": _named(ends)} if whole and is_still else None

    def _count(self, ends: dict[int, int]) -> None:
        """Read what is new: how many rows of each batch each sink partition has in the output."""
        for message in kafka.read_messages(self._bootstrap, self._topic, ends, self._read):
            headers = {name: kafka.visible(value) or "?" for name, value in kafka.headers(message)}
            self._rows[headers.get("batch", "?"), headers.get("partition", "?")] += 1
        self._read = ends


@contextmanager
def watched(sink: str, bootstrap: str, topic: str, checkpoint: Checkpoint) -> Iterator[Output]:
    """The output of a query that writes ``topic`` with ``sink``, by clients that stay connected."""
    with kafka.watched_ends(bootstrap, topic) as ends:
        if sink == "exactly-once":
            yield _Ledger(bootstrap, checkpoint, ends)
        else:
            yield _Topic(bootstrap, topic, checkpoint, ends)


def _named(ends: dict[int, int]) -> dict[str, int]:
    return {str(partition): end for partition, end in sorted(ends.items())}
