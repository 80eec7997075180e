"""The steps of a chain, the fields of their rows, and their JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.formats.contract import Bound, Filter, JoinKind, Term
from tidemark.formats.record_fields import BIGINT, STRING, Field
from tidemark.formats.time_forms import ISO, NS_PER_UNIT

TIME = "time"
FUNCTIONS = ("count", "sum", "min", "max")


@dataclass(frozen=True)
class Value:
    """A value of an aggregate for its group: ``count`` of rows, or ``sum``, ``min``, ``max`` of a field."""

    name: str
    function: str
    field: str | None = None


@dataclass(frozen=True)
class Source:
    """Records of a topic; ``time_column`` is the path of the event time in the record (default: ``time``).

    ``time_format`` and ``time_zone`` say how it is written, ``decode`` and ``encode`` name functions that read and make
    records, as for the side of a contract. Sources of one topic name the same functions.
    """

    topic: str
    time: str
    fields: tuple[Field, ...]
    watermark_delay_ms: int | None = None
    required: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    time_column: str | None = None
    time_format: str = ISO
    time_zone: str = "UTC"
    decode: str | None = None
    encode: str | None = None

    @property
    def time_field(self) -> Field:
        """Where the event time is in the record."""
        return Field(self.time, self.time_column, BIGINT if self.time_format in NS_PER_UNIT else STRING)


@dataclass(frozen=True)
class Window:
    """Replaces the event time by tumbling windows of ``window_ms``."""

    input: Step
    name: str
    window_ms: int


@dataclass(frozen=True)
class Aggregate:
    """A group for each value of ``keys`` and of the event time."""

    input: Step
    keys: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Where:
    """The rows of an aggregate whose values pass all filters."""

    input: Step
    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class Deduplicate:
    """One row for each value of ``keys``; ``within_watermark``: only within the watermark delay of its source."""

    input: Step
    keys: tuple[str, ...]
    within_watermark: bool = False


@dataclass(frozen=True)
class Join:
    """Two steps, joined. ``keys`` are pairs of a left and a right field; ``bound`` has no ``window_ms`` here.

    ``conditions`` compare a bigint field of the left with one of the right.
    """

    kind: JoinKind
    left: Step
    right: Step
    keys: tuple[tuple[str, str], ...]
    bound: Bound
    time: str | None = None
    conditions: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Limit:
    """At most ``rows`` rows."""

    input: Step
    rows: int


Step = Source | Window | Aggregate | Where | Deduplicate | Join | Limit

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Source, Window, Aggregate, Where, Deduplicate, Join, Limit)
}
_PARTS: Mapping[str, type[Any]] = {"fields": Field, "filters": Filter, "values": Value, "conditions": Term}


def inputs_of(step: Step) -> tuple[Step, ...]:
    """The inputs of a step, the left one first."""
    if isinstance(step, Source):
        return ()
    return (step.left, step.right) if isinstance(step, Join) else (step.input,)


def walk(step: Step) -> Iterator[Step]:
    """A step and all steps below it, inputs first."""
    for one in inputs_of(step):
        yield from walk(one)
    yield step


def time_of(step: Step) -> str | None:
    """The field with a step's event time; ``None`` if it has no watermark."""
    match step:
        case Source():
            return step.time if step.watermark_delay_ms is not None else None
        case Window():
            return step.name
        case Join():
            return step.time
        case _:
            return time_of(step.input)


def is_window(step: Step) -> bool:
    """Whether a step's event time is a window."""
    match step:
        case Source():
            return False
        case Window():
            return True
        case Join():
            side = step.left if step.time == time_of(step.left) else step.right
            return is_window(side)
        case _:
            return is_window(step.input)


def types_of(step: Step) -> dict[str, str]:
    """The fields of a step's rows, each with its type: ``string``, ``bigint`` or ``time``."""
    match step:
        case Source():
            return {field.name: field.cast or field.type or STRING for field in step.fields} | {
                step.time: TIME
            }
        case Window():
            kept = {name: kind for name, kind in types_of(step.input).items() if name != time_of(step.input)}
            return kept | {step.name: TIME}
        case Aggregate():
            types, time = types_of(step.input), time_of(step.input)
            groups = {name: types[name] for name in (*step.keys, *([time] if time else []))}
            return groups | {one.name: types[one.field] if one.field else BIGINT for one in step.values}
        case Join():
            right = {} if step.kind is JoinKind.LEFT_SEMI else types_of(step.right)
            return types_of(step.left) | right
        case _:
            return types_of(step.input)


def never_null(step: Step) -> set[str]:
    """The fields of a step's rows that are never NULL."""
    match step:
        case Source():
            return {step.time, *step.required}
        case Window():
            return never_null(step.input) & types_of(step).keys() | {step.name}
        case Aggregate():
            known = never_null(step.input)
            sure = {one.name for one in step.values if one.function == "count" or one.field in known}
            return known & types_of(step).keys() | sure
        case Join():
            left, right = never_null(step.left), never_null(step.right)
            if step.kind is JoinKind.FULL_OUTER:
                return set()
            return {JoinKind.INNER: left | right, JoinKind.RIGHT_OUTER: right}.get(step.kind, left)
        case _:
            return never_null(step.input)


def step_to_json(step: Step) -> dict[str, Any]:
    """Plain dictionaries, lists, strings and numbers."""
    data = {name: value for name, value in vars(step).items() if name not in ("input", "left", "right")}
    plain = {
        name: [asdict(one) if name in _PARTS else one for one in value] if isinstance(value, tuple) else value
        for name, value in data.items()
    }
    if isinstance(step, Join):
        plain |= {
            "kind": str(step.kind),
            "bound": asdict(step.bound),
            "keys": [list(pair) for pair in step.keys],
        }
        plain |= {"left": step_to_json(step.left), "right": step_to_json(step.right)}
    elif not isinstance(step, Source):
        plain["input"] = step_to_json(step.input)
    return {"step": type(step).__name__.lower(), **plain}


def step_from_json(data: Mapping[str, Any]) -> Step:
    """The reverse; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    fields = {name: value for name, value in data.items() if name != "step"}
    for name, value in fields.items():
        if name in ("input", "left", "right"):
            fields[name] = step_from_json(value)
        elif name in _PARTS:
            fields[name] = tuple(_PARTS[name](**one) for one in value)
        elif name in ("keys", "required"):
            fields[name] = tuple(tuple(one) if isinstance(one, list) else one for one in value)
    if "kind" in fields:
        fields |= {"kind": JoinKind(fields["kind"]), "bound": Bound(**fields["bound"])}
    step: Step = _KINDS[data["step"]](**fields)
    return step
