"""The output of a run as a table: which row each record is, where that is plain; what a record says, by DuckDB.

``came(o, batch, identity, l, r)``: ``o`` is the number of the record's row in a scan, counted from 1. ``identity`` is
the output row that it claims to be (``tidemark.oracle.input.history``), made of the numbers of its input records; NULL
where the record is not plain, or names what is not there: such a record is read as in small runs. ``l`` and ``r`` are
the input records that it names, as far as they are known.
"""

from __future__ import annotations

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
from tidemark.oracle.sql.relation_tables import Share

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


def make_claimed(tables: PartTables, output: Output, scan: str) -> None:
    """Make the table ``claimed`` of a scan of the output: ``value``, and ``batch`` as the headers name it."""
    fields = fields_of_output(output)
    shapes = shapes_of(tables.rows(names_and_example(f"select value from {scan}")))
    read = FieldsRead("true", list(dict.fromkeys(fields.values())), shapes)
    tables.make_in_order("claimed", _claimed(fields, scan, read))


def make_came(tables: PartTables, output: Output) -> None:
    """Make ``came`` of ``claimed``, which is dropped, share by share."""
    shares = [(share, share) for share in tables.shares]
    if output.has_refs and len(shares) > 1:
        ((most,),) = tables.rows("select max(position) from parsed")
        shares = [(share, share) for share in ranges(int(most or 0), len(shares))]
        shares.append(("{} is null".format, lambda *_: "false"))
    *joins, came = zip(
        *(came_relations(output, "claimed", "rowid + 1", *pair) for pair in shares), strict=True
    )
    spent = "claimed"
    for of_shares in joins:
        for number, relation in enumerate(of_shares):
            tables.make_share(relation.name, number, relation.text)
        tables.drop(spent)
        spent = relation.name
    tables.make(came[0].name, came[0].text)
    tables.drop(spent)


def ranges(most: int, parts: int) -> list[Share]:
    """Shares of a number by its size, of which few are beyond ``most``; NULL is in none.

    Input and output are in the order of their offsets, more or less: of a share of them DuckDB reads that part only.
    """
    step = most // parts + 1
    ends = [number * step for number in range(1, parts)]
    return [partial(_is_between, first, end) for first, end in zip([None, *ends], [*ends, None], strict=True)]


def _is_between(first: int | None, end: int | None, column: str) -> str:
    asked = [] if first is None else [f"{column} >= {first}"]
    asked += [] if end is None else [f"{column} < {end}"]
    return " and ".join(asked) or f"{column} is not null"


def _claimed(fields: dict[str, str], scan: str, read: FieldsRead) -> str:
    """What each record says."""
    columns, plain = [], [is_plain_object(read.fields), _IS_PLAIN_BATCH]
    for name, of_record in fields.items():
        field = read.column(of_record)
        is_id = name.endswith("_id")
        columns.append(f"{as_text(field) if is_id else as_number(field)} as {name}")
        plain.append((is_text if is_id else is_number)(field, name))
    claims = ", ".join(f"case when is_plain then {name} end as {name}" for name in fields)
    extracted = read_fields(f"select value, batch as batch_text from {scan}", [read])
    return f"""
select batch, {claims}, is_plain
from (
    select *, {all_hold(plain)} as is_plain
    from (select *, try_cast(batch_text as bigint) as batch, {", ".join(columns)} from ({extracted}) extracted) read
) judged
"""


def came_relations(output: Output, claims: str, number: str, share: Share, of_records: Share) -> list[Select]:
    """``came``, and before it the record of each side: one text for all engines, one join in each ``select``.

    Each join is that of a ``share`` of the claims with those ``of_records``. ``claims`` has ``batch``, ``is_plain`` and
    what :func:`fields_of_output` names; ``number`` is the text of ``o``.
    """
    fields, sides = fields_of_output(output), ["l"] if output.right_id is None else ["l", "r"]
    found = []
    for at, side in enumerate(sides):
        rest = [name for name in fields if name.partition("_")[0] in sides[at + 1 :]]
        before = [] if at == 0 else ["l", "l_is_known", "l_is_absent"]
        records, on, known, absent = _records_of(side, at, of_records, has_refs=output.has_refs)
        mine = f"c.{side}_position" if output.has_refs else f"c.{side}_id"
        kept = "".join(f", c.{name}" for name in (*before, *rest))
        text = (
            f"select c.{number} as o, c.batch, c.is_plain{kept}, p.n as {side}, ({known}) as {side}_is_known,"
            f" ({absent}) as {side}_is_absent from {claims} c left join ({records}) p on {on}"
            f" where {share(mine)}"
        )
        claims, number = f"found_{side}", "o"
        found.append(Select(claims, text))
    return [*found, Select("came", _came(claims, is_semi=len(sides) == 1))]


def _records_of(side: str, at: int, share: Share, *, has_refs: bool) -> tuple[str, str, str, str]:
    """The records that a claim may name; how it names one, whether that is known, and whether none is named."""
    if has_refs:
        return (
            f"select n, part, position, id, readable from parsed where side = {at} and {share('position')}",
            f"c.{side}_part = p.part and c.{side}_position = p.position",
            f"p.n is not null and p.readable and p.id is not distinct from c.{side}_id",
            f"c.{side}_part is null and c.{side}_position is null and c.{side}_id is null",
        )
    return (
        (
            f"select id, min(n) as n, count(*) as many from parsed where side = {at} and readable"
            f" and {share('id')} group by id"
        ),
        f"p.id = c.{side}_id",
        "p.n is not null and p.many = 1",
        f"c.{side}_id is null",
    )


def _came(found: str, *, is_semi: bool) -> str:
    """Which row each record is."""
    first = 1 << ROW_BITS
    cases, right = f"when l_is_known then l * {first}", "cast(null as bigint)"
    if not is_semi:
        right = "r"
        cases = (
            f"when l_is_known and r_is_known then l * {first} + r + 1"
            f" when l_is_known and r_is_absent then l * {first} when l_is_absent and r_is_known then r * {first}"
        )
    return f"select o, batch, case when is_plain then case {cases} end end as identity, l, {right} as r from {found}"
