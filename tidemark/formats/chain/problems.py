"""Finds the error in a step of a chain that Spark would reject or the oracle could not judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.formats.chain.steps import (
    FUNCTIONS,
    Aggregate,
    Deduplicate,
    Join,
    Limit,
    Source,
    Step,
    Value,
    Where,
    Window,
    never_null,
    time_of,
    types_of,
)
from tidemark.formats.contract import COMPARISONS, OPERATORS, JoinKind, functions_problem
from tidemark.formats.record_fields import BIGINT, STRING, field_problem
from tidemark.formats.time_forms import form_problem


def problem(step: Step, *, is_last: bool) -> str:
    """The error of one step, as text; empty if it has none."""
    match step:
        case Source():
            return _problem_of_source(step)
        case Join():
            return _problem_of_join(step)
        case Limit():
            whole = is_last and step.rows > 0
            return _problem_of_limit(step.input) if whole else "the last step only, and of 1 or more rows"
    types, time = types_of(step.input), time_of(step.input)
    if time is None and not (isinstance(step, Deduplicate) and not step.within_watermark):
        return "its input has no watermark"
    if isinstance(step, Window):
        return (
            "" if step.window_ms > 0 and step.name not in types else "a new name, and 1 or more milliseconds"
        )
    if isinstance(step, Where):
        known = {value.name for value in step.input.values} if isinstance(step.input, Aggregate) else set()
        whole = all(one.field in known and one.op in COMPARISONS for one in step.filters)
        return "" if whole else f"it compares values of an aggregate with numbers, by {OPERATORS}"
    if any(name not in types for name in step.keys):
        return f"keys {step.keys}: its input has the fields {', '.join(types)}"
    if isinstance(step, Deduplicate):
        return "" if step.keys else "it has no keys"
    if any(not _is_value(value, types) for value in step.values):
        return f"values are a count, or {', '.join(FUNCTIONS[1:])} of a bigint field"
    return "" if set(step.keys) <= never_null(step.input) else f"a key of {step.keys} may be NULL"


def _is_value(value: Value, types: Mapping[str, str]) -> bool:
    if value.field is None:
        return value.function == "count"
    return value.function in FUNCTIONS[1:] and types.get(value.field) == BIGINT


def _problem_of_source(step: Source) -> str:
    names = [field.name for field in step.fields]
    if len({*names, step.time}) <= len(names):
        return f"a name of {names} is used twice"
    for wrong in map(field_problem, (*step.fields, step.time_field)):
        if wrong:
            return wrong
    if any(field.made.kind not in (STRING, BIGINT) for field in step.fields):
        return f"a field is {STRING} or {BIGINT}, or is cast to it"
    if wrong := form_problem(step.time_format, step.time_zone):
        return wrong
    if wrong := functions_problem(step.decode, step.encode):
        return wrong
    numbers = {field.name for field in step.fields if field.made.kind == BIGINT}
    if any(one.field not in numbers or one.op not in COMPARISONS for one in step.filters):
        return f"a filter compares a bigint field with a number, by {OPERATORS}"
    if not set(step.required) <= set(names):
        return f"required {step.required}: it has the fields {names}"
    return "" if (step.watermark_delay_ms or 0) >= 0 else "its watermark delay is negative"


def problem_of_sources(sources: Sequence[Source]) -> str:
    """The error of sources of one topic that read its records by different functions; empty if there is none."""
    functions = {source.topic: (source.decode, source.encode) for source in sources}
    for source in sources:
        if functions[source.topic] != (source.decode, source.encode):
            return f"sources of {source.topic!r} name different functions in `decode` and `encode`"
    return ""


def _problem_of_limit(limited: Step) -> str:
    """The error of a limit for which Spark discards rows earlier, and which ones depends on chance.

    A limit directly above a source stops the reading of each task (``LocalLimitExec``): later rows do not reach the
    watermark. A limit above a left or right outer join is also pushed below the join (``LimitPushDown``), where it
    keeps only that many rows of the preserved side in each batch, late rows included.
    """
    if isinstance(limited, Join) and limited.kind in (JoinKind.LEFT_OUTER, JoinKind.RIGHT_OUTER):
        return (
            "Spark also pushes it below an outer join, where it discards rows of the preserved side by chance"
        )
    while isinstance(limited, Window):
        limited = limited.input
    if isinstance(limited, Source) and limited.watermark_delay_ms is not None:
        return (
            "above a source it stops the reading of a task: which rows reach the watermark depends on chance"
        )
    return ""


def _problem_of_join(step: Join) -> str:
    left, right = types_of(step.left), types_of(step.right)
    if left.keys() & right.keys():
        return f"both sides have {', '.join(sorted(left.keys() & right.keys()))}"
    if time_of(step.left) is None or time_of(step.right) is None:
        return "both of its sides have a watermark"
    keys = [{pair[side] for pair in step.keys} for side in (0, 1)]
    if not (step.keys or step.bound.equal):
        return "it has no keys, and its times are not equal"
    sure = [never_null(step.left) | {time_of(step.left)}, never_null(step.right) | {time_of(step.right)}]
    if not (keys[0] <= sure[0] and keys[1] <= sure[1]):
        return f"a key of {step.keys} is no field, or may be NULL"
    sides = (step.left, step.right)
    numbers = [{name for name in never_null(one) if types_of(one).get(name) == BIGINT} for one in sides]
    for term in step.conditions:
        if not term.is_whole or term.left not in numbers[0] or term.right not in numbers[1]:
            return "a condition compares a bigint field of the left that is never NULL with such a one of the right"
    if step.kind is JoinKind.LEFT_SEMI and not _stays(step):
        return f"Spark runs a semi join below a {type(step.left).__name__.lower()} on its left: describe it there"
    if step.bound.window_ms is not None:
        return "its bound has windows: put a window step below it"
    if step.bound.problem is not None:
        return step.bound.problem[0]
    if step.time is not None and step.time not in never_null(step) & {
        time_of(step.left),
        time_of(step.right),
    }:
        return f"time {step.time!r} is the event time of neither side, or may be NULL"
    return ""


def _stays(step: Join) -> bool:
    """Whether Spark's optimizer leaves a semi join above its left side (``PushDownLeftSemiAntiJoin.scala``)."""
    if isinstance(step.left, Aggregate):
        made = {value.name for value in step.left.values}
        return any(term.left in made for term in step.conditions)
    return not isinstance(step.left, Join | Where)
