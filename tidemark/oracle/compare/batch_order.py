"""The order of batches in each partition of the output: which right rows came after rows of a later batch.

Free of I/O. It follows from how a query writes, and from nothing that Spark may change: the next batch is planned once
this one is committed, and a batch is committed once each of its tasks has had an answer for all of its rows
(``KafkaDataWriter.commit`` flushes; a transaction is committed). So each row of a batch is in the topic before any row
of a later one is sent. With a delivery that is at-least-once another copy may come at any time, of an attempt that was
given up: a row is in order if one of its copies is. Rows of another batch than they are due in say nothing of order,
and are left out on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

PLACE_BITS = 48
Firsts = Mapping[tuple[int, int], int]
"""Partition of the output and batch -> the place of the first right row of that batch there."""


class RightRow(NamedTuple):
    """A record of a row in the batch that it is due in; rows that are equal are one ``row``, owed several times."""

    row: Hashable
    batch: int
    place: int


class Misordered(NamedTuple):
    """A record behind a right row of a later batch; ``of`` is that batch, ``behind`` the place of its row."""

    record: RightRow
    behind: int
    of: int

    @property
    def why(self) -> str:
        """What was seen, and what follows from it, for a finding."""
        where = f"output {written(self.behind)} of batch {self.of}"
        return f"came after {where}: batch {self.record.batch} had been committed without it"


def place_of(partition: int, offset: int) -> int:
    """One number for a place in the output."""
    return partition << PLACE_BITS | offset


def written(place: int) -> str:
    """A place for people: ``partition/offset``."""
    return f"{place >> PLACE_BITS}/{place & (1 << PLACE_BITS) - 1}"


def misordered(
    records: Callable[[], Iterable[RightRow]],
    owed: Callable[[Hashable], int] = lambda _row: 1,
    known: Firsts | None = None,
) -> list[Misordered]:
    """The rows that came in their batch, none of whose copies came before all rows of later batches.

    ``records`` gives all records of right rows, copies too; ``owed`` says how often a row is owed; ``known`` are first
    places of rows that are not among the records.
    """
    later = later_rows(first_places(records(), known or {}))
    if not any(_is_behind(one, later) for one in records()):
        return []
    in_order = Counter(one.row for one in records() if not _is_behind(one, later))
    left: Counter[Hashable] = Counter()
    found = []
    for one in records():
        if not _is_behind(one, later):
            continue
        left[one.row] += 1
        if in_order[one.row] + left[one.row] <= owed(one.row):
            found.append(Misordered(one, *later[one.place >> PLACE_BITS, one.batch]))
    return found


def first_places(records: Iterable[RightRow], known: Firsts) -> dict[tuple[int, int], int]:
    """The first place of each batch in each partition."""
    found = dict(known)
    for _, batch, place in records:
        at = place >> PLACE_BITS, batch
        before = found.get(at)
        if before is None or place < before:
            found[at] = place
    return found


def later_rows(firsts: Firsts) -> dict[tuple[int, int], tuple[int, int]]:
    """Partition and batch -> place and batch of the first right row of a later batch there."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    nearest: tuple[int, int, int] | None = None
    for (partition, batch), place in sorted(firsts.items(), reverse=True):
        if nearest is not None and nearest[0] == partition:
            found[partition, batch] = nearest[1:]
            if place > nearest[1]:
                continue
        nearest = partition, place, batch
    return found


def _is_behind(one: RightRow, later: Mapping[tuple[int, int], tuple[int, int]]) -> bool:
    first = later.get((one.place >> PLACE_BITS, one.batch))
    return first is not None and one.place > first[0]
