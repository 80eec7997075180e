"""Do the task at hand and an entry of the ledger go together? Pure: each rule that would lose or double rows if broken.

An entry is of the batch *in flight* if it names the batch that the task is to write: then some partition of that batch
is in Kafka already, and everything that decides which rows go to which partition must be as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import SinkRefused
from tidemark.sink.ledger import Entry
from tidemark.sink.records import KeySum


@dataclass(frozen=True)
class Task:
    """One partition of one batch of one run of a query.

    ``offsets`` is the fingerprint of what the batch reads; empty if the driver cannot see the checkpoint.
    """

    query: str
    run: str
    batch: int
    partition: int
    attempt: int
    partitions: int
    offsets: str = ""

    def stamp(self) -> list[tuple[str, bytes | None]]:
        """Headers that trace a record to the task that wrote it."""
        told = (
            ("query", self.query),
            ("batch", self.batch),
            ("partition", self.partition),
            ("attempt", self.attempt),
        )
        return [(name, str(value).encode()) for name, value in told]


def must_fit(there: Entry, mine: Entry, task: Task) -> None:
    """Raise ``SinkRefused`` if the entry of any partition of the query forbids to write this batch as it is now."""
    if there.next_batch > mine.next_batch:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} is older than what Kafka holds: batch {there.next_batch - 1}",
            detail="the checkpoint was rolled back or is an old copy; written again, the rows would be there twice, "
            "and skipped, rows that were never written would be lost",
            hint="end the second copy of the query, if one runs; else restore the newest checkpoint, or start with a "
            "new one, and expect duplicates",
        )
    if there.next_batch < mine.next_batch:
        return
    unlike = (
        _unlike("partitions", there.partitions, mine.partitions)
        or _unlike("key expressions", there.layout, mine.layout)
        or _unlike("topic", there.topic, mine.topic)
        or _unlike("cluster", there.cluster, mine.cluster)
    )
    if unlike:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} was begun with other settings: {unlike}",
            detail="some of its rows are in Kafka; with these settings others of them would be lost or doubled",
            hint="start once more with the settings of before, let the batch end, stop, and change them then",
        )
    if there.offsets and mine.offsets and there.offsets != mine.offsets:
        raise SinkRefused(
            f"batch {task.batch} of query {task.query} is in Kafka, but was made of other input",
            detail=f"fingerprint of its source offsets: {there.offsets} in the ledger, {mine.offsets} now; "
            "the checkpoint was rolled back by a batch, so the new rows would be lost",
            hint="restore the newest checkpoint; or start with a new one, which makes a new query",
        )


def must_repeat(there: Entry, keys: KeySum, task: Task) -> None:
    """Raise ``SinkRefused`` unless a partition that is in Kafka has the same keys again."""
    if (there.rows, there.keys) == (keys.rows, str(keys)):
        return
    raise SinkRefused(
        f"partition {task.partition} of batch {task.batch} of query {task.query} has other rows than those in Kafka: "
        f"{keys.rows}, not {there.rows}" + (", with other keys" if there.rows == keys.rows else ""),
        detail="run again, the key expressions gave other values, or the query gave other rows: from other input, or "
        "from a state store that is not what it was; rows would be lost or doubled",
        hint="use a key that depends on nothing but the input (no rand(), uuid(), current time or changing UDF), or "
        "one partition, which needs no key; if the key is sound, compare this batch with the topic",
    )


def _unlike(what: str, before: object, now: object) -> str:
    return f"{what} {before!r} before, {now!r} now" if before != now else ""
