"""The steps of a chain as relations: each a ``select`` over the tables of its inputs (``chain_answer``).

Free of I/O, and of the model. Late rows, and when rows are forgotten, are the relations of a single join
(``row_relations``): a step with one input is one side of a join by equal times, whose rows are forgotten when the
watermark reaches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemark.formats import chain
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side, Term
from tidemark.oracle.spark.pushdown import Pushdown
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS
from tidemark.oracle.sql.join_answer import as_one
from tidemark.oracle.sql.join_rules import (
    DUCKDB,
    JoinRules,
    Select,
    all_of,
    passes_filter,
    quoted,
    rounded_down,
)
from tidemark.oracle.sql.pair_relations import pair_relations
from tidemark.oracle.sql.row_relations import side_relations
from tidemark.oracle.sql.semi_relations import semi_relations

_NULL = "cast(null as bigint)"


def stateless(step: chain.Window | chain.Where, below: str) -> str:
    """The rows of a step that goes by no watermark."""
    if isinstance(step, chain.Where):
        return f"select * from {below} where {all_of([passes_filter(one) for one in step.filters])}"
    time, length_us = time_of(step.input), step.window_ms * US_PER_MS
    at = f"({time} - {int(chain.is_window(step.input))})"
    end = f"{rounded_down(at, length_us)} + {length_us}"
    return f"select * exclude ({time}), {end} as {quoted(step.name)} from {below}"


def one_side(below: str, time: str, behind_ms: int | None) -> str:
    """``rows`` of a step with one input: each late, or with the batch in which it is forgotten (``gone``).

    ``behind_ms`` is how far its watermark is behind the query's; ``None``: it has none.
    """
    events = (
        f"select row, {LEFT} as side, batch, 1 as key, false as has_null_key, {time} as time_us, true as is_sure"
        f" from {below}"
    )
    rules = _rules(JoinKind.INNER, Bound(equal=True), None if behind_ms is None else 0)
    return _rows(rules, events, behind_ms or 0)


def both_sides(step: chain.Join, inputs: Sequence[str], behind_ms: int) -> str:
    """``rows`` of a join, numbered apart: the double of a row's own number, and 1 more on the right."""
    keys = [f"key_{number}" for number in range(len(step.keys))]
    compared = [dict.fromkeys(str(term.left if side == LEFT else term.right) for term in step.conditions)
                for side in (LEFT, RIGHT)]  # fmt: skip
    rows = []
    for side, (name, below) in enumerate(zip(inputs, chain.inputs_of(step), strict=True)):
        own = [f"{quoted(pair[side])} as {key}" for key, pair in zip(keys, step.keys, strict=True)]
        own += [quoted(field) for field in compared[side]]
        own += [f"{_NULL} as {quoted(field)}" for field in compared[1 - side]]
        rows.append(
            f"select {', '.join([f'2 * row + {side} as row', f'{side} as side', 'batch', *own])},"
            f" {time_of(below)} as time_us from {name}"
        )
    key = f"dense_rank() over (order by {', '.join(keys)})" if keys else "1"
    fields = "".join(f", {quoted(field)}" for side in compared for field in side)
    events = (
        f"select row, side, batch, {key} as key, false as has_null_key, time_us, true as is_sure{fields}"
        f" from ({' union all by name '.join(rows)}) both_sides"
    )
    return _rows(_rules(step.kind, step.bound, 0, step.conditions), events, behind_ms)


def joined(
    step: chain.Join, inputs: Sequence[str], behind_ms: int, *, popular: int | None, loses: bool
) -> str:
    """What a join makes of its ``rows``. ``loses``: as a left semi join loses right rows that leave in their batch."""
    rules = replace(_rules(step.kind, step.bound, 0, step.conditions, popular), semi_right_first=loses)
    found = [_watermarks(behind_ms), *side_relations(rules)[-2:]]
    left, right = inputs
    if rules.is_semi:
        return (
            f"{as_one([*found, *semi_relations(rules)])} select row, m.batch, {_fields(step.left)} from matches m"
            f" join {left} on m.l = 2 * row where m.batch is not null"
        )
    return (
        f"{as_one([*found, *pair_relations(rules, DUCKDB)])} select row_number() over () as row, a.batch,"
        f" {_fields(step.left)}, {_fields(step.right)} from answers a left join {left} l on a.l = 2 * l.row"
        f" left join {right} r on a.r = 2 * r.row + 1 where a.comes"
    )


