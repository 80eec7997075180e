"""The output of a run as a table: which row each record is, where that is plain; what a record says, by DuckDB.

``came(o, part, batch, identity, l, r, in_part)``: ``o`` is the number of the record's row in a scan, counted from 1,
and ``part`` its partition, in which records are in the order of these numbers. ``batch`` is NULL where its headers name
no batch of this query. ``identity`` is the output row that it claims to be (``tidemark.oracle.input.history``), made of
the numbers of its input records; NULL where it is no row, names what is not there, or may be one of several rows: which
one, is found out as in small runs.
``l`` and ``r`` are the input records that it names, as far as they are known, of several with the same id the first;
``in_part`` is the part of ``l``, or of ``r``.

What DuckDB does not read as Spark does (``plain``) is read here by the readers of small runs. An id that is NULL names
an event without an id, or none: where the key of the other record has such events (``BESIDE_NAMELESS``), ``identity``
is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.formats.contract import Output
from tidemark.formats.events import field_reader
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.field_types import LONG
from tidemark.formats.field_values import as_text as text_in_spark
from tidemark.oracle.input.history import ROW_BITS, History
from tidemark.oracle.input.output_rows import header_batch
from tidemark.oracle.large.part_tables import PartTables
from tidemark.oracle.large.plain import (
    FieldsRead,
    all_hold,
    as_number,
    as_text,
    is_number,
    is_plain_name,
    is_plain_object,
    is_text,
    names_and_example,
    read_fields,
    shapes_of,
)
from tidemark.oracle.sql.join_rules import Select

_IS_PLAIN_BATCH = "batch between 0 and 999999999 and cast(batch as varchar) = batch_text"
_CHUNK = 50_000
"""So many records of a piece are looked through at a time for those that DuckDB does not read."""
BESIDE_NAMELESS = [
    Select(
        "nameless",
        "select distinct r.side, r.key from records r join parsed p on p.n = r.row where p.readable and p.id is null",
    ),
    Select(
        "beside_nameless", "select r.row from records r join nameless m on m.key = r.key and m.side <> r.side"
    ),
]
"""The records whose key has events without an id on the other side: ``came`` reads them if there are ids only."""


@dataclass(frozen=True)
class WrittenOutput:
    """The output of one query in a file: its scan, whole and piece by piece, and its records by their numbers."""

    query: str
    whole: str
    pieces: Sequence[str]
    pick: Callable[[bytes], Iterator[OutputRecord]]


def fields_of_output(output: Output) -> dict[str, str]:
    """What is read of a record: its name here -> the field. ``l_id``, ``r_id``, and the places if both are there."""
    fields = {"l_id": output.left_id}
    if output.right_id is not None:
        fields["r_id"] = output.right_id
    if output.has_refs:
        for side, ref in (("l", output.left_ref), ("r", output.right_ref)):
            if ref is not None and f"{side}_id" in fields:
                fields |= {f"{side}_part": ref[0], f"{side}_position": ref[1]}
    return fields


def can_be_read(history: History) -> bool:
    """Whether the query is known, and all names are such that DuckDB can look for them."""
    names = fields_of_output(history.contract.output).values()
    return is_plain_query(history.manifest.query_id) and all(map(is_plain_name, names))


def is_plain_query(query: str | None) -> bool:
    """Whether records of the query with this id can be told by the text of their headers."""
    return query is not None and '"' not in query and "\\" not in query


def make_came(tables: PartTables, output: Output, written: WrittenOutput) -> None:
    """Make ``came`` of an output, piece by piece.

    Input and output are in the order of their offsets, more or less: of the input that a piece names is read what is
    between the first position and the last.
    """
    fields = fields_of_output(output)
    shapes = shapes_of(tables.rows(names_and_example(f"select value from {written.whole}")))
    read = FieldsRead("true", list(dict.fromkeys(fields.values())), shapes)
    odd = _OddClaims(tables, output, written)
    columns = f"part, batch, is_plain, {', '.join(fields)}"
    before = 0
    for scan in written.pieces:
        tables.make_in_order("scanned_claims", _claimed(fields, scan, read))
        ((rows,),) = tables.rows("select count(*) from scanned_claims")
        odd.read(before, rows)
        tables.sql.execute(
            f"create or replace temp view claimed as select rowid + {before + 1} as o, {columns} from scanned_claims"
            f" where is_plain union all select o, {columns} from odd_claims"
        )
        near = partial(_near, _positions(tables, output))
        *joins, came = came_relations(output, "claimed", "o", near)
        spent = ["scanned_claims", "odd_claims"]
        for relation in joins:
            tables.make(relation.name, relation.text)
            for name in spent:
                tables.drop(name)
            spent = [relation.name]
        tables.append(came.name, came.text)
        tables.drop(*spent)
        before += rows


class _OddClaims:
    """Reads the records that DuckDB does not read as Spark does, as small runs read them."""

    def __init__(self, tables: PartTables, output: Output, written: WrittenOutput) -> None:
        self._tables = tables
        self._written = written
        self._fields = fields_of_output(output)
        first, *rest = self._fields.values()
        self._read = field_reader([first, *rest, first])  # a reader of two fields at least

    def read(self, before: int, rows: int) -> None:
        """Make ``odd_claims(o, part, batch, is_plain)``, and what each record says, of the next rows of a file.

        Before them it has so many; ``scanned_claims`` has them, in order.
        """
        sql = self._tables.sql
        kinds = ", ".join(f"{name} {'varchar' if _is_id(name) else 'bigint'}" for name in self._fields)
        sql.execute(
            f"create temp table odd_claims (o bigint, part integer, batch bigint, is_plain boolean, {kinds})"
        )
        asked = np.zeros(before + rows, dtype=np.uint8)
        for first in range(0, rows, _CHUNK):
            text = f"select rowid from scanned_claims where rowid between {first} and {first + _CHUNK - 1}"
            asked[before + sql.execute(f"{text} and not is_plain").fetchnumpy()["rowid"]] = 1
        if not asked.any():
            return
        records = self._written.pick(asked.tobytes())
        for first in range(before, before + rows, _CHUNK):
            numbers = np.flatnonzero(asked[first : first + _CHUNK]) + first + 1
            claims = self._claims(list(islice(records, len(numbers))))
            sql.register("read_claims", pa.table({"o": pa.array(numbers, pa.int64()), **claims}))
            sql.execute("insert into odd_claims by name select * from read_claims")
            sql.unregister("read_claims")

    def _claims(self, records: Sequence[OutputRecord]) -> dict[str, Any]:
        """The columns of ``odd_claims`` but the first; of a record that names no batch of this query nothing else."""
        query = self._written.query
        batches = [header_batch(one) if one.header("query") == query else None for one in records]
        values = [
            None if batch is None else self._read(one.value)
            for one, batch in zip(records, batches, strict=True)
        ]
        columns: dict[str, Any] = {
            "part": pa.array([one.partition for one in records], pa.int32()),
            "batch": pa.array(batches, pa.int64()),
        }
        is_plain = np.array([found is not None for found in values], dtype=bool)
        for at, name in enumerate(self._fields):
            said = [None if found is None else found[at] for found in values]
            if _is_id(name):
                columns[name] = pa.array(map(text_in_spark, said), pa.string())
            else:
                columns[name] = pa.array(map(_as_place, said), pa.int64())
                is_plain &= [one is None or (type(one) is int and one in LONG) for one in said]
        return columns | {"is_plain": pa.array(is_plain)}


def _is_id(name: str) -> bool:
    """Whether a name of :func:`fields_of_output` is that of an id; the others are of numbers."""
    return name.endswith("_id")


def _as_place(value: Any) -> int | None:
    """A number that is equal to a whole one, as Python finds it in a dictionary: ``1.0`` and ``true``, too."""
    is_whole = isinstance(value, int | float) and value == value // 1
    return int(value) if is_whole and int(value) in LONG else None


def _positions(tables: PartTables, output: Output) -> dict[str, tuple[int, int]]:
    """The first and the last position that ``claimed`` has of each side; empty if it has ids only."""
    if not output.has_refs:
        return {}
    found = {}
    for side in sides_of(output):
        ((first, last),) = tables.rows(f"select min({side}_position), max({side}_position) from claimed")
        found[side] = (0, -1) if first is None else (first, last)
    return found


def _near(positions: dict[str, tuple[int, int]], side: str, claims: str) -> str:
    """Of the records those that claims may name on a side."""
    if side in positions:
        first, last = positions[side]
        return f"(select * from parsed where position between {first} and {last})"
    return f"(select p.* from parsed p semi join {claims} c on c.{side}_id is not distinct from p.id)"


def _claimed(fields: dict[str, str], scan: str, read: FieldsRead) -> str:
    """What each record says."""
    columns, plain = [], [is_plain_object(read.fields), _IS_PLAIN_BATCH]
    for name, of_record in fields.items():
        field = read.column(of_record)
        columns.append(f"{as_text(field) if _is_id(name) else as_number(field)} as {name}")
        plain.append((is_text if _is_id(name) else is_number)(field, name))
    claims = ", ".join(f"case when is_plain then {name} end as {name}" for name in fields)
    extracted = read_fields(
        f"select cast(partition as integer) as part, value, batch as batch_text from {scan}", [read]
    )
    return f"""
