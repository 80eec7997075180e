"""The chain: what a pipeline promises that does more than one join, or none, as a small tree of steps.

Free of everything but the standard library, as ``tidemark.contract`` is. A chain takes the place of the contract in
``python -m pipelines NAME --describe``, in ``contract.json`` and in ``manifest.json``, and is known by its field
``chain``, the step whose rows are written::

    {"name": "clicks_per_window", "policy": "min", "output": ["user_id", "clicked_in", "clicks"],
     "chain": {"step": "aggregate", "keys": ["user_id"], "values": [{"name": "clicks", "function": "count"}],
      "input": {"step": "window", "name": "clicked_in", "window_ms": 10000,
       "input": {"step": "source", "topic": "clicks", "time": "click_time", "watermark_delay_ms": 20000,
                 "fields": [{"name": "user_id"}], "required": ["user_id"]}}}}

==============  ======================================================================================================
``source``      Records of a topic: their ``fields`` and their event ``time``. A record that cannot be read, has NULL
                in a ``required`` field or does not pass ``filters`` does not reach the watermark. A topic may be read
                by several sources.
``window``      Puts the tumbling window of the event time in its place; a window is known by its end.
``aggregate``   One row for each value of ``keys`` and of the event time.
``where``       Rows of an aggregate by its values. A filter of anything else runs below the watermark: see ``source``.
``deduplicate`` ``dropDuplicates(keys)``, or ``dropDuplicatesWithinWatermark(keys)``.
``join``        Keys are equal in pairs, ``bound`` limits ``left time - right time``. ``time`` is the event time that
                goes on; the other is an ordinary field from then on. Spark's optimizer moves a left semi join below
                an aggregate or a join on its left, so that is where it is described.
``limit``       The first ``rows`` rows, whichever come first; only as the last step.
==============  ======================================================================================================

A name belongs to one field of the whole chain. What is joined or grouped by a key is never NULL. Times and windows (by
their ends) are TIMESTAMPs in the output, which its JSON has in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.contract import COMPARISONS, Bound, Contract, Filter, JoinKind, WatermarkPolicy
from tidemark.errors import BrokenContract

STRING, BIGINT, TIME = "string", "bigint", "time"
FUNCTIONS = ("count", "sum", "min", "max")


@dataclass(frozen=True)
class Field:
    """A field of a source, ``string`` or ``bigint``; ``column`` is its name in the record, ``name`` unless said."""

    name: str
    column: str | None = None
    type: str = STRING


@dataclass(frozen=True)
class Value:
    """What an aggregate says of its group: ``count`` of its rows, or ``sum``, ``min``, ``max`` of a field."""

    name: str
    function: str
    field: str | None = None


@dataclass(frozen=True)
class Source:
    """Records of a topic; ``time_column`` is the event time's name in the JSON record, ``time`` unless said."""

    topic: str
    time: str
    fields: tuple[Field, ...]
    watermark_delay_ms: int | None = None
    required: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    time_column: str | None = None


@dataclass(frozen=True)
class Window:
    """Tumbling windows, ``window_ms`` long, in the place of the event time."""

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
    """One row for each value of ``keys``; ``within_watermark``: for as long as the delay of its source says."""

    input: Step
    keys: tuple[str, ...]
    within_watermark: bool = False


@dataclass(frozen=True)
class Join:
    """Two steps, joined. ``keys`` are pairs of a left and a right field; ``bound`` has no ``window_ms`` here."""

    kind: JoinKind
    left: Step
    right: Step
    keys: tuple[tuple[str, str], ...]
    bound: Bound
    time: str | None = None


@dataclass(frozen=True)
class Limit:
    """At most ``rows`` rows."""

    input: Step
    rows: int


Step = Source | Window | Aggregate | Where | Deduplicate | Join | Limit

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Source, Window, Aggregate, Where, Deduplicate, Join, Limit)
}
_PARTS: Mapping[str, type[Any]] = {"fields": Field, "filters": Filter, "values": Value}


def inputs_of(step: Step) -> tuple[Step, ...]:
    """The steps whose rows a step takes, the left one first."""
    if isinstance(step, Source):
        return ()
    return (step.left, step.right) if isinstance(step, Join) else (step.input,)


def walk(step: Step) -> Iterator[Step]:
    """A step and all below it, inputs first."""
    for one in inputs_of(step):
        yield from walk(one)
    yield step


def time_of(step: Step) -> str | None:
    """The field that is a step's event time; ``None`` if no watermark stands behind it."""
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
            return {field.name: field.type for field in step.fields} | {step.time: TIME}
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


