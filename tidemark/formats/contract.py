"""The contract: the join that a pipeline promises, in terms of its input and output records.

It needs the standard library alone, because it also runs in another interpreter (``--spark PYTHON``).
A contract is written next to the pipeline, printed by ``tidemark contract NAME`` (with ``--json`` as the field
``contract``), stored in ``manifest.json``, and is all that the oracle knows of a pipeline::

    {"name": "left_outer", "kind": "left_outer",
     "left":  {"topic": "impressions", "id": "impression_id", "keys": ["user_id", "ad_id"],
               "time": "impression_time", "watermark_delay_ms": 10000},
     "right": {"topic": "clicks", "id": "click_id", "keys": ["user_id", "ad_id"],
               "time": "click_time", "watermark_delay_ms": 20000},
     "bound": {"lower_ms": -20000, "upper_ms": 0, "lower_strict": false, "upper_strict": false},
     "output": {"left_id": "impression_id", "left_ref": ["impression_partition", "impression_offset"],
                "right_id": "click_id", "right_ref": ["click_partition", "click_offset"]},
     "policy": "min"}

``topic`` is the logical name that traces use; the name of the topic in Kafka is in the manifest. ``bound`` limits
``left.time - right.time``. A ``ref`` names the output fields with partition and offset of the input record: they make
each output row unique. Without a ref (``null``) the output is compared as a multiset of ids.

A side without a watermark has ``null`` for ``watermark_delay_ms``. Optional: a side's ``filters`` are applied before
the join. In the bound, ``"equal": true`` makes the times join keys, and ``window_ms`` replaces each time by its
tumbling window, which is compared by its end. ``condition`` is the rest of the join condition, besides keys and times;
``where`` filters the joined rows::

    "filters": [{"field": "price", "op": ">=", "value": 5}]
    "condition": [{"left": "price", "op": "<", "right": "price"}, {"left": "price", "op": ">", "value": 0}]

The operators, ``op``, are ``=``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``. As in SQL, NULL passes none of them; text is
compared by its bytes.

``"delivery": "exactly-once"`` (or ``"at-least-once"``) is the pipeline's promise, if it differs from the promise of
the sink that it runs with: it puts a sink of its own behind Spark's, say. ``"accept": ["one-sided-watermark"]`` names
known defects of Spark that are accepted: their findings are reported and counted, and do not make a run ``INVALID``.

Names of a side are paths into the records' JSON, or fields that the side describes
(``tidemark.formats.record_fields``). ``time_format`` and ``time_zone`` say how the event time is written
(``tidemark.formats.time_forms``). Nested orders with times in milliseconds, and amounts that are compared as decimals::

    "left": {"topic": "orders", "id": "meta.id", "keys": ["customer.id"], "watermark_delay_ms": 10000,
             "time": "meta.created_at", "time_format": "epoch-ms",
             "fields": [{"name": "amount", "column": "totals.amount", "type": "decimal(12,2)"}],
             "filters": [{"field": "amount", "op": ">=", "value": "0.50"}]}

What is no JSON, or no description fits, is read by two functions of the pipeline's file, ``"decode": "decode_order"``
and ``"encode": "encode_order"``, or of the file that ``--functions`` names (``tidemark.formats.kafka_record``). Names
are those of what ``decode`` returns.

A conjunct reads ``left op right``, with ``value`` in the place of the operand that is left out:
``{"op": "<", "right": "price", "value": 8}`` is ``8 < price`` of the right side; ``price < 8`` of the right side is
``{"op": ">", "right": "price", "value": 8}``.

What is compared is a BIGINT, be it a key or not, unless the side has a field of that name, which says another type. So
are the keys of the other side that are equal to it. Both operands have the same type, but for the digits of decimals. A
``value`` is of the type of the field: a number, text for a string or a date, or ``true``; of a decimal a number or text
(``"0.50"``). No comparison with NULL is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidemark.errors import BrokenContract
from tidemark.formats.field_types import short, wrong_type
from tidemark.formats.field_values import literal_of
from tidemark.formats.record_fields import BIGINT, DECIMAL, DOUBLE, STRING, Field, field_problem
from tidemark.formats.time_forms import ISO, MOST_DIGITS, NS_PER_UNIT, form_problem

CONTRACT_HINT = "the docstring of tidemark/formats/contract.py shows a whole one"


class JoinKind(StrEnum):
    """The join kinds that can be judged, by Spark's names in lower case."""

    INNER = "inner"
    LEFT_OUTER = "left_outer"
    RIGHT_OUTER = "right_outer"
    FULL_OUTER = "full_outer"
    LEFT_SEMI = "left_semi"

    @property
    def how(self) -> str:
        """As PySpark's ``DataFrame.join`` takes it: ``leftOuter``."""
        first, *rest = self.split("_")
        return first + "".join(map(str.capitalize, rest))


