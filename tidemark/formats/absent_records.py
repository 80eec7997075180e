"""What has to hold of the records of a trace that a reader of committed records does not get, and of transactions.

Free of I/O. ``tidemark.formats.trace`` has the rules for people; these are the checks, record by record.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.formats.trace import Record

CONTROL = ("commit", "abort")
"""Control records: ``absent`` of these ends a transaction."""


GAP = "gap"
"""``absent`` where nothing says why there is no record."""


class TransactionCheck:
    """Follows the records of a trace, in order; ``compacted`` are the topics that Kafka compacts."""

    def __init__(self, compacted: Collection[str]) -> None:
        self._compacted = compacted
        self._number: int | None = None
        self._last = 0
        self._slice = 0
        self._is_aborted = False
        self._has_ended = False
        self._lack_mark: set[tuple[str, int]] = set()

    def see(self, record: Record) -> None:
        """Raise ``ValueError`` for a record that breaks a rule."""
        self._check_fields(record)
        if record.absent in ("compacted", GAP):
            return
        if record.absent in CONTROL:
            self._end(record)
        elif record.transaction is not None:
            self._add(record, record.transaction)
        elif self._has_ended and self._lack_mark:
            raise ValueError(self._unended())

    def end(self) -> None:
        """Raise ``ValueError`` if a transaction has not ended."""
        if self._lack_mark:
            raise ValueError(self._unended())

    def _check_fields(self, record: Record) -> None:
        absent = record.absent
        if record.topic in self._compacted and absent not in (*CONTROL, GAP) and record.key_bytes() is None:
            raise ValueError(f"topic {record.topic!r} is compacted: each of its records needs a key")
        if self._lack_mark and record.slice != self._slice:
            raise ValueError(self._unended())
        if absent is None:
            return
        if record.value_bytes() is not None:
            raise ValueError(
                f"a record that is absent ({absent}) has no value; `sent` is what was rolled back"
            )
        if record.sent is not None and absent != "aborted":
            raise ValueError(f"a record that is absent ({absent}) has nothing that was sent")
        if absent == "compacted" and record.topic not in self._compacted:
            raise ValueError(f"topic {record.topic!r} is none of `compacted` in the header")
        if absent == "compacted" and record.transaction is not None:
            raise ValueError("a record that compaction has removed is in no transaction here")
        if absent == GAP and record.transaction is not None:
            raise ValueError("an offset of which nothing says why it has no record is in no transaction")
        if absent not in ("compacted", GAP) and record.transaction is None:
            raise ValueError(f"a record that is absent ({absent}) names its transaction")

    def _add(self, record: Record, number: int) -> None:
        is_aborted = record.absent == "aborted"
        if not self._lack_mark:
            if number <= self._last:
                raise ValueError(f"transaction {number} after transaction {self._last}: numbers rise from 1")
            self._number = self._last = number
            self._slice, self._is_aborted, self._has_ended = record.slice, is_aborted, False
        if number != self._number or self._has_ended:
            raise ValueError(self._unended())
        if is_aborted != self._is_aborted:
            raise ValueError(f"of the records of transaction {number} some are aborted and some are not")
        self._lack_mark.add((record.topic, record.partition))

    def _end(self, record: Record) -> None:
        place = record.topic, record.partition
        if record.transaction != self._number or place not in self._lack_mark:
            raise ValueError(
                f"transaction {record.transaction} has no record in {record.topic}/{record.partition}"
                " that lacks its control record"
            )
        if (record.absent == "abort") != self._is_aborted:
            raise ValueError(
                f"transaction {record.transaction} ends with {record.absent!r}, and its records differ"
            )
        self._has_ended = True
        self._lack_mark.discard(place)

    def _unended(self) -> str:
        topic, partition = min(self._lack_mark)
        return f"transaction {self._number} has no control record in {topic}/{partition} before this"
