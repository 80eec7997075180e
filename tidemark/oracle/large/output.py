"""The output of a run as a table of DuckDB: which row each record is, where that is plain.

``came(o, batch, identity, l, r)``: ``o`` is the number of the record's row in a scan, counted from 1. ``identity`` is
the output row that it claims to be (``tidemark.oracle.input.history``), made of the numbers of its input records; NULL
where the record is not plain, or names what is not there: such a record is read as in small runs. ``l`` and ``r`` are
the input records that it names, as far as they are known.
"""

from __future__ import annotations

from functools import partial

from tidemark.formats.contract import Output
from tidemark.oracle.input.history import ROW_BITS, History
from tidemark.oracle.large.plain import (
    Names,
    all_hold,
    as_number,
    as_text,
    is_number,
    is_plain_name,
    is_plain_object,
    is_text,
    names_of,
    read_fields,
    unique,
)
from tidemark.oracle.large.record_tables import Database
from tidemark.oracle.sql.interruptible import interruptible

_IS_PLAIN_BATCH = "batch between 0 and 999999999 and cast(batch as varchar) = batch_text"


def fields_of_output(output: Output) -> dict[str, str]:
    """What is read of a record: its name here -> the field. ``l_id``, ``r_id``, and the places if both are there."""
    fields = {"l_id": output.left_id}
    if output.right_id is not None:
        fields["r_id"] = output.right_id
    if output.left_ref is not None and (output.right_id is None or output.right_ref is not None):
        fields |= {"l_part": output.left_ref[0], "l_position": output.left_ref[1]}
        if output.right_id is not None and output.right_ref is not None:
            fields |= {"r_part": output.right_ref[0], "r_position": output.right_ref[1]}
    return fields


def can_be_read(history: History) -> bool:
    """Whether the query is known, and all names are such that DuckDB can look for them."""
    query = history.manifest.query_id
    return (
        query is not None and '"' not in query and "\\" not in query
        and all(map(is_plain_name, fields_of_output(history.contract.output).values()))
    )  # fmt: skip


def make_came(sql: Database, history: History, scan: str) -> None:
    """Make the table ``came`` of a scan of the output: ``value``, and ``batch`` as the headers name it."""
    fields = fields_of_output(history.contract.output)
    known = unique(sql.execute(names_of(f"select value from {scan}")).fetchall())
    for name, text in (("claimed", _claimed(fields, scan, known)), ("came", _came(history, fields))):
        interruptible(sql, partial(sql.execute, f"create temp table {name} as {text}"))
    sql.execute("drop table claimed")


def _claimed(fields: dict[str, str], scan: str, known: list[Names]) -> str:
    """What each record says."""
    names = list(fields.values())
    columns, plain = [], [is_plain_object(names), _IS_PLAIN_BATCH]
    for number, name in enumerate(fields, 1):
        field = f"f[{number}]"
        is_id = name.endswith("_id")
        columns.append(f"{as_text(field) if is_id else as_number(field)} as {name}")
        plain.append((is_text if is_id else is_number)(field, name))
    claims = ", ".join(f"case when is_plain then {name} end as {name}" for name in fields)
    read = read_fields(f"select value, batch as batch_text from {scan}", names, known)
    return f"""
select batch, {claims}, is_plain
from (
    select *, {all_hold(plain)} as is_plain
    from (select *, try_cast(batch_text as bigint) as batch, {", ".join(columns)} from ({read}) extracted) read
) judged
"""


def _came(history: History, fields: dict[str, str]) -> str:
    """Which row each record is."""
    is_semi = history.contract.output.right_id is None
    has_refs = "l_part" in fields
    sides = ["l"] if is_semi else ["l", "r"]
    joins, known, absent = [], [], []
    for number, side in enumerate(sides):
        if has_refs:
            joins.append(
                f"left join parsed {side} on {side}.side = {number} and c.{side}_part = {side}.part"
                f" and c.{side}_position = {side}.position"
            )
            known.append(
                f"{side}.n is not null and {side}.readable and {side}.id is not distinct from c.{side}_id"
            )
            absent.append(f"c.{side}_part is null and c.{side}_position is null and c.{side}_id is null")
        else:
            joins.append(
                f"left join (select id, min(n) as n, count(*) as many from parsed where side = {number} and readable"
                f" group by id) {side} on {side}.id = c.{side}_id"
            )
            known.append(f"{side}.n is not null and {side}.many = 1")
            absent.append(f"c.{side}_id is null")
    cases = [f"when {known[0]} then (l.n << {ROW_BITS})"]
    if not is_semi:
        cases = [
            f"when ({known[0]}) and ({known[1]}) then (l.n << {ROW_BITS}) + r.n + 1",
            f"when ({known[0]}) and ({absent[1]}) then (l.n << {ROW_BITS})",
            f"when ({absent[0]}) and ({known[1]}) then (r.n << {ROW_BITS})",
        ]
    right = "cast(null as bigint)" if is_semi else "r.n"
    return (
        f"select c.rowid + 1 as o, c.batch, case when c.is_plain then case {' '.join(cases)} end end as identity,"
        f" l.n as l, {right} as r from claimed c {' '.join(joins)}"
    )