PRESERVED: dict[JoinKind, tuple[int, ...]] = {
    JoinKind.LEFT_OUTER: (0,),
    JoinKind.RIGHT_OUTER: (1,),
    JoinKind.FULL_OUTER: (0, 1),
}
"""The sides (left 0, right 1) of an outer join whose rows come with NULLs where they have no partner."""


class Delivery(StrEnum):
    """What the sink promises."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class WatermarkPolicy(StrEnum):
    """``spark.sql.streaming.multipleWatermarkPolicy``."""

    MIN = "min"
    MAX = "max"


Literal = int | float | str | bool
"""What a contract compares a field with."""

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The operators of filters and conditions, as in SQL."""
OPERATORS = ", ".join(COMPARISONS)
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""Each of them read from right to left."""


@dataclass(frozen=True)
class Filter:
    """``field op value``, for a field of one side's records."""

    field: str
    op: str
    value: Literal


@dataclass(frozen=True)
class Term:
    """One conjunct ``left op right``: two fields, or a field and a ``value`` in place of the other."""

    op: str
    left: str | None = None
    right: str | None = None
    value: Literal | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it has exactly two operands and a known operator."""
        given = [part for part in (self.left, self.right, self.value) if part is not None]
        return len(given) == 2 and self.op in COMPARISONS

    def of_side(self, *, right: bool) -> Filter | None:
        """The same with the field first, if it compares a field of that side with a value."""
        field, other = (self.right, self.left) if right else (self.left, self.right)
        if field is None or other is not None or self.value is None:
            return None
        return Filter(field, FLIPPED[self.op] if right else self.op, self.value)


@dataclass(frozen=True)
class Side:
    """One input: where its records have what the join needs, and its watermark delay in milliseconds.

    ``keeps_null_event_time``: rows with a NULL event time reach the join; by default the pipeline filters them out.
    ``fields`` are those that are read otherwise than as text, or have another name than their path. ``decode`` and
    ``encode`` name functions of the pipeline's file that read records, and make them (``formats.kafka_record``).
    """

    topic: str
    id: str
    keys: tuple[str, ...]
    time: str
    watermark_delay_ms: int | None
    filters: tuple[Filter, ...] = ()
    keeps_null_event_time: bool = False
    fields: tuple[Field, ...] = ()
    time_format: str = ISO
    time_zone: str = "UTC"
    decode: str | None = None
    encode: str | None = None

    def field(self, name: str, default: str = STRING) -> Field:
        """The field of this name, else the path of this name; ``default`` is its type if the contract says none."""
        found = next((one for one in self.fields if one.name == name), Field(name))
        return found if found.type is not None else replace(found, type=default)

    @property
    def time_field(self) -> Field:
        """Where the event time is; of the form ``iso`` its type says nothing."""
        return self.field(self.time, BIGINT if self.time_format in NS_PER_UNIT else STRING)

    @property
    def is_plain(self) -> bool:
        """Whether id, keys and time are fields at the top of the records, which are text, and the time is ISO."""
        return self.time_format == ISO and self.time_zone == "UTC" and not self.fields and all(
            self.field(name).is_plain for name in (self.id, self.time, *self.keys)
        )  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """``lower_ms <= left.time - right.time <= upper_ms``; ``None`` leaves an end open, ``*_strict`` excludes it.

    ``equal``: the times are join keys. ``window_ms``: the times are tumbling windows of that length, compared by their
    ends. A join without a bound must output both times: otherwise Spark prunes them before the join, which then drops
    no late rows.
    """

    lower_ms: int | None = None
    upper_ms: int | None = None
    lower_strict: bool = False
    upper_strict: bool = False
    equal: bool = False
    window_ms: int | None = None

    @property
    def problem(self) -> tuple[str, str] | None:
        """What contradicts itself in the range, and what to do about it."""
        low, high = self.lower_ms, self.upper_ms
        if low is not None and high is not None and low > high:
            return f"the bound {low} .. {high} ms is empty", "lower_ms must not exceed upper_ms"
        if self.equal and ((low or 0) > 0 or (high or 0) < 0):
            return (
                f"the bound {low} .. {high} ms excludes equal times",
                "leave out `equal`, or let the bound include 0",
            )
        return None

    @property
    def is_open(self) -> bool:
        """Whether it limits nothing, so that the join does not use the times."""
        return not self.equal and self.lower_ms is None and self.upper_ms is None


@dataclass(frozen=True)
class Output:
    """Names of the output record's fields. ``right_*`` are ``None`` for a semi join."""

    left_id: str
    right_id: str | None = None
    left_ref: tuple[str, str] | None = None
    right_ref: tuple[str, str] | None = None

    @property
    def has_refs(self) -> bool:
        """Whether an output record names its input records by partition and offset, on each side that it has."""
        return self.left_ref is not None and (self.right_id is None or self.right_ref is not None)


