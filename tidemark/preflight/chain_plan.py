"""A chain held against the plan: its operators with state in their order, kinds of joins, watermarks, keys and bounds.

Free of I/O. Filters, conditions, windows and the values of aggregates are not compared, and the bound of a join only
where one source is below each of its sides. A column that is more than a field of the record, as what an aggregate has
made is, is not compared either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidemark.formats.chain import Chain
from tidemark.formats.chain.steps import (
    Aggregate,
    Deduplicate,
    Join,
    Limit,
    Source,
    Step,
    Window,
    inputs_of,
    time_of,
    types_of,
    walk,
)
from tidemark.formats.contract import Contract, JoinKind, Output, Side
from tidemark.oracle.spark.outer_join_elimination import optimized
from tidemark.preflight.mismatches import Notes, PlanComparison
from tidemark.preflight.named_by_paths import name_in_plan
from tidemark.preflight.physical_plan import JOIN, JoinPlan, PlanStep, QueryPlan
from tidemark.preflight.plan_columns import PlanColumns
from tidemark.preflight.plan_conditions import compare_bound
from tidemark.preflight.plan_expressions import tidy
from tidemark.preflight.plan_sides import MIRRORED, SPARKS_NAME, lay_as

NOT_COMPARED = (
    "filters, conditions, windows and values of a chain: its operators, watermarks and keys are, and the bound of a"
    " join with one source below each side"
)
_DEDUPLICATE = {False: "StreamingDeduplicate", True: "StreamingDeduplicateWithinWatermark"}
_WINDOW = "a window"
_AGGREGATE, _LIMIT, _WATERMARK = "StateStoreSave", "StreamingGlobalLimit", "EventTimeWatermark"
_WORDS = {
    JOIN: "join",
    _AGGREGATE: "aggregate",
    _LIMIT: "limit",
    _WATERMARK: "source",
    _DEDUPLICATE[False]: "deduplicate",
    _DEDUPLICATE[True]: "deduplicate within the watermark",
}


class _Wanted(NamedTuple):
    """What a plan has of a chain: its operators, as :class:`PlanStep` has those of a plan."""

    operator: str
    step: Step
    inputs: tuple[_Wanted, ...]


def compare_chain(
    chain: Chain, steps: Sequence[PlanStep], columns: PlanColumns, policy: str | None
) -> PlanComparison:
    """Hold a chain against the operators of a plan; ``policy`` is that of the session."""
    notes = Notes()
    notes.skip(NOT_COMPARED)
    watermarks = [source for source in chain.sources if source.watermark_delay_ms is not None]
    if policy is not None and policy.lower() != chain.policy and len(watermarks) > 1:
        hint = "run it with --conf spark.sql.streaming.multipleWatermarkPolicy, or correct the chain's policy"
        notes.differs("policy", str(chain.policy), policy, hint)
    # Spark takes an outer join out of which nothing is needed (``EliminateOuterJoin``).
    described, as_run = (tuple(_wanted(last)) for last in (chain.last, optimized(chain).chain.last))
    wanted = next((one for one in (described, as_run) if _fits(one, steps)), None)
    if wanted is None:
        hint = "correct the pipeline, or the chain's steps"
        notes.differs("operators", _say_wanted(described), _say(steps), hint)
        return notes.done()
    for one, step in zip(wanted, steps, strict=True):
        _compare(one, step, columns, notes)
    return notes.done()


def _wanted(step: Step) -> Iterable[_Wanted]:
    """The operators at or below a step; a source without a watermark has none, and no window or filter has."""
    inputs = tuple(one for below in inputs_of(step) for one in _wanted(below))
    match step:
        case Source():
            return [] if step.watermark_delay_ms is None else [_Wanted(_WATERMARK, step, ())]
        case Aggregate():
            return [_Wanted(_AGGREGATE, step, inputs)]
        case Deduplicate():
            return [_Wanted(_DEDUPLICATE[step.within_watermark], step, inputs)]
        case Join():
            return [_Wanted(JOIN, step, inputs)]
        case Limit():
            return [_Wanted(_LIMIT, step, inputs)]
        case _:
            return inputs


def _fits(wanted: Sequence[_Wanted], steps: Sequence[PlanStep]) -> bool:
    """Whether the operators are the same ones, those below included; a join may have its sides exchanged."""
    if len(wanted) != len(steps):
        return False
    return all(
        one.operator == step.operator and any(_fits(one.inputs, inputs) for inputs in _orders(step))
        for one, step in zip(wanted, steps, strict=True)
    )


def _orders(step: PlanStep) -> list[tuple[PlanStep, ...]]:
    """The inputs of a step, and of a join of two also the other way round."""
    return [step.inputs, step.inputs[::-1]] if len(step.inputs) > 1 else [step.inputs]


def _compare(wanted: _Wanted, step: PlanStep, columns: PlanColumns, notes: Notes) -> None:
    """Compare two operators, and those below them; of a join in the order of sides in which least differs."""
    readings = []
    for swapped in (False, True)[: len(_orders(step))]:
        inputs = step.inputs[::-1] if swapped else step.inputs
        if not _fits(wanted.inputs, inputs):
            continue
        found = Notes()
        _compare_one(wanted.step, step, columns, found, swapped=swapped)
        for one, below in zip(wanted.inputs, inputs, strict=True):
            _compare(one, below, columns, found)
        readings.append(found.done())
    notes.add(min(readings, key=lambda done: len(done.mismatches)))


def _compare_one(step: Step, plan: PlanStep, columns: PlanColumns, notes: Notes, *, swapped: bool) -> None:
    if isinstance(step, Source) and plan.watermark is not None:
        delay_ms = plan.watermark.delay_ms
        if delay_ms is not None and delay_ms != step.watermark_delay_ms:
            hint = "correct withWatermark, or the delay of the chain's source"
            notes.differs(
                f"watermark of {step.topic}", f"{step.watermark_delay_ms} ms", plan.watermark.delay, hint
            )
        _compare_fields(
            f"event time of {step.topic}", [(step, step.time)], [plan.watermark.column], columns, notes
        )
    elif isinstance(step, Deduplicate):
        wanted = [(step.input, key) for key in step.keys]
        _compare_fields("keys of the deduplication", wanted, plan.columns, columns, notes)
    elif isinstance(step, Aggregate):
        time = time_of(step.input)
        wanted = [(step.input, key) for key in (*step.keys, *([time] if time else []))]
        _compare_fields("keys of the aggregate", wanted, plan.columns, columns, notes)
    elif isinstance(step, Join) and plan.join is not None:
        kind = MIRRORED.get(plan.join.kind, plan.join.kind) if swapped else plan.join.kind
        if kind != SPARKS_NAME[step.kind]:
            hint = "give join() that kind, or correct the chain's"
            notes.differs("kind", f"{step.kind} ({SPARKS_NAME[step.kind]})", kind, hint)
        sides = (plan.join.right, plan.join.left) if swapped else (plan.join.left, plan.join.right)
        for of_step, side, at in zip((step.left, step.right), sides, (0, 1), strict=True):
            wanted = [(of_step, pair[at]) for pair in step.keys]
            if step.bound.equal and (time := time_of(of_step)):
                wanted.append((of_step, time))
            name = f"keys of the join, on the {('left', 'right')[at]}"
            _compare_fields(name, wanted, side.keys, columns, notes)
        _compare_bound(step, plan.join, columns, notes, swapped=swapped)


def _compare_bound(step: Join, plan: JoinPlan, columns: PlanColumns, notes: Notes, *, swapped: bool) -> None:
    """Hold the bound of a join against its condition, as that of the join of its two sources alone is."""
    left, right = (_source_and_time(one) for one in (step.left, step.right))
    if left is None or right is None:
        return
    if left.topic == right.topic:
        left, right = (
            replace(side, topic=f"{name} {side.topic}") for name, side in (("left", left), ("right", right))
        )
    second = None if step.kind is JoinKind.LEFT_SEMI else "right"
    one_join = Contract("join", step.kind, left, right, step.bound, Output("left", second))
    laid = lay_as(one_join, QueryPlan((plan,), (), columns), plan, swapped=swapped)
    compare_bound(one_join, laid, notes)


def _source_and_time(step: Step) -> Side | None:
    """The topic below a side of a join, and the field with its event time; ``None`` for more topics, or no field."""
    sources = [one for one in walk(step) if isinstance(one, Source)]
    time = time_of(step)
    field = None if time is None else _field_of(step, time)
    if len(sources) > 1 or field is None or field == _WINDOW:
        return None
    return Side(sources[0].topic, "id", ("key",), field, sources[0].watermark_delay_ms)


def _compare_fields(
    part: str, wanted: Iterable[tuple[Step, str]], texts: Sequence[str], columns: PlanColumns, notes: Notes
) -> None:
    """Hold names of a step against columns of the plan, if all of both are fields of records, or windows."""
    says = [_field_of(step, name) for step, name in wanted]
    found = [columns.source(text) for text in texts]
    has = [_WINDOW if column.window_us is not None else column.field for column in found]
    if None in says or None in has:
        return
    if sorted(map(str, says)) != sorted(map(str, has)):
        hint = "correct the pipeline, or the chain"
        notes.differs(part, ", ".join(map(str, says)) or "none", ", ".join(map(tidy, texts)) or "none", hint)


def _field_of(step: Step, name: str) -> str | None:
    """The path of the field of a record that a field of a step's rows is; ``None`` if it is more than that."""
    match step:
        case Source():
            fields = {field.name: field.path for field in step.fields} | {step.time: step.time_field.path}
            return name_in_plan(fields[name]) if name in fields and step.decode is None else None
        case Window() if name == step.name:
            return _WINDOW
        case Aggregate() if name in {value.name for value in step.values}:
            return None
        case Join():
            return _field_of(step.left if name in types_of(step.left) else step.right, name)
        case _:
            [below] = inputs_of(step)
            return _field_of(below, name)


def _say(steps: Sequence[PlanStep]) -> str:
    """Operators in words, those below in parentheses."""
    return " and ".join(_words(step.operator, _say(step.inputs)) for step in steps) or "none with state"


def _say_wanted(wanted: Sequence[_Wanted]) -> str:
    return " and ".join(_words(one.operator, _say_wanted(one.inputs)) for one in wanted) or "none with state"


def _words(operator: str, below: str) -> str:
    name = _WORDS.get(operator, operator)
    return name if operator == _WATERMARK else f"{name} ({below})"
