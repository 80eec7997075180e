"""The output of a run as a table: which row each record is, where that is plain; what a record says, by DuckDB.

``came(o, part, batch, identity, l, r, in_part)``: ``o`` is the number of the record's row in a scan, counted from 1,
and ``part`` its partition, in which records are in the order of these numbers. ``identity`` is the output row that it
claims to be (``tidemark.oracle.input.history``), made of the numbers of its input records; NULL where the record is not
plain, or names what is not there: such a record is read as in small runs.
``l`` and ``r`` are the input records that it names, as far as they are known; ``in_part`` is the part of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidemark.formats.contract import Output
from tidemark.oracle.input.history import ROW_BITS, History
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


def make_came(tables: PartTables, output: Output, scans: Sequence[str], whole: str) -> None:
    """Make ``came`` of an output, piece by piece; ``whole`` is the scan of all of it.

    Input and output are in the order of their offsets, more or less: of the input that a piece names is read what is
    between the first position and the last.
    """
    fields = fields_of_output(output)
    shapes = shapes_of(tables.rows(names_and_example(f"select value from {whole}")))
    read = FieldsRead("true", list(dict.fromkeys(fields.values())), shapes)
    before = 0
    for scan in scans:
        tables.make_in_order("claimed", _claimed(fields, scan, read))
        ((rows,),) = tables.rows("select count(*) from claimed")
        near = partial(_near, _positions(tables, output))
        *joins, came = came_relations(output, "claimed", f"rowid + {before + 1}", near)
        spent = "claimed"
        for relation in joins:
            tables.make(relation.name, relation.text)
            tables.drop(spent)
            spent = relation.name
        tables.append(came.name, came.text)
        tables.drop(spent)
        before += rows


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
    return f"(select p.* from parsed p semi join {claims} c on c.{side}_id = p.id)"


def _claimed(fields: dict[str, str], scan: str, read: FieldsRead) -> str:
    """What each record says."""
    columns, plain = [], [is_plain_object(read.fields), _IS_PLAIN_BATCH]
    for name, of_record in fields.items():
        field = read.column(of_record)
        is_id = name.endswith("_id")
        columns.append(f"{as_text(field) if is_id else as_number(field)} as {name}")
        plain.append((is_text if is_id else is_number)(field, name))
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
    ``o``; ``records``: what of ``parsed`` may be named on a side by claims of a name.
    """
    fields, sides = fields_of_output(output), sides_of(output)
    found = []
    for at, side in enumerate(sides):
        rest = [name for name in fields if name.partition("_")[0] in sides[at + 1 :]]
        before = [] if at == 0 else ["l", "l_part_of", "l_is_known", "l_is_absent"]
        source, on, known, absent = _records_of(side, at, records(side, claims), has_refs=output.has_refs)
        kept = "".join(f", c.{name}" for name in (*before, *rest))
        text = (
            f"select c.{number} as o, c.part, c.batch, c.is_plain{kept}, p.n as {side}, p.in_part as {side}_part_of,"
            f" ({known}) as {side}_is_known, ({absent}) as {side}_is_absent"
            f" from {claims} c left join ({source}) p on {on}"
        )
        claims, number = f"found_{side}", "o"
        found.append(Select(claims, text))
    return [*found, Select("came", _came(claims, is_semi=len(sides) == 1))]


def _records_of(side: str, at: int, records: str, *, has_refs: bool) -> tuple[str, str, str, str]:
    """The records that a claim may name; how it names one, whether that is known, and whether none is named."""
    if has_refs:
        return (
            f"select n, part, position, id, readable, in_part from {records} s where side = {at}",
            f"c.{side}_part = p.part and c.{side}_position = p.position",
            f"p.n is not null and p.readable and p.id is not distinct from c.{side}_id",
            f"c.{side}_part is null and c.{side}_position is null and c.{side}_id is null",
        )
    return (
        (
            f"select id, min(n) as n, min(in_part) as in_part, count(*) as many from {records} s"
            f" where side = {at} and readable group by id"
        ),
        f"p.id = c.{side}_id",
        "p.n is not null and p.many = 1",
        f"c.{side}_id is null",
    )


def _came(found: str, *, is_semi: bool) -> str:
    """Which row each record is."""
    first = 1 << ROW_BITS
    cases, right, in_part = f"when l_is_known then l * {first}", "cast(null as bigint)", "l_part_of"
    if not is_semi:
        right, in_part = "r", "case when l is null then r_part_of else l_part_of end"
        cases = (
            f"when l_is_known and r_is_known then l * {first} + r + 1"
            f" when l_is_known and r_is_absent then l * {first} when l_is_absent and r_is_known then r * {first}"
        )
    return (
        f"select o, part, batch, case when is_plain then case {cases} end end as identity, l, {right} as r,"
        f" coalesce({in_part}, 0) as in_part from {found}"
    )
