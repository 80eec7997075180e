"""The SQL oracle of a chain: plain SQL over the rows that were not late where they arrived, run by DuckDB.

Free of Spark and of I/O. Which rows each step dropped as late, and the watermarks at the end, are the model's.
Lateness depends on how rows fell into batches; once it is known which rows each step dropped, the answer of a step to
its input does not: a ``group by``, a ``join``, an ``anti join`` of what is over. Which of the copies a deduplication
keeps is not determined, nor which rows a limit takes: for them SQL says what must be true of any choice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.formats import chain
from tidemark.formats.contract import JoinKind
from tidemark.oracle.input.rows import Row
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import DeduplicateOperator, LimitOperator, delay_ms
from tidemark.oracle.spark.time_ranges import US_PER_MS, bound_ms
from tidemark.oracle.sql.join_answer import QUIET

_ARROW = {chain.STRING: pa.string(), chain.BIGINT: pa.int64(), chain.TIME: pa.int64()}
_TYPES = {chain.STRING: "varchar", chain.BIGINT: "bigint", chain.TIME: "bigint"}


class ChainAnswer:
    """SQL's answer to what a model was given. ``broken`` are the promises of a choice that are not kept."""

    def __init__(self, model: Model, given: list[list[Row]]) -> None:
        """``given``: all rows of each source of the chain, in the model's batches."""
        self._model = model
        self._given = model.read_by(given)
        self._final_ms = model.final_ms()
        self._numbers = iter(range(len(model.machines)))
        self._sources = iter(range(len(self._given)))
        self._database = duckdb.connect(":memory:")
        self._database.execute(QUIET)
        self._database.execute("set threads = 1")
        self.broken: list[str] = []

    def rows(self) -> Counter[tuple[Any, ...]]:
        """The values of all rows that the last step has given."""
        described = self._model.chain
        name = self._answer(described.last)
        columns = ", ".join(map(_quoted, described.output))
        return Counter(self._database.execute(f"select {columns} from {name}").fetchall())

    def _answer(self, step: chain.Step) -> str:
        """Make the table of a step's rows; returns its name."""
        if isinstance(step, chain.Source):
            number = next(self._sources)
            return self._load(f"source_{number}", step, self._given[number])
        inputs = [self._answer(one) for one in chain.inputs_of(step)]
        number = next(self._numbers)
        machine = self._model.machines[number]
        for side, (name, below) in enumerate(zip(list(inputs), chain.inputs_of(step), strict=True)):
            if machine.late[side]:
                late = self._load(f"late_{number}_{side}", below, machine.late[side])
                inputs[side] = self._make(
                    f"in_time_{number}_{side}", f"select * from {name} except all select * from {late}"
                )
        own = f"step_{number}"
        if isinstance(machine, DeduplicateOperator | LimitOperator):
            kept = self._load(own, step, machine.kept)
            self._check_kept(step, inputs[0], kept)
            return kept
        return self._make(own, self._sql(step, inputs, self._final_ms[number]))

    def _sql(self, step: chain.Step, inputs: list[str], watermark_ms: int) -> str:
        time = _quoted(str(chain.time_of(chain.inputs_of(step)[0])))
        match step:
            case chain.Window():
                length_us, back_us = step.window_ms * US_PER_MS, int(chain.is_window(step.input))
                at = f"({time} - {back_us})"
                end = f"{at} - ({at} % {length_us} + {length_us}) % {length_us} + {length_us}"
                return f"select * exclude ({time}), {end} as {_quoted(step.name)} from {inputs[0]}"
            case chain.Where():
                passed = " and ".join(f"{_quoted(one.field)} {one.op} {one.value}" for one in step.filters)
                return f"select * from {inputs[0]} where {passed}"
            case chain.Aggregate():
                groups = ", ".join([*map(_quoted, step.keys), time])
                values = "".join(f", {_value(one)} as {_quoted(one.name)}" for one in step.values)
                over = f"{time} <= {watermark_ms * US_PER_MS}"
                return f"select {groups}{values} from {inputs[0]} where {over} group by {groups}"
            case chain.Join():
                return _join(step, inputs, watermark_ms)
        raise AssertionError(step)

    def _check_kept(self, step: chain.Step, accepted: str, kept: str) -> None:
        """What any choice must keep to."""
        promises = {
            "a row was kept that never came": f"select * from {kept} except all select * from {accepted}"
        }
        if isinstance(step, chain.Limit):
            owed = f"least({step.rows}, (select count(*) from {accepted}))"
            promises[f"not {step.rows} rows, or all"] = (
                f"select count(*) as kept, {owed} as owed from {kept} having kept <> owed"
            )
        if isinstance(step, chain.Deduplicate):
            keys = ", ".join(map(_quoted, step.keys))
            same = " and ".join(
                f"a.{_quoted(key)} is not distinct from b.{_quoted(key)}" for key in step.keys
            )
            if step.within_watermark:
                time = _quoted(str(chain.time_of(step)))
                same += f" and abs(a.{time} - b.{time}) <= {delay_ms(step) * US_PER_MS}"
            promises["no row of a key was kept"] = (
                f"select {keys} from {accepted} except select {keys} from {kept}"
            )
            promises["two rows of a key were kept"] = (
                f"with k as (select *, row_number() over () as n from {kept})"
                f" select a.* exclude (n) from k a join k b on a.n < b.n and {same}"
            )
        for what, sql in promises.items():
            self.broken += [f"{what}: {row}" for row in self._database.execute(sql).fetchmany(3)]

    def _load(self, name: str, step: chain.Step, rows: list[Row]) -> str:
        types = chain.types_of(step)
        columns = {
            column: pa.array([row.values[column] for row in rows], _ARROW[kind])
            for column, kind in types.items()
        }
        self._database.register(f"{name}_rows", pa.table(columns))
        return self._make(name, f"select * from {name}_rows")

    def _make(self, name: str, sql: str) -> str:
        self._database.execute(f"create table {name} as {sql}")
        return name


