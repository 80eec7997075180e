"""The values of sentinels: those that pass what a contract asks, in the form that the records of the input have.

Pure, without Kafka and Spark. A value is changed where the contract says that it is, however deep in a record.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any
from zlib import crc32

from tidemark.formats.contract import COMPARISONS, Filter, Side
from tidemark.formats.events import write_time
from tidemark.formats.field_values import fitted, in_order, literal_of, path_reader, value_reader, value_text
from tidemark.formats.record_fields import (
    BOOLEAN,
    DATE,
    DECIMAL,
    MOST_DIGITS,
    NUMBERS,
    STRING,
    Field,
    Path,
    ValueType,
)
from tidemark.formats.time_forms import ISO, NS_PER_UNIT, write_form


def passing_values(
    side: Side, template: dict[str, Any], asked: dict[str, list[Filter]], turn: int
) -> dict[str, Any]:
    """The JSON of a sentinel but its id and its time; ``turn`` is another number for each input."""
    fields = {field.name: field for field in side.fields}
    found: Any = template
    for name in side.keys:
        found = with_value(found, fields[name].path, _key_value(side, fields[name], template))
    for name, filters in asked.items():
        field = fields[name]
        kind, now = field.made, value_reader(field)(found)
        if now is None and raw_at(found, field) is not None:
            continue  # it is of another type in all records, and passes nothing
        passing = [one for one in _candidates(field, now, filters) if passes(one, kind, filters)]
        if passing:
            is_own_key = name in side.keys and passing[0] != now
            chosen = passing[min(turn if is_own_key else 0, len(passing) - 1)]
            found = with_value(found, field.path, raw_value(chosen, field, raw_at(found, field)))
    result: dict[str, Any] = found
    return result


def failing_value(field: Field, template: dict[str, Any], filters: list[Filter]) -> Any:
    """What a record has where a field is that does not pass, near a value that does; ``None``: nothing was found."""
    now = value_reader(field)(template)
    near = [one for one in _candidates(field, now, filters) if not passes(one, field.made, filters)]
    return raw_value(near[0], field, raw_at(template, field)) if near else None


def raw_at(value: Any, field: Field) -> Any:
    """What a decoded record has where a field is, whatever its type; ``None``: nothing."""
    return path_reader(field.path, lambda raw: raw)(value)


def _candidates(field: Field, now: Any, filters: list[Filter]) -> list[Any]:
    """Values that may pass: the present one, those that it is compared with, and some near them."""
    kind = field.made
    literals = [literal_of(one.value, kind) for one in filters]
    if kind.kind == STRING:
        near: list[Any] = [text for one in literals for text in (one, f"{one}~", one[:-1])]
        return list(dict.fromkeys(["" if now is None else now, *near]))
    if kind.kind == BOOLEAN:
        return [*([] if now is None else [now]), True, False]
    step = Decimal(1).scaleb(-kind.scale) if kind.kind == DECIMAL else 1
    nothing = Decimal(0) if kind.kind == DECIMAL else 0
    near = [one + away * step for one in literals for away in (0, 1, -1, 2, -2)]
    return list(dict.fromkeys([nothing if now is None else now, *near]))


def passes(value: Any, kind: ValueType, filters: list[Filter]) -> bool:
    """Whether a value is of a type, and passes what a contract asks."""
    if kind.kind == DECIMAL and fitted(value, kind) != value:
        return False
    return all(
        COMPARISONS[one.op](
            in_order(value, kind, MOST_DIGITS), in_order(literal_of(one.value, kind), kind, MOST_DIGITS)
        )
        for one in filters
    )


def time_value(side: Side, field: Field, time_ms: int, like: Any = None) -> Any:
    """A time as the records of a side have it: ISO with milliseconds, a number without a fraction.

    A number has a fraction if ``like``, a time of the same field, has one, with as many digits, and more where the
    time needs them; it is text if that is text.
    """
    if side.time_format == ISO:
        return write_time(time_ms * 1000)
    text = write_form(time_ms * 1000, side.time_format, side.time_zone)
    if side.time_format not in NS_PER_UNIT:
        return text
    if digits := fraction_digits(like):
        number = Decimal(text)
        written = round(number, digits)
        text = f"{written if written == number else number:f}"
    if field.read_as.kind == STRING or (digits and type(like) is str):
        return text
    return Decimal(text) if digits else int(text)


def fraction_digits(raw: Any) -> int:
    """How many digits a number in a record, or in text, has behind its point; 0 for all that is no number."""
    try:
        exponent = Decimal(str(raw)).as_tuple().exponent
    except InvalidOperation:
        return 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _key_value(side: Side, field: Field, template: dict[str, Any]) -> Any:
    """A unique key of the type that the records have: a schema reads a value of another type as NULL."""
    like = raw_at(template, field)
    kind = field.made.kind
    if kind == BOOLEAN:
        return like
    if kind == DATE:
        return value_text(literal_of("2100-01-01", field.made) + number_of(side, field) % 10_000, field.made)
    if kind in NUMBERS and type(like) is str:
        return str(number_of(side, field))
    if isinstance(like, float | Decimal):
        return float(number_of(side, field))
    return number_of(side, field) if type(like) is int or kind in NUMBERS else f"sentinel-{side.topic}"


def number_of(side: Side, field: Field) -> int:
    """A number near the largest Spark INT, and different for each topic; less where a decimal has fewer digits."""
    number = 2_000_000_000 + crc32(side.topic.encode()) % 100_000_000
    return number % 10 ** (field.made.precision - field.made.scale) if field.made.kind == DECIMAL else number


def raw_value(value: Any, field: Field, like: Any) -> Any:
    """What a record has where a field has this value: text if ``like``, the value of another record, is text."""
    if field.read_as.kind in (STRING, DATE) or (type(like) is str and field.read_as.kind == DECIMAL):
        return value_text(value, field.made)
    return value


def with_value(value: Any, path: Path, raw: Any) -> Any:
    """A decoded JSON value with another one at a path: objects and entries of arrays that are missing are made."""
    if not path:
        return raw
    first, rest = path[0], path[1:]
    if isinstance(first, str):
        fields = value if isinstance(value, dict) else {}
        return {**fields, first: with_value(fields.get(first), rest, raw)}
    entries = list(value) if isinstance(value, list) else []
    entries += [None] * (first + 1 - len(entries))
    entries[first] = with_value(entries[first], rest, raw)
    return entries
