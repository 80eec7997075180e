"""The records of a run as tables of DuckDB: those that are plain set by set, the odd ones by the reader of small runs.

Free of I/O but for scans of the evidence. A record is known by its number: that of its row in a scan of the trace,
counted from 1, sentinels last. Tables that are made:

* ``parsed(n, side, part, position, is_sentinel, id, time_us, readable, in_part)``, and each field that is compared
  (``tidemark.oracle.sql.join_rules.column_of``); ``in_part`` is the number of the part that the key is in;
* ``keys(key, k0 …)``: the different keys, each by its first record;
* ``absent(row, side)``: those at whose offset a reader of committed records finds none, without sentinels;
* ``records``: what the relations of a join read (``tidemark.oracle.sql.join_relations``).

A file is read in pieces that fit into memory, so that its rows are written out once, in the part that they belong to.
The rows of a piece have their numbers from the table that they are put into: a window over a scan runs on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import duckdb
import numpy as np
import pyarrow as pa

from tidemark.formats.scans import scans_in_pieces, text_of
from tidemark.formats.trace import Record
from tidemark.oracle.input.columns import ColumnReader
from tidemark.oracle.input.history import History
from tidemark.oracle.large.engine import LargeEvidence, key_names
from tidemark.oracle.large.event_arrays import event_arrays
from tidemark.oracle.large.part_tables import PartTables
from tidemark.oracle.large.plain import (
    FieldsRead,
    all_hold,
    as_number,
    as_text,
    as_time_us,
    is_number,
    is_plain_name,
    is_plain_object,
    is_text,
    is_time,
    names_and_example,
    read_fields,
    shapes_of,
)
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.interruptible import execute
from tidemark.oracle.sql.join_rules import Select, column_of, quoted

_TEXTS, _NUMBERS = (as_text, is_text), (as_number, is_number)
_READ = {"id": _TEXTS, "time_us": (as_time_us, is_time)}
"""How each column is read, and when it is plain."""
Database = duckdb.DuckDBPyConnection
SIDES = (LEFT, RIGHT)
_MOST_PARTITION = 2**31 - 1
"""Kafka's number of a partition is an INT32."""
_CHUNK, _NUMBERED = 50_000, 1_000_000
"""So many records are read, and so many rows are numbered, at a time."""


def can_be_read(history: History) -> bool:
    """Whether all names of the contract are such that DuckDB can look for them, at the top of records, as they are."""
    sides, fields = (history.contract.left, history.contract.right), history.pushdown.fields
    names = [name for side in sides for name in (side.id, side.time, *side.keys)]
    is_plain = all(side.is_plain and side.decode is None for side in sides)
    return is_plain and all(map(is_plain_name, [*names, *fields[LEFT], *fields[RIGHT]]))