@dataclass(frozen=True)
class Contract:
    """The whole promise of one pipeline."""

    name: str
    kind: JoinKind
    left: Side
    right: Side
    bound: Bound
    output: Output
    policy: WatermarkPolicy = WatermarkPolicy.MIN
    condition: tuple[Term, ...] = ()
    where: tuple[Term, ...] = ()
    delivery: Delivery | None = None
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if problem := wrong_type(self):
            raise BrokenContract(f"contract {self.name!r}: {problem}", hint=CONTRACT_HINT)
        for what, hint in _objections(self):
            raise BrokenContract(f"contract {self.name!r}: {what}", hint=hint)

    @property
    def is_decoded(self) -> bool:
        """Whether records of a topic are read by functions of the pipeline's file."""
        return any(side.decode is not None for side in (self.left, self.right))

    @property
    def compared(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of each side that filters and conditions compare, and the keys that are equal to one of them."""
        terms = [*self.condition, *self.where]
        found = [
            [*(one.field for one in side.filters), *filter(None, names)]
            for side, names in (
                (self.left, [term.left for term in terms]),
                (self.right, [term.right for term in terms]),
            )
        ]
        for own, other in zip(self.left.keys, self.right.keys, strict=False):
            if own in found[0] or other in found[1]:
                found[0].append(own)
                found[1].append(other)
        return tuple(dict.fromkeys(found[0])), tuple(dict.fromkeys(found[1]))

    @property
    def values(self) -> tuple[dict[str, Field], dict[str, Field]]:
        """The fields of each side by name, but for the event time: id, keys, and what is compared."""
        left, right = (
            {
                name: side.field(name, BIGINT if name in compared else STRING)
                for name in dict.fromkeys((side.id, *side.keys, *compared))
            }
            for side, compared in zip((self.left, self.right), self.compared, strict=True)
        )
        return left, right

    def side(self, topic: str) -> Side:
        """The side that reads the logical topic ``topic``; raises ``KeyError``."""
        for side in (self.left, self.right):
            if side.topic == topic:
                return side
        raise KeyError(topic)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Contract:
        """The reverse of :meth:`to_json`; raises ``BrokenContract`` for a missing or unknown field."""
        try:
            output = dict(data["output"])
            for ref in ("left_ref", "right_ref"):
                output[ref] = tuple(output[ref]) if output.get(ref) else None
            return cls(
                name=data["name"],
                kind=JoinKind(data["kind"]),
                left=_side(data["left"]),
                right=_side(data["right"]),
                bound=Bound(**data["bound"]),
                output=Output(**output),
                policy=WatermarkPolicy(data.get("policy", "min")),
                condition=tuple(Term(**term) for term in data.get("condition", ())),
                where=tuple(Term(**term) for term in data.get("where", ())),
                delivery=Delivery(data["delivery"]) if data.get("delivery") else None,
                accept=names_in(data.get("accept", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BrokenContract(
                f"contract {_named(data)} cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint=CONTRACT_HINT,
            ) from error


def printed_contract(data: Any) -> Any:
    """The contract in the JSON that ``tidemark contract --json`` prints; all else is returned as it is."""
    is_printed = isinstance(data, Mapping) and {"contract", "plan"} <= data.keys()
    return data["contract"] if is_printed else data


def _named(data: Any) -> str:
    """The name of what should be a contract, for an error."""
    return short(data.get("name", "?") if isinstance(data, Mapping) else data)


def names_in(accept: Any) -> tuple[str, ...]:
    """The names of a field ``accept``; raises ``TypeError`` unless it is a list of strings."""
    if isinstance(accept, str) or not all(isinstance(name, str) for name in accept):
        raise TypeError(f"accept is {accept!r}, which is no list of names")
    return tuple(accept)


def _objections(contract: Contract) -> Iterator[tuple[str, str]]:
    """The contradictions of a contract, each with the correction."""
    left, right, bound = contract.left, contract.right, contract.bound
    if not left.keys or len(left.keys) != len(right.keys):
        yield (
            f"keys {left.keys} and {right.keys} do not pair up",
            "give both sides the same number of key fields, at least one",
        )
    if left.topic == right.topic:
        yield f"both sides read {left.topic!r}", "give each side a topic of its own"
    if any((side.watermark_delay_ms or 0) < 0 for side in (left, right)):
        yield "a watermark delay is negative", "a delay is 0 or more milliseconds"
    if bound.problem is not None:
        yield bound.problem
    low, high = bound.lower_ms, bound.upper_ms
    if bound.window_ms is not None:
        if bound.window_ms <= 0:
            yield f"its windows are {bound.window_ms} ms long", "a window is 1 or more milliseconds long"
        if (low or 0, high or 0) != (0, 0):
            yield (
                f"windows are bounded by {low} .. {high} ms",
                "for windows, lower_ms and upper_ms are 0 or left out",
            )
    if any(side.keeps_null_event_time for side in (left, right)) and (
        bound.equal or bound.window_ms is not None
    ):
        yield (
            "rows with a NULL event time meet equal times or windows",
            "leave out `keeps_null_event_time`, or give a range as the bound",
        )
    if (contract.kind is JoinKind.LEFT_SEMI) != (contract.output.right_id is None):
        yield f"right_id={contract.output.right_id!r}", "a semi join has no right columns; others do"
    yield from _objections_to_filters(contract)
    yield from _objections_to_fields(contract)


def functions_problem(decode: str | None, encode: str | None) -> str:
    """What is wrong with the names of the functions that read and make the records of a topic; empty: nothing."""
    functions = [one for one in (decode, encode) if one is not None]
    is_pair = len(functions) != 1 and all(map(str.isidentifier, functions))
    return "" if is_pair else f"decode is {decode!r} and encode {encode!r}"


def _objections_to_fields(contract: Contract) -> Iterator[tuple[str, str]]:
    """What is wrong with paths, types and times."""
    described = "the docstring of tidemark/formats/record_fields.py says how fields are described"
    for side, values in zip((contract.left, contract.right), contract.values, strict=True):
        time = side.time_field
        for problem in map(field_problem, (*side.fields, *values.values(), time)):
            if problem:
                yield f"{side.topic}: {problem}", described
        if problem := form_problem(side.time_format, side.time_zone):
            yield (
                f"the time of {side.topic}: {problem}",
                "the docstring of tidemark/formats/time_forms.py says which forms there are",
            )
        if doubles := [key for key in side.keys if values[key].made.kind == DOUBLE]:
            yield (
                f"{side.topic}: the join key {doubles[0]!r} is a double",
                "cast it to a decimal or a bigint: of doubles that are keys Spark joins NULL with NULL",
            )
        if problem := functions_problem(side.decode, side.encode):
            yield (
                f"{side.topic}: {problem}",
                "name two functions of the pipeline's file: one reads records, its inverse makes the sentinels",
            )
        if problem := _wrong_time(side):
            yield f"the time of {side.topic}: {problem}", described
    for what in _wrong_types(contract):
        yield what, "give both the same type in `fields`, with a `cast` if it is to be another"


def _wrong_time(side: Side) -> str:
    time, made = side.time_field, side.time_field.made
    if side.time_format not in NS_PER_UNIT:
        plain = made.kind == STRING and time.cast is None and time.round is None
        return (
            ""
            if plain
            else f"{time.name!r} is a {made}, which is no text that is read as {side.time_format!r}"
        )
    if made.kind == BIGINT or (made.kind == DECIMAL and made.precision <= MOST_DIGITS):
        return ""
    return f"{time.name!r} is a {made}: {side.time_format} is a bigint or a decimal of up to {MOST_DIGITS} digits"


def _wrong_types(contract: Contract) -> Iterator[str]:
    """Pairs of names that are compared and have not the same kind, and values that are of another type."""
    left, right = contract.values
    pairs = [*zip(contract.left.keys, contract.right.keys, strict=False)]
    terms = (*contract.condition, *contract.where)
    pairs += [(term.left, term.right) for term in terms if term.left is not None and term.right is not None]
    for one, other in pairs:
        if left[one].made.kind != right[other].made.kind:
            yield f"{one!r} is a {left[one].made}, and {other!r} a {right[other].made}"
    for own, (side, fields) in enumerate(zip((contract.left, contract.right), (left, right), strict=True)):
        of_side = [asked for term in terms if (asked := term.of_side(right=bool(own))) is not None]
        for what in (*side.filters, *of_side):
            try:
                literal_of(what.value, fields[what.field].made)
            except ValueError as error:
                yield f"{what.field!r} {what.op} {what.value!r}: {error}"


def _objections_to_filters(contract: Contract) -> Iterator[tuple[str, str]]:
    terms = (*contract.condition, *contract.where)
    compared: tuple[Filter | Term, ...] = (*contract.left.filters, *contract.right.filters, *terms)
    for one in compared:
        if one.op not in COMPARISONS:
            yield f"{one}: there is no operator {one.op!r}", f"the operators are {OPERATORS}"
    for term in terms:
        if not term.is_whole:
            yield f"{term} does not compare two values", "give two of left, right and value"
        elif term.value is None and term.op == "=":
            yield f"{term} asks for equal fields of both sides", "name them in `keys`"
        elif (term.left, term.right) in [*zip(contract.left.keys, contract.right.keys, strict=False)]:
            yield (
                f"{term} compares a key with the key that it is equal to",
                "leave it out: it holds for each pair or for none",
            )
    if contract.kind is JoinKind.LEFT_SEMI and any(term.right is not None for term in contract.where):
        yield (
            "`where` reads the right side of a semi join",
            "a semi join has no right columns: use `condition`",
        )


def _side(data: Mapping[str, Any]) -> Side:
    filters = tuple(Filter(**one) for one in data.get("filters", ()))
    keys = data["keys"]
    if isinstance(keys, str):
        raise TypeError(f"keys is {keys!r}, which is no list of names")
    fields = tuple(Field(**one) for one in data.get("fields", ()))
    return Side(**{**data, "keys": tuple(keys), "filters": filters, "fields": fields})
