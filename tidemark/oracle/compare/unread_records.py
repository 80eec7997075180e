"""Records that the judge cannot read, and what shows that the query did: ``decoded_differently``.

Free of I/O. Said is only what is certain. An output row shows that its query read a record

* if it has an id of a record in which the judge reads none, or another one; or
* if it is a pair or a semi row of a join with a time bound: without an event time there would be none.

A NULL row with the id that the judge reads, too, may as well be of a query that does not filter out what has no event
time. Where the output names no places, a record is taken for the one that is meant if no event of its topic has the
id, and no other unreadable record has it as far as can be seen. A row of the state shows it by its place and its event
time. The reverse is never said: a filter of the query leaves the same behind as a record that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from tidemark.formats.contract import JoinKind, Side
from tidemark.formats.events import decode_object, why_unreadable, write_time
from tidemark.formats.evidence import InputRecord
from tidemark.formats.field_values import key_text, value_reader
from tidemark.oracle.findings import Finding
from tidemark.oracle.input.history import Disposition, History, first_of, right_of
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, window

NAME = "decoded_differently"
Claimed = tuple[str | None, str | None]
"""The ids of an output row, by side."""


class UnreadRecord(NamedTuple):
    """``topic/partition/offset``; its id as far as it can be seen; whether it is a JSON object; why it is no event."""

    side: int
    place: str
    id: str | None
    is_object: bool
    why: str


class UnreadRecords:
    """The records of a run that are no events; ``inputs`` is asked for all records once one of these is named."""

    def __init__(self, history: History, inputs: Callable[[], Iterable[InputRecord]]) -> None:
        self._history = history
        self._inputs = inputs
        self._is_bounded = not window(history.contract.bound).is_boundless
        self._is_semi = history.contract.kind is JoinKind.LEFT_SEMI

    def read_by_query(self, identity: int, claimed: Callable[[], Claimed]) -> UnreadRecord | None:
        """A record that an output row is made of, and that its query must have read.

        The ids that the row claims are asked for only if it is made of such a record.
        """
        left, right = first_of(identity), right_of(identity)
        for row in (left,) if right is None else (left, right):
            if self._history.rows.disposition[row] == Disposition.UNREADABLE:
                found = self._by_row.get(row)
                if found is not None and self._was_read(found, claimed(), is_pair=right is not None):
                    return found
        return None

    def meant_by(self, claimed: Claimed, is_event: Callable[[int, str], bool]) -> UnreadRecord | None:
        """The record that an output row names by an id which no event of its topic has."""
        for side, name in enumerate(claimed):
            if name is None or is_event(side, name):
                continue
            found = self._by_id.get((side, name), ())
            is_pair = None not in claimed
            if len(found) == 1 and self._was_read(found[0], claimed, is_pair=is_pair):
                return found[0]
        return None

    def at(self, side: int, ref: tuple[int, int]) -> UnreadRecord | None:
        """The record at a partition and offset, if it is no event."""
        partition = self._history.partitions[side].get(ref[0])
        try:
            row = None if partition is None else partition.row_at(ref[1])
        except IndexError:
            return None
        is_unread = row is not None and self._history.rows.disposition[row] == Disposition.UNREADABLE
        return self._by_row.get(row) if is_unread and row is not None else None

    def in_output(self, found: UnreadRecord, claimed: Claimed, read: str, batch: int | None) -> Finding:
        """The finding about an output row."""
        output = self._history.contract.output
        row = {output.left_id: claimed[LEFT]}
        if output.right_id is not None:
            row[output.right_id] = claimed[RIGHT]
        where = "" if batch is None else f" of batch {batch}"
        ids = ", ".join(f"{name} {'NULL' if of is None else of}" for name, of in row.items())
        message = (
            f"the query read {found.place}, which is in output {read}{where} ({ids}), and the judge cannot:"
            f" {found.why}"
        )
        return Finding(property=NAME, message=message, row=row, written=[found.place], read=read, batch=batch)

    def in_state(self, found: UnreadRecord, time_us: int, batch: int) -> Finding:
        """The finding about a row of the state."""
        message = (
            f"the query read {found.place}, which Spark's state after batch {batch} has with the event time"
            f" {write_time(time_us)}, and the judge cannot: {found.why}"
        )
        return Finding(property=NAME, message=message, written=[found.place], batch=batch)

    def _was_read(self, found: UnreadRecord, claimed: Claimed, *, is_pair: bool) -> bool:
        if self._is_bounded and (is_pair or self._is_semi):
            return True
        name = claimed[found.side]
        return name is not None and not (found.is_object and name == found.id)

    @cached_property
    def _by_row(self) -> dict[int, UnreadRecord]:
        """Those that have a value: an audit has offsets without a record, which the query may have read."""
        history: History = self._history
        found: dict[int, UnreadRecord] = {}
        if Disposition.UNREADABLE not in history.rows.disposition:
            return found
        sides = {history.side(side).topic: side for side in (LEFT, RIGHT)}
        readers = [_Reader(history.described(side)) for side in (LEFT, RIGHT)]
        for record in self._inputs():
            side = sides.get(record.topic)
            if side is None or record.value is None:
                continue
            row = history.partitions[side][record.partition].row_at(record.offset)
            if history.rows.disposition[row] == Disposition.UNREADABLE:
                found[row] = readers[side].read(side, record)
        return found

    @cached_property
    def _by_id(self) -> dict[tuple[int, str], Sequence[UnreadRecord]]:
        found: dict[tuple[int, str], list[UnreadRecord]] = {}
        for record in self._by_row.values():
            if record.id is not None:
                found.setdefault((record.side, record.id), []).append(record)
        return dict(found)


class _Reader:
    """Reads what can be seen of the records of a side that are no events."""

    def __init__(self, side: Side) -> None:
        self._side = side
        field = side.field(side.id)
        self._id, self._kind = value_reader(field), field.made
        name = re.escape(str(field.path[-1]))
        self._in_text = re.compile(rf'"{name}"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",}}\]]+))')

    def read(self, side: int, record: InputRecord) -> UnreadRecord:
        """A record; its id is looked for in its text if it is no JSON object."""
        place, why = (
            f"{record.topic}/{record.partition}/{record.offset}",
            why_unreadable(record.value, self._side),
        )
        fields = decode_object(record.value)
        if fields is not None:
            return UnreadRecord(side, place, key_text(self._id(fields), self._kind), True, why)
        value = record.value or ""
        seen = self._in_text.search(value if isinstance(value, str) else value.decode("utf-8", "replace"))
        return UnreadRecord(side, place, None if seen is None else seen[1] or seen[2], False, why)
