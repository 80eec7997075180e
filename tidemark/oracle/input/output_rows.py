"""From an output record to the rows it claims to be made of.

Does not decide whether the row is right. Two ways: a contract with refs gives the Kafka positions
of both inputs, so each output row is unique; without refs there are only ids, an event that was sent twice
has two rows of one id, and output is a multiset: a record is taken for the expected row of its ids that has
not come yet, one of its own batch first. A NULL may be the id of an event that has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from tidemark.formats.events import field_reader
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.field_types import is_plain_number
from tidemark.formats.field_values import as_text
from tidemark.formats.trace import HeaderValue
from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, Disposition, History, alone, pair
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

HEADERS = ("query", "batch", "partition", "attempt")
BATCHES_END = 10**18
"""A batch id has at most 18 digits: more may be no LONG."""


Read = tuple[int | None, int, str]
"""What a record claims to be: identity, batch, problem.

Without an identity it is no row of this run, and the problem says why: corrupt if its batch is ``NO_BATCH``, else
invented.
"""


def header_problem(record: OutputRecord) -> str:
    """What is wrong with the headers that name batch and query; ``""``: nothing."""
    named = dict(record.headers)
    text = _header(record, named, "batch")
    if text is None or _as_batch(text) is None:
        needed = ", ".join(HEADERS)
        return f"its header 'batch' is {_shown(text)}; the headers of an output record are {needed}"
    if len(named) == len(record.headers):
        return ""
    names = [name for name, _ in record.headers]
    twice = next((name for name in ("batch", "query") if names.count(name) > 1), None)
    return f"it has the header {twice!r} {names.count(twice)} times" if twice else ""


def header_batch(record: OutputRecord) -> int | None:
    """The batch that a record names, if its headers have no problem."""
    return None if header_problem(record) else _as_batch(record.header("batch") or "")


@functools.lru_cache(maxsize=4096)
def _as_batch(text: str) -> int | None:
    """The batch that a header names; thousands of records name the same."""
    return int(text) if is_plain_number(text, BATCHES_END) else None


def _header(record: OutputRecord, named: dict[str, HeaderValue], name: str) -> str | None:
    """``OutputRecord.header``, where all headers are in a dictionary already."""
    value = named.get(name)
    return value if type(value) is str else record.header(name)


def _shown(text: str | None) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:60]}… ({len(text or ''):,} characters)"


def likeliest(
    identities: Iterable[int], batch: int, predicted: Mapping[int, int], came: Callable[[int], bool]
) -> int:
    """Which of several rows with the same ids a record is: the one that was awaited most."""
    return min(
        identities,
        key=lambda identity: (
            identity not in predicted,
            came(identity),
            predicted.get(identity) != batch,
            identity,
        ),
    )


class OutputReader:
    """Reads the output records of one run. ``choose`` picks among rows of the same ids, where there are no refs."""

    def __init__(self, history: History, choose: Callable[[list[int], int], int]) -> None:
        self._history = history
        self._choose = choose
        self._ids = history.rows.id
        self._partitions = history.partitions
        output = history.contract.output
        self._semi = output.right_id is None
        self._has_refs = output.has_refs
        absent = output.left_id
        names = [
            output.left_id,
            output.right_id or absent,
            *(output.left_ref or (absent, absent)),
            *(output.right_ref or (absent, absent)),
        ]
        self._fields = field_reader(names)
        self._query = history.manifest.query_id
        self._by_id: tuple[dict[str | None, list[int]], ...] | None = None

    def claimed(self, record: OutputRecord) -> tuple[str | None, str | None]:
        """The ids that a record names, left and right."""
        fields = self._fields(record.value) or (None, None)
        return as_text(fields[0]), None if self._semi else as_text(fields[1])

    def is_event(self, side: int, name: str) -> bool:
        """Whether an event of a side has this id."""
        if self._by_id is None:
            self._by_id = self._index()
        return name in self._by_id[side]

    def read(self, record: OutputRecord) -> Read:
        """The row that a record claims to be."""
        if problem := header_problem(record):
            return _corrupt(problem)
        named = dict(record.headers)
        text, query = _header(record, named, "batch") or "", _header(record, named, "query")
        if query is None or query != self._query:
            if query is None or self._query is not None:
                return _corrupt(f"its header 'query' is {query!r}; this query is {self._query!r}")
            self._query = query  # the manifest does not say: the first record does
        fields = self._fields(record.value)
        if fields is None:
            return _corrupt("its value is not a JSON object")
        batch = _as_batch(text) or 0
        if self._has_refs:
            return self._by_refs(fields, batch)
        return self._by_ids(as_text(fields[0]), None if self._semi else as_text(fields[1]), batch)

    def _by_refs(self, fields: tuple[Any, ...], batch: int) -> Read:
        left_id, right_id, left_partition, left_offset, right_partition, right_offset = fields
        right_ref = right_partition, right_offset
        if left_partition is None and left_offset is None and left_id is None and not self._semi:
            right, problem = self._row_at(RIGHT, right_id, right_ref)
            return (alone(right), batch, "") if right is not None else self._no_row(problem, batch)
        left, problem = self._row_at(LEFT, left_id, (left_partition, left_offset))
        if left is None:
            return self._no_row(problem, batch)
        if self._semi or (right_ref == (None, None) and right_id is None):
            return left << ROW_BITS, batch, ""
        if right_ref == (None, None):
            return _corrupt(f"it names {as_text(right_id)!r} on the right, but not where that was written")
        right, problem = self._row_at(RIGHT, right_id, right_ref)
        if right is None:
            return self._no_row(problem, batch)
        return left << ROW_BITS | (right + 1), batch, ""

    def _row_at(self, side: int, claimed: Any, ref: tuple[Any, Any]) -> tuple[int | None, tuple[bool, str]]:
        """The row at a position that has the claimed id; or none, whether the record is corrupt then, and why."""
        try:
            row = self._partitions[side][ref[0]].row_at(ref[1])
        except (KeyError, IndexError, TypeError):
            return None, self._unknown(side, claimed, ref)
        if self._ids[row] != claimed and self._contradicts(row, claimed):
            return None, (True, self._contradiction(row, claimed))
        return row, (False, "")

    def _no_row(self, problem: tuple[bool, str], batch: int) -> Read:
        is_corrupt, why = problem
        return _corrupt(why) if is_corrupt else (None, batch, why)

    def _contradicts(self, row: int, claimed: Any) -> bool:
        """An id that is no string in JSON is compared as the STRING column that it was read into."""
        rows = self._history.rows
        return rows.disposition[row] != Disposition.UNREADABLE and rows.id[row] != as_text(claimed)

    def _contradiction(self, row: int, claimed: Any) -> str:
        rows, side = self._history.rows, self._history.side(self._history.rows.side[row])
        partition, offset = self._history.position(row)
        holds = f"{side.topic}/{partition}/{offset} holds {rows.id[row]!r}"
        return f"it names {side.id} {as_text(claimed)!r}, but {holds}"

    def _unknown(self, side: int, claimed: Any, ref: tuple[Any, Any]) -> tuple[bool, str]:
        topic = self._history.side(side).topic
        if type(ref[0]) is not int or type(ref[1]) is not int:
            return True, f"its position in {topic} is {ref[0]!r}/{ref[1]!r}, which is no partition and offset"
        return False, f"it names {as_text(claimed)!r} at {topic}/{ref[0]}/{ref[1]}, where nothing was written"

    def _by_ids(self, left_id: str | None, right_id: str | None, batch: int) -> Read:
        if self._by_id is None:
            self._by_id = self._index()
        lefts, rights = self._by_id[LEFT].get(left_id, []), self._by_id[RIGHT].get(right_id, [])
        readings = [] if self._semi else [pair(*both) for both in product(lefts, rights)]
        if right_id is None:
            readings += map(alone, lefts)
        if left_id is None and not self._semi:
            readings += map(alone, rights)
        if readings:
            return self._choose(readings, batch), batch, ""
        side, name = (
            (RIGHT, right_id) if lefts or (left_id is None and right_id is not None) else (LEFT, left_id)
        )
        return None, batch, f"no {self._history.side(side).topic} event has the id {name!r}"

    def _index(self) -> tuple[dict[str | None, list[int]], ...]:
        rows = self._history.rows
        index: tuple[dict[str | None, list[int]], ...] = ({}, {})
        for row, name in enumerate(rows.id):
            if rows.disposition[row] != Disposition.UNREADABLE:
                index[rows.side[row]].setdefault(name, []).append(row)
        return index


def _corrupt(problem: str) -> Read:
    return None, NO_BATCH, problem