@dataclass(frozen=True)
class Chain:
    """The whole promise of one pipeline; ``output`` names the fields of its output records."""

    name: str
    last: Step
    output: tuple[str, ...]
    policy: WatermarkPolicy = WatermarkPolicy.MIN

    def __post_init__(self) -> None:
        for step in walk(self.last):
            problem = _problem(step, is_last=step is self.last)
            if problem:
                self._refuse(f"{type(step).__name__.lower()}: {problem}")
        unknown = [name for name in self.output if name not in types_of(self.last)]
        if unknown or not self.output:
            self._refuse(
                f"output {self.output}: its last step has the fields {', '.join(types_of(self.last))}"
            )

    def _refuse(self, what: str) -> None:
        hint = "the docstring of tidemark/chain.py says what each step is"
        raise BrokenContract(f"chain {self.name!r}: {what}", hint=hint)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, inputs before those that take them."""
        return tuple(walk(self.last))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, from left to right."""
        return tuple(step for step in self.steps if isinstance(step, Source))

    @property
    def topics(self) -> tuple[str, ...]:
        """The logical topics, each once, in the order in which ``build`` takes them."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        about = {"name": self.name, "policy": str(self.policy), "output": list(self.output)}
        return {**about, "chain": _step_to_json(self.last)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Chain:
        """The reverse of :meth:`to_json`; raises ``BrokenContract`` for a missing or unknown field."""
        try:
            return cls(
                name=data["name"],
                last=_step_from_json(data["chain"]),
                output=tuple(data["output"]),
                policy=WatermarkPolicy(data.get("policy", "min")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenContract(
                f"chain {data.get('name', '?')!r} cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="the docstring of tidemark/chain.py shows a whole one",
            ) from error


def is_chain(data: Mapping[str, Any]) -> bool:
    """Whether a contract in JSON is a chain."""
    return "chain" in data


def read_contract(data: Mapping[str, Any]) -> Contract | Chain:
    """A contract in JSON, of either form; raises ``BrokenContract``."""
    return Chain.from_json(data) if is_chain(data) else Contract.from_json(data)


def topics_of(contract: Contract | Chain) -> tuple[str, ...]:
    """The logical topics that a pipeline reads, in the order in which ``build`` takes them."""
    return contract.topics if isinstance(contract, Chain) else (contract.left.topic, contract.right.topic)


def _problem(step: Step, *, is_last: bool) -> str:
    """What is wrong with one step; empty if nothing is."""
    match step:
        case Source():
            return _problem_of_source(step)
        case Join():
            return _problem_of_join(step)
        case Limit():
            return "" if is_last and step.rows > 0 else "the last step only, and of 1 or more rows"
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
        return "" if whole else "it compares values of an aggregate with numbers"
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
    if any(field.type not in (STRING, BIGINT) for field in step.fields):
        return f"a field is {STRING} or {BIGINT}"
    numbers = {field.name for field in step.fields if field.type == BIGINT}
    if any(one.field not in numbers or one.op not in COMPARISONS for one in step.filters):
        return "a filter compares a bigint field with a number"
    if not set(step.required) <= set(names):
        return f"required {step.required}: it has the fields {names}"
    return "" if (step.watermark_delay_ms or 0) >= 0 else "its watermark delay is negative"


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
    if step.kind is JoinKind.LEFT_SEMI and isinstance(step.left, Join | Aggregate | Where):
        return f"Spark runs a semi join below a {type(step.left).__name__.lower()} on its left: describe it there"
    if step.bound.window_ms is not None:
        return "its bound has windows: put a window step below it"
    if step.time is not None and step.time not in never_null(step) & {
        time_of(step.left),
        time_of(step.right),
    }:
        return f"time {step.time!r} is the event time of neither side, or may be NULL"
    return ""


def _step_to_json(step: Step) -> dict[str, Any]:
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
        plain |= {"left": _step_to_json(step.left), "right": _step_to_json(step.right)}
    elif not isinstance(step, Source):
        plain["input"] = _step_to_json(step.input)
    return {"step": type(step).__name__.lower(), **plain}


def _step_from_json(data: Mapping[str, Any]) -> Step:
    fields = {name: value for name, value in data.items() if name != "step"}
    for name, value in fields.items():
        if name in ("input", "left", "right"):
            fields[name] = _step_from_json(value)
        elif name in _PARTS:
            fields[name] = tuple(_PARTS[name](**one) for one in value)
        elif name in ("keys", "required"):
            fields[name] = tuple(tuple(one) if isinstance(one, list) else one for one in value)
    if "kind" in fields:
        fields |= {"kind": JoinKind(fields["kind"]), "bound": Bound(**fields["bound"])}
    step: Step = _KINDS[data["step"]](**fields)
    return step
