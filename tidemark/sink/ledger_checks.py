"""Checks of a task against the ledger: each rule here loses or doubles rows if it is broken. Pure.

An entry belongs to the batch *in flight* if it names the batch that the task is to write. Then a partition of that
batch is already in Kafka, and everything that assigns rows to partitions must be unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import SinkRefused
from tidemark.sink.ledger import LedgerEntry
from tidemark.sink.records import KeySum


@dataclass(frozen=True)
class Task:
    """One partition of one batch of one run of a query.

    ``offsets`` is the fingerprint of the batch's source offsets; empty if the driver cannot read the checkpoint.
    """

    query: str
    run: str
    batch: int
    partition: int
    attempt: int
    partitions: int
    offsets: str = ""

    def stamp(self) -> list[tuple[str, bytes | None]]:
        """Provenance headers: they name the task that wrote a record."""
        fields = (
            ("query", self.query),
            ("batch", self.batch),
            ("partition", self.partition),
            ("attempt", self.attempt),
        )
        return [(name, str(value).encode()) for name, value in fields]


def check_entry(existing: LedgerEntry, new: LedgerEntry, task: Task) -> None:
    """Raise ``SinkRefused`` if an entry of any partition of the query contradicts the batch that is to be written."""
    if existing.next_batch > new.next_batch:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} is older than the newest batch in Kafka: batch "
            f"{existing.next_batch - 1}",
            detail="the checkpoint was rolled back or is an old copy; writing the batch would duplicate rows, and "
            "skipping it would lose rows that were never written",
            hint="stop the second copy of the query, if one runs; otherwise restore the newest checkpoint, or start "
            "with a new one, which writes duplicates",
        )
    if existing.next_batch < new.next_batch:
        return
    difference = (
        _difference("partitions", existing.partitions, new.partitions)
        or _difference("key expressions", existing.layout, new.layout)
        or _difference("topic", existing.topic, new.topic)
        or _difference("cluster", existing.cluster, new.cluster)
    )
    if difference:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} was begun with other settings: {difference}",
            detail="some of its rows are in Kafka already; written with these settings, others would be "
            "lost or doubled",
            hint="restart the query with its previous settings, let the batch complete, stop it, and then change them",
        )
    if existing.offsets and new.offsets and existing.offsets != new.offsets:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} is in Kafka, but was read from other offsets",
            detail=f"fingerprint of its source offsets: {existing.offsets} in the ledger, {new.offsets} now; "
            "the checkpoint was rolled back by one batch, so the new rows would be lost",
            hint="restore the newest checkpoint, or start a new query with a new checkpoint",
        )


def check_fingerprint(existing: LedgerEntry, keys: KeySum, task: Task) -> None:
    """Raise ``SinkRefused`` unless a partition that is already in Kafka has the same keys when it is run again."""
    if (existing.rows, existing.keys) == (keys.rows, str(keys)):
        return
    raise SinkRefused(
        f"partition {task.partition} of batch {task.batch} of query {task.query} differs from the rows in Kafka: "
        f"{keys.rows} rows now, {existing.rows} in Kafka"
        + (", with other keys" if existing.rows == keys.rows else ""),
        detail="when the batch was run again, the key expressions gave other values, or the query gave "
        "other rows (other "
        "input, or a state store that was not restored correctly); rows would be lost or doubled",
        hint="use a deterministic key (no rand(), uuid(), current time or non-deterministic UDF), or one partition, "
        "which needs no key; if the key is deterministic, compare the rows of this batch with the topic",
    )


def _difference(what: str, before: object, now: object) -> str:
    return f"{what} {before!r} before, {now!r} now" if before != now else ""
