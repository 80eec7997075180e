"""The records of a run as tables of DuckDB: those that are plain set by set, the odd ones by the reader of small runs.

Free of I/O but for the scan of the evidence, whose text the evidence gives. A record is known by its number in the
trace, sentinels last. Tables that are made:

* ``parsed(n, side, part, position, is_sentinel, id, k0 …, time_us, readable)``, and each field that is compared, by
  its name and ``_``;
* ``keys(key, k0 …)``: the different keys, each by its first record;
* ``records``: what the relations of a join read (``tidemark.oracle.sql.join_relations``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.oracle.input.columns import ColumnReader
from tidemark.oracle.input.history import History
from tidemark.oracle.large.plain import (
    as_number,
    as_text,
    as_time_us,
    extracted,
    is_number,
    is_plain_name,
    is_text,
    is_time,
    plain_object,
    text_of,
)
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_rules import quoted

Database = duckdb.DuckDBPyConnection
_CHUNK = 50_000


def scanned(trace: str, flush: str | None) -> str:
    """All records in order, with a number: ``n topic part value value_base64 is_sentinel``."""
    columns = "topic, coalesce(partition, 0) as part, value, value_base64"
    one = f"select row_number() over () as n, {columns}, false as is_sentinel from {trace}"
    if flush is None:
        return f"select * from ({one}) where topic is not null"
    after = f"(select count(*) from {trace})"
    more = f"select row_number() over () + {after} as n, {columns}, true as is_sentinel from {flush}"
    return f"select * from ({one} union all {more}) where topic is not null"


def can_be_read(history: History) -> bool:
    """Whether all names of the contract are such that DuckDB can look for them."""
    sides, fields = (history.contract.left, history.contract.right), history.pushdown.fields
    names = [name for side in sides for name in (side.id, side.time, *side.keys)]
    return all(map(is_plain_name, [*names, *fields[LEFT], *fields[RIGHT]]))


class Records:
    """Makes the tables of the records of one run."""

    def __init__(self, sql: Database, history: History, scan: str) -> None:
        self._sql = sql
        self._history = history
        self.scan = scan
        self.keys = [f"k{number}" for number in range(len(history.contract.left.keys))]
        fields = history.pushdown.fields
        self.fields = list(dict.fromkeys([*fields[LEFT], *fields[RIGHT]]))

    def make(self) -> None:
        """Make all tables."""
        texts = "".join(f", {key} varchar" for key in self.keys)
        numbers = "".join(f", {quoted(field)} bigint" for field in self.fields)
        self._sql.execute(
            "create temp table parsed (n bigint, side bigint, part bigint, position bigint, is_sentinel boolean,"
            f" id varchar{texts}, time_us bigint, readable boolean{numbers}, is_plain boolean)"
        )
        for side in (LEFT, RIGHT):
            self._sql.execute(f"insert into parsed by name {self._found(side)}")
            self._read_odd(side)
        self._make_keys()

    def _found(self, side: int) -> str:
        """The records of a side, with their positions; what is not plain is read elsewhere."""
        about, compared = self._history.side(side), self._history.pushdown.fields[side]
        names = [about.id, about.time, *about.keys, *compared]
        field = [f"f[{number}]" for number in range(1, len(names) + 1)]
        of_keys, of_numbers = field[2 : 2 + len(about.keys)], field[2 + len(about.keys) :]
        plain = [
            plain_object(names),
            is_time("f[2]"),
            *map(is_text, [field[0], *of_keys]),
            *map(is_number, of_numbers),
        ]
        columns = {"id": as_text("f[1]"), "time_us": as_time_us("f[2]")}
        columns |= dict(zip(self.keys, map(as_text, of_keys), strict=True))
        columns |= dict(zip(map(quoted, compared), map(as_number, of_numbers), strict=True))
        read = ", ".join(f"{text} as {name}" for name, text in columns.items())
        starts = self._starts(side)
        return f"""
select n, {side} as side, part, coalesce(start, 0) + ordinal - 1 as position, is_sentinel,
    {", ".join(columns)}, is_plain, is_plain as readable
from (
    select n, part, is_sentinel, row_number() over (partition by part order by n) as ordinal, {read},
        coalesce({" and ".join(f"({one})" for one in plain)}, false) as is_plain
    from (select *, {extracted(names)} as f from ({self.scan}) all_records
        where topic = {text_of(about.topic)}) mine
) placed left join ({starts}) starts using (part)
"""

    def _starts(self, side: int) -> str:
        topic = self._history.manifest.inputs.get(self._history.side(side).topic)
        first = {} if topic is None else topic.start_offsets
        rows = [f"select {int(part)} as part, {start} as start" for part, start in first.items()]
        return " union all ".join(rows) or "select 0 as part, 0 as start where false"

    def _read_odd(self, side: int) -> None:
        """Read the records that are not plain as small runs do."""
        about, compared = self._history.side(side), self._history.pushdown.fields[side]
        reader = ColumnReader(about, compared)
        places = "n, side, part, position, is_sentinel"
        ((many,),) = self._sql.execute(
            f"select count(*) from parsed where side = {side} and not is_plain"
        ).fetchall()
        if not many:
            return
        self._sql.execute(
            f"create temp table odd as select {places}, value, value_base64"
            f" from (select {places} from parsed where side = {side} and not is_plain) odd_places"
            f" join ({self.scan}) all_records using (n, part, is_sentinel)"
        )
        self._sql.execute(f"delete from parsed where side = {side} and not is_plain")
        for some in self._odd(places):
            values = [value if encoded is None else base64.b64decode(encoded) for *_, value, encoded in some]
            columns = reader.read(values)
            known = [time_us is not None or about.keeps_null_event_time for time_us in columns.time_us]
            table = {
                name: pa.array([row[at] for row in some], pa.bool_() if name == "is_sentinel" else pa.int64())
                for at, name in enumerate(places.split(", "))
            }
            ids = [one if is_known else None for one, is_known in zip(columns.id, known, strict=True)]
            table |= {"id": pa.array(ids, pa.string()), "time_us": pa.array(columns.time_us, pa.int64())}
            table["readable"] = pa.array(known, pa.bool_())
            for at, key in enumerate(self.keys):
                table[key] = pa.array([one[at] for one in columns.key], pa.string())
            for name in compared:
                table[f"{name}_"] = pa.array(columns.numbers[name], pa.int64())
            self._sql.register("odd_records", pa.table(table))
            self._sql.execute("insert into parsed by name select * from odd_records")
            self._sql.unregister("odd_records")
        self._sql.execute("drop table odd")

    def _odd(self, places: str) -> Iterator[list[tuple[Any, ...]]]:
        """The odd records of a side in order, some at a time."""
        last = -1
        while some := self._sql.execute(
            f"select {places}, value, value_base64 from odd where n > {last} order by n limit {_CHUNK}"
        ).fetchall():
            yield some
            last = some[-1][0]

    def _make_keys(self) -> None:
        names = ", ".join(self.keys)
        same = " and ".join(f"p.{key} is not distinct from k.{key}" for key in self.keys)
        is_null = " or ".join(f"p.{key} is null" for key in self.keys)
        self._sql.execute(
            f"create temp table keys as select min(n) as key, {names} from parsed where readable group by {names}"
        )
        fields = "".join(f", p.{quoted(field)}" for field in self.fields)
        self._sql.execute(
            f"create temp table records as select p.n as row, p.side, p.part, p.position, k.key,"
            f" {is_null} as has_null_key, p.time_us, p.readable{fields}"
            f" from parsed p left join keys k on p.readable and {same}"
        )
