"""What a reader of committed records does not get: rolled back records, control records, and what compaction removed.

Pure, without I/O. It is put between the rows of a generated trace, some of a slice at a time, once they are sorted:

``transactions``  a share of the records is sent in transactions of the producer that commit, some records in each;
``aborted``       a share of the records is sent once before, in a transaction that is rolled back, as a producer does
                  that is killed and tries again;
``compacted``     a share of the records has an earlier version in its partition, which compaction removes. Not in the
                  last slice of a partition, which Kafka does not compact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

from msgspec.structs import replace

from producers.draft import Draft
from producers.settings import Settings
from tidemark.formats.trace import Absent

MOST_RECORDS = 8
"""The most records of a transaction."""
MOST_BETWEEN = 20
"""An earlier version is at most so many rows before its record."""
TOGETHER = 1_000
"""So many rows of a slice are laid out together."""

Piece = tuple[int, list[Draft]]
"""The number of a slice, and some of its rows, in order."""
Place = tuple[int, int]
"""Topic and partition."""


def is_asked(settings: Settings) -> bool:
    """Whether a trace has anything of this."""
    return bool(settings.transactions or settings.aborted or settings.compacted)


class LogLayout:
    """Lays the rows of a trace out; may be done again, and gives the same. ``counts`` is known after the first time."""

    def __init__(self, settings: Settings, last_slice: dict[Place, int]) -> None:
        """``last_slice`` has, for each partition, the last slice in which it has rows."""
        self._settings = settings
        self._last_slice = last_slice
        self.counts: Counter[str] = Counter()

    def laid_out(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The same rows with what is put between them."""
        self.counts = Counter()
        rng, key = Random(f"{self._settings.seed}/log layout"), 0
        transactions = _Transactions(rng, self._settings, self.counts)
        for number, rows in _together(pieces):
            for row in rows:
                row.transaction = None  # those in memory have what they had the time before
            if self._settings.compacted:
                for row in rows:
                    row.key, key = f"k-{key}", key + 1
                rows = self._with_earlier_versions(rng, number, rows)
            yield number, transactions.around(rows)

    def _with_earlier_versions(self, rng: Random, number: int, rows: list[Draft]) -> list[Draft]:
        """Rows with an earlier version of some of them, each somewhere before its row."""
        before: dict[int, list[Draft]] = {}
        for at, row in enumerate(rows):
            place = row.topic, row.partition
            if number < self._last_slice[place] and rng.random() < self._settings.compacted:
                first = rng.randint(max(0, at - MOST_BETWEEN), at)
                before.setdefault(first, []).append(
                    replace(
                        row, absent="compacted", arrival_ms=rows[first].arrival_ms, order=rows[first].order
                    )
                )
        self.counts["compacted"] += sum(map(len, before.values()))
        return [one for at, row in enumerate(rows) for one in (*before.get(at, ()), row)]


def _together(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The rows in pieces that do not depend on how they come: the last one of each slice is shorter."""
    number, rows = 0, list[Draft]()
    for following, some in pieces:
        if following != number and rows:
            yield number, rows
            rows = []
        number = following
        rows = [*rows, *some]
        while len(rows) >= TOGETHER:
            yield number, rows[:TOGETHER]
            rows = rows[TOGETHER:]
    if rows:
        yield number, rows


class _Transactions:
    """Puts transactions around rows, and numbers them."""

    def __init__(self, rng: Random, settings: Settings, counts: Counter[str]) -> None:
        self._rng = rng
        self._settings = settings
        self._counts = counts
        self._number = 0

    def around(self, rows: list[Draft]) -> list[Draft]:
        """The rows, with transactions that are rolled back before some, and around others."""
        found: list[Draft] = []
        at = 0
        while at < len(rows):
            some = rows[at : at + self._rng.randint(1, MOST_RECORDS)]
            at += len(some)
            if any(row.absent for row in some):
                found += some  # what compaction removes was sent in no transaction
                continue
            if self._rng.random() < self._settings.aborted:
                self._counts["rolled_back"] += len(some)
                tried_ms = some[0].arrival_ms
                found += self._ended(
                    [replace(row, absent="aborted", arrival_ms=tried_ms) for row in some], "abort"
                )
            if self._rng.random() < self._settings.transactions:
                self._counts["in_transactions"] += len(some)
                some = self._ended(some, "commit")
            found += some
        return found

    def _ended(self, rows: list[Draft], how: Absent) -> list[Draft]:
        """Rows as those of one transaction, and its control records."""
        self._number += 1
        last: dict[Place, Draft] = {}
        for row in rows:
            row.transaction = self._number
            last[row.topic, row.partition] = row
        self._counts["control_records"] += len(last)
        end = rows[-1]
        controls = [
            replace(last[place], absent=how, arrival_ms=end.arrival_ms, order=end.order)
            for place in sorted(last)
        ]
        return [*rows, *controls]