def _join(step: chain.Join, inputs: list[str], watermark_ms: int) -> str:
    left, right = inputs
    times = _quoted(str(chain.time_of(step.left))), _quoted(str(chain.time_of(step.right)))
    conditions = [f"l.{_quoted(one)} = r.{_quoted(other)}" for one, other in step.keys]
    apart, bound = f"l.{times[0]} - r.{times[1]}", step.bound
    conditions += [f"{apart} = 0"] if bound.equal else []
    if bound.lower_ms is not None:
        conditions.append(f"{apart} {'>' if bound.lower_strict else '>='} {bound.lower_ms * US_PER_MS}")
    if bound.upper_ms is not None:
        conditions.append(f"{apart} {'<' if bound.upper_strict else '<='} {bound.upper_ms * US_PER_MS}")
    conditions += [
        f"l.{_quoted(str(one.left))} {one.op} r.{_quoted(str(one.right))}" for one in step.conditions
    ]
    on = " and ".join(conditions)
    if step.kind is JoinKind.LEFT_SEMI:
        return f"select l.* from {left} l where exists (select 1 from {right} r where {on})"
    parts = [f"select l.*, r.* from {left} l join {right} r on {on}"]
    nulls = [
        ", ".join(
            f"cast(null as {_TYPES[kind]}) as {_quoted(name)}" for name, kind in chain.types_of(side).items()
        )
        for side in (step.left, step.right)
    ]
    over = [_over(step, side, times[side], watermark_ms) for side in (0, 1)]
    if step.kind in (JoinKind.LEFT_OUTER, JoinKind.FULL_OUTER) and over[0]:
        parts.append(f"select l.*, {nulls[1]} from {left} l where not exists (select 1 from {right} r where {on})"
                     f" and l.{over[0]}")  # fmt: skip
    if step.kind in (JoinKind.RIGHT_OUTER, JoinKind.FULL_OUTER) and over[1]:
        parts.append(f"select {nulls[0]}, r.* from {right} r where not exists (select 1 from {left} l where {on})"
                     f" and r.{over[1]}")  # fmt: skip
    return " union all ".join(parts)


def _over(step: chain.Join, side: int, time: str, watermark_ms: int) -> str:
    """When a row of a side can match no more; empty: never."""
    state_ms = bound_ms(step.bound, side, watermark_ms)
    return "" if state_ms is None else f"{time} <= {state_ms * US_PER_MS}"


def _value(value: chain.Value) -> str:
    if value.field is None:
        return "count(*)"
    called = f"{value.function}({_quoted(value.field)})"
    return f"cast({called} as bigint)" if value.function == "sum" else called


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