select part, batch, {claims}, is_plain
from (
    select *, {all_hold(plain)} as is_plain
    from (select *, try_cast(batch_text as bigint) as batch, {", ".join(columns)} from ({extracted}) extracted) read
) judged
"""


def sides_of(output: Output) -> list[str]:
    """The sides that a record names: ``l``, and ``r`` if it has columns of both."""
    return ["l"] if output.right_id is None else ["l", "r"]


def came_relations(
    output: Output, claims: str, number: str, records: Callable[[str, str], str]
) -> list[Select]:
    """``came``, and before it the record of each side: one text for all engines, one join in each ``select``.

    ``claims`` has ``part``, ``batch``, ``is_plain`` and what :func:`fields_of_output` names; ``number`` is the text of
    ``o``; ``records``: what of ``parsed`` may be named on a side by claims of a name. ``beside_nameless`` is there
    (``BESIDE_NAMELESS``) if the output has ids only.
    """
    fields, sides = fields_of_output(output), sides_of(output)
    found = []
    for at, side in enumerate(sides):
        rest = [name for name in fields if name.partition("_")[0] in sides[at + 1 :]]
        before = [] if at == 0 else ["l", "l_part_of", "l_is_known", "l_is_absent"]
        named = _by_place(side) if output.has_refs else _by_id(side, sides)
        source = named.source.format(records=records(side, claims), side=at)
        kept = "".join(f", c.{name}" for name in (*before, *rest))
        text = (
            f"select c.{number} as o, c.part, c.batch, c.is_plain{kept}, {named.row} as {side},"
            f" p.in_part as {side}_part_of, ({named.is_known}) as {side}_is_known,"
            f" ({named.is_absent}) as {side}_is_absent from {claims} c left join ({source}) p on {named.on}"
        )
        claims, number = f"found_{side}", "o"
        found.append(Select(claims, text))
    has_null_ids = not output.has_refs and len(sides) > 1
    return [*found, Select("came", _came(claims, is_semi=len(sides) == 1, has_null_ids=has_null_ids))]


@dataclass(frozen=True)
class _Named:
    """How a claim ``c`` names a record ``p`` of a ``source``; whether that is known, and whether it names none."""

    source: str
    on: str
    row: str
    is_known: str
    is_absent: str


def _by_place(side: str) -> _Named:
    """By partition and offset."""
    return _Named(
        source="select n, part, position, id, readable, in_part from {records} s where side = {side}",
        on=f"c.{side}_part = p.part and c.{side}_position = p.position",
        row="p.n",
        is_known=f"p.n is not null and p.readable and p.id is not distinct from c.{side}_id",
        is_absent=f"c.{side}_part is null and c.{side}_position is null and c.{side}_id is null",
    )


def _by_id(side: str, sides: Sequence[str]) -> _Named:
    """By id alone. A record that has none names an event without an id only if it names nothing else."""
    is_other_absent = "true" if len(sides) == 1 else "c.r_id is null" if side == "l" else "c.l_is_absent"
    return _Named(
        source="select id, min(n) as n, min(in_part) as in_part, count(*) as many from {records} s"
        " where side = {side} and readable group by id",
        on=f"p.id is not distinct from c.{side}_id",
        row=f"case when c.{side}_id is not null or (c.is_plain and {is_other_absent}) then p.n end",
        is_known=f"c.{side}_id is not null and p.n is not null and p.many = 1",
        is_absent=f"c.{side}_id is null",
    )


def _came(found: str, *, is_semi: bool, has_null_ids: bool) -> str:
    """Which row each record is."""
    first, source, is_alone = 1 << ROW_BITS, f"{found} f", ""
    cases, right, in_part = f"when l_is_known then l * {first}", "cast(null as bigint)", "l_part_of"
    if has_null_ids:
        source, is_alone = (
            f"{source} left join beside_nameless b on b.row = coalesce(f.l, f.r)",
            " and b.row is null",
        )
    if not is_semi:
        right, in_part = "r", "case when l is null then r_part_of else l_part_of end"
        cases = (
            f"when l_is_known and r_is_known then l * {first} + r + 1"
            f" when l_is_known and r_is_absent{is_alone} then l * {first}"
            f" when l_is_absent and r_is_known{is_alone} then r * {first}"
        )
    return (
        f"select o, part, batch, case when is_plain then case {cases} end end as identity, l, {right} as r,"
        f" coalesce({in_part}, 0) as in_part from {source}"
    )