class RecordTables:
    """Makes the tables of the records of one run, in parts.

    ``last`` is the number of the last record that is no sentinel.
    """

    def __init__(self, tables: PartTables, history: History, run: LargeEvidence) -> None:
        self._tables = tables
        self._sql = tables.sql
        self._history = history
        self._run = run
        self.keys = key_names(history)
        fields = history.pushdown.fields
        self.fields = {name: column_of(name) for name in (*fields[LEFT], *fields[RIGHT])}
        self._part = tables.part_of(*self.keys)
        self._rows = self.last = 0
        self._ends: dict[int, int] = {}

    def make(self) -> None:
        """Make all tables."""
        self._sql.execute("create temp table odd (n bigint, position bigint, side integer, part bigint)")
        self._sql.execute("create temp table absent (row bigint, side integer)")
        self._read("trace")
        self.last = self._rows
        if self._run.scan("flush") is not None:
            self._read("flush")
        self._read_odd()
        self._tables.drop("odd")
        self._make_keys()

    def records(self, numbers: np.ndarray) -> Iterator[Record]:
        """The records with these numbers, in order, as the numbers are."""
        asked = asked_for(numbers)
        for name, some in (("trace", asked[: self.last]), ("flush", asked[self.last :])):
            if b"\1" in some:
                yield from self._run.pick(name, some)

    def _read(self, name: str) -> None:
        """Append the plain records of a file to ``parsed``, and what is known of the others to ``odd``."""
        read = self._fields_read(self._run.scan(name) or "")
        for scan in scans_in_pieces(self._run.file(name), name, self._tables.piece_rows):
            self._tables.make_in_order("scanned", self._scanned(scan, read))
            rows = self._number()
            source = f"select s.rowid + {self._rows + 1} as n, p.position, {{}}"
            source += " from scanned s positional join positions p"
            plain = f"s.* exclude (is_plain), {str(name == 'flush').lower()} as is_sentinel, true as readable"
            self._tables.append(
                "parsed", f"{source.format(f'{plain}, {self._part} as in_part')} where s.is_plain"
            )
            self._sql.execute("set preserve_insertion_order = true")
            odd = f"{source.format('s.side, s.part')} where s.side is not null and not s.is_plain"
            execute(self._sql, f"insert into odd {odd}")
            self._rows += rows
            for spent in ("scanned", "positions"):
                self._tables.drop(spent)

    def _scanned(self, scan: str, read: Sequence[FieldsRead]) -> str:
        """The rows of a scan, in order, with the fields of those that are plain; ``side`` is NULL for other topics."""
        sides = [self._history.side(side) for side in SIDES]
        topics = " ".join(f"when {text_of(about.topic)} then {side}" for side, about in enumerate(sides))
        given = f"select case topic {topics} end as side, coalesce(partition, 0) as part, value from {scan}"
        asked = self._asked()
        fields = dict.fromkeys(name for one in read for name in one.fields)
        raw, values, plain = [], [], [is_plain_object(list(fields))]
        for number, (column, names) in enumerate(asked.items()):
            of_sides = [
                one.column(name) if name else "cast(null as json)"
                for one, name in zip(read, names, strict=True)
            ]
            raw.append(f"{_by_side(of_sides)} as json_{number}")
            as_value, is_value = _READ.get(column) or (_TEXTS if column in self.keys else _NUMBERS)
            values.append(f"{as_value(f'json_{number}')} as {column}")
            plain.append(is_value(f"json_{number}", column))
        return f"""
select side, part, {", ".join(f"case when is_plain then {name} end as {name}" for name in asked)}, is_plain
from (
    select *, side is not null and {all_hold(plain)} as is_plain
    from (
        select *, {", ".join(values)}
        from (
            select side, part, value, is_json, is_simple, {", ".join(raw)}
            from ({read_fields(given, read)}) all_fields
        ) fields
    ) read
) judged
"""

    def _asked(self) -> dict[str, list[str]]:
        """The columns that are read, and the names of their fields on both sides; none where a side has no such."""
        sides, compared = [self._history.side(side) for side in SIDES], self._history.pushdown.fields
        asked = {"id": [about.id for about in sides], "time_us": [about.time for about in sides]}
        asked |= {key: [about.keys[at] for about in sides] for at, key in enumerate(self.keys)}
        return asked | {
            quoted(name): [name if name in compared[side] else "" for side in SIDES] for name in self.fields
        }

    def _fields_read(self, scan: str) -> list[FieldsRead]:
        """What is read of the records of each side; its first records show how they are written."""
        read, asked = [], self._asked().values()
        for side in SIDES:
            topic = text_of(self._history.side(side).topic)
            found = self._sql.execute(names_and_example(f"select value from {scan} where topic = {topic}"))
            names = dict.fromkeys(names[side] for names in asked if names[side])
            read.append(FieldsRead(f"side = {side}", list(names), shapes_of(found.fetchall())))
        return read

    def _number(self) -> int:
        """Make ``positions``, those of the rows of ``scanned`` in their partitions. How many rows there are."""
        sql = self._sql
        sql.execute("create temp table positions (position bigint)")
        ((rows,),) = sql.execute("select count(*) from scanned").fetchall()
        for first in range(0, rows, _NUMBERED):
            place = sql.execute(
                f"select case when side is not null and part between 0 and {_MOST_PARTITION} then part * 2 + side"
                f" else -1 end as place from scanned where rowid between {first} and {first + _NUMBERED - 1}"
            ).fetchnumpy()["place"]
            sql.register("some_positions", {"position": self._positions(np.ma.getdata(place))})
            sql.execute("insert into positions select position from some_positions")
            sql.unregister("some_positions")
        return int(rows)

    def _positions(self, place: np.ndarray) -> np.ndarray:
        """The offsets of the next rows, by the number of their partition; the one after them is kept."""
        if place.max(initial=0) <= np.iinfo(np.int16).max:
            place = place.astype(np.int16)  # small numbers are sorted by counting them
        order = np.argsort(place, kind="stable")
        places, first, many = np.unique(place[order], return_index=True, return_counts=True)
        positions = np.empty(len(place), dtype=np.int64)
        for one, at, count in zip(places.tolist(), first.tolist(), many.tolist(), strict=True):
            start = self._ends.get(one, self._start_of(one))
            positions[order[at : at + count]] = np.arange(start, start + count)
            self._ends[one] = start + count
        return positions

    def _start_of(self, place: int) -> int:
        """The first offset of a partition of a side."""
        topic = self._history.manifest.inputs.get(self._history.side(place % 2).topic)
        return 0 if topic is None else topic.start_offsets.get(str(place // 2), 0)

    def _read_odd(self) -> None:
        """Read the records that are not plain as small runs do."""
        found = self._sql.execute("select n, side, part, position from odd order by n").fetchnumpy()
        places = {name: np.ma.getdata(found[name]) for name in ("n", "part", "position")}
        sides, compared = np.ma.getdata(found["side"]), self._history.pushdown.fields
        readers = [ColumnReader(self._history.side(side), compared[side]) for side in SIDES]
        records = self.records(places["n"])
        for first in range(0, len(sides), _CHUNK):
            some = [(one.text_or_bytes(), one.is_absent) for one in islice(records, _CHUNK)]
            for side in SIDES:
                mine = np.flatnonzero(sides[first : first + _CHUNK] == side)
                values = [some[at][0] for at in mine.tolist()]
                absent = [some[at][1] for at in mine.tolist()]
                table = event_arrays(self._history.side(side), readers[side], values, self.fields, absent)
                table["is_absent"] = pa.array(absent, pa.bool_())
                table |= {name: pa.array(column[mine + first]) for name, column in places.items()}
                self._sql.register("odd_records", pa.table(table))
                self._tables.append(
                    "parsed",
                    f"select n, position, {side} as side, part, {', '.join(self._asked())},"
                    f" n > {self.last} as is_sentinel, readable, {self._part} as in_part from odd_records",
                )
                self._sql.execute(
                    f"insert into absent select n, {side} from odd_records where is_absent and n <= {self.last}"
                )
                self._sql.unregister("odd_records")

    def _make_keys(self) -> None:
        """``keys`` and ``records``."""
        names = ", ".join(self.keys)
        same = " and ".join(f"p.{key} is not distinct from k.{key}" for key in self.keys)
        is_null = " or ".join(f"p.{key} is null" for key in self.keys)
        fields = "".join(f", {quoted(field)}" for field in self.fields)
        found = [
            Select("keys", f"select min(n) as key, {names} from parsed where readable group by {names}"),
            Select(
                "records",
                f"select p.n as row, p.side, p.part, p.position, k.key, {is_null} as has_null_key, p.time_us,"
                f" p.readable{fields} from parsed p left join keys k on p.readable and {same}",
            ),
        ]
        self._tables.make_relations(found, "keys records")
        self._tables.drop_columns("parsed", self.keys)


def asked_for(numbers: np.ndarray) -> bytes:
    """A 1 for each of these numbers, which are in order and count from 1."""
    asked = np.zeros(numbers[-1] if len(numbers) else 0, dtype=np.uint8)
    asked[numbers - 1] = 1
    return asked.tobytes()


def _by_side(texts: Sequence[str]) -> str:
    """What depends on the side of a record."""
    left, right = texts
    return left if left == right else f"case when side = {LEFT} then {left} else {right} end"