def behind_after(step: chain.Join, behind_ms: int) -> int | None:
    """How far the watermark of a join's rows is behind the query's, if that of its inputs is so far; ``None``: none.

    It is the least of the inputs' and of both sides' state watermarks.
    """
    if step.time is None:
        return None
    rules = _rules(step.kind, step.bound, 0, step.conditions)
    ends = [] if step.bound.equal else [rules.end_ms(side) for side in (LEFT, RIGHT)]
    return behind_ms + max([0, *(ahead + (not strict) for ahead, strict in ends if ahead is not None)])


def groups(step: chain.Aggregate, below: str) -> str:
    """A group comes when its time is forgotten: in the same batch for all rows of it that are not late."""
    names = ", ".join([*map(quoted, step.keys), time_of(step.input)])
    values = "".join(f", {_value(one)} as {quoted(one.name)}" for one in step.values)
    return (
        f"select row_number() over () as row, max(gone) as batch, {names}{values} from {below} b join rows t"
        f" on b.row = t.row where not is_late and gone is not null group by {names}"
    )


def broken_limits(step: chain.Limit, below: str, kept: str) -> dict[str, str]:
    """What any choice of a limit keeps to: of the rows of all batches until each it takes so many, or all."""
    counts = f"select batch, 0 as taken, 1 as came from {below} union all select batch, 1, 0 from {kept}"
    return {
        **_strange(step, below, kept),
        f"not {step.rows} rows, or all": f"select * from (select batch, sum(sum(taken)) over by_batch as taken,"
        f" least({step.rows}, sum(sum(came)) over by_batch) as owed from ({counts}) counts group by batch"
        " window by_batch as (order by batch)) sums where taken <> owed",
    }


def due(step: chain.Deduplicate, delay_ms: int) -> str:
    """When the entry of a key is forgotten: by the time of the row that made it; NULL: never."""
    time = time_of(step)
    if step.within_watermark:
        return f"{time} + {delay_ms * US_PER_MS}"
    return time if chain.time_of(step) in step.keys else _NULL


def broken_deduplications(step: chain.Deduplicate, accepted: str, kept: str) -> dict[str, str]:
    """What any choice of a deduplication keeps to; ``rows`` says when what was kept is forgotten."""
    keys = ", ".join(map(quoted, step.keys))
    same = all_of([f"a.{quoted(key)} is not distinct from k.{quoted(key)}" for key in step.keys])
    entries = f"(select * from {kept} join (select row, gone from rows) g using (row))"
    there = f"{same} and k.batch <= a.batch and coalesce(a.batch <= k.gone, true)"
    return {
        **_strange(step, accepted, kept),
        "no row of a key was kept": f"select batch, {keys} from {accepted} a"
        f" where not exists (select 1 from {entries} k where {there})",
        "two rows of a key were kept": f"select a.* from {kept} a join {entries} k on a.row <> k.row and {there}",
    }


def time_of(step: chain.Step) -> str:
    """The column with a step's event time, or a NULL."""
    name = chain.time_of(step)
    return _NULL if name is None else quoted(name)


def _rows(rules: JoinRules, events: str, behind_ms: int) -> str:
    found = [_watermarks(behind_ms), Select("events", events), *side_relations(rules)[:-2]]
    return f"{as_one(found)} select * from rows"


def _watermarks(behind_ms: int) -> Select:
    """Those of a step; one is never below 0."""
    shifted = f"greatest(0, watermark_ms - {behind_ms})"
    return Select("watermarks", f"select batch, {shifted} as watermark_ms from query_watermarks")


def _rules(
    kind: JoinKind,
    bound: Bound,
    delay_ms: int | None,
    terms: tuple[Term, ...] = (),
    popular: int | None = None,
) -> JoinRules:
    """The rules of a step as those of a join; ``delay_ms`` is 0 if it has a watermark."""
    left, right = (Side(name, "id", ("key",), "time", delay_ms) for name in ("left", "right"))
    output = Output("id", None if kind is JoinKind.LEFT_SEMI else "id")
    fields = tuple(str(term.left) for term in terms), tuple(str(term.right) for term in terms)
    pushdown = Pushdown(((), ()), ((), ()), terms, fields)
    return JoinRules(Contract("step", kind, left, right, bound, output), pushdown, popular=popular)


def _strange(step: chain.Step, below: str, kept: str) -> dict[str, str]:
    fields = f"batch, {_fields(step)}"
    return {
        "a row was kept that never came": f"select {fields} from {kept} except all select {fields} from {below}"
    }


def _fields(step: chain.Step) -> str:
    return ", ".join(map(quoted, chain.types_of(step)))


def _value(value: chain.Value) -> str:
    if value.field is None:
        return "count(*)"
    called = f"{value.function}({quoted(value.field)})"
    return f"cast({called} as bigint)" if value.function == "sum" else called
