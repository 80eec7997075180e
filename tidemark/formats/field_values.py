"""The values of fields, as Spark reads them from JSON, casts and rounds them; and as numbers that have their order.

Free of everything but the standard library, as the contract is. A value is ``str``, ``int``, ``float``, ``Decimal``,
``bool``, or for a date the number of days since the epoch; NULL is ``None``. Decoded JSON has ``Decimal`` for numbers
with a fraction or an exponent, so that none of their digits is lost. Where Spark's code is meant: ``JacksonParser``,
``Cast`` (as ``try_cast`` calls it), ``Round``, ``SparkDateTimeUtils.stringToDate``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from tidemark.formats.field_types import LONG
from tidemark.formats.record_fields import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    STRING,
    Field,
    Path,
    ValueType,
    type_of,
)

_EXACT = Context(prec=2000, Emax=999_999, Emin=-999_999)
_ESCAPED = re.compile(r'["\\\x00-\x1f]|[^\x00-\uffff]').sub
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_INFINITE = {"NaN": math.nan} | {
    sign + name: math.inf for sign in ("", "+") for name in ("Infinity", "INF")
} | {"-" + name: -math.inf for name in ("Infinity", "INF")}  # fmt: skip
del _INFINITE["INF"]  # Spark knows it with a sign only
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII).fullmatch
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII).fullmatch
_DOUBLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII).fullmatch
_SPECIAL = re.compile(r"([+-]?)inf(?:inity)?", re.ASCII | re.IGNORECASE).fullmatch
_DAY = re.compile(r"([+-]?)(\d{4,7})(?:-(\d\d?)(?:-(\d\d?)(?:[ T].*)?)?)?", re.ASCII | re.DOTALL).fullmatch
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_SPACE = "".join(map(chr, range(33))) + "\x7f"
"""What Spark trims before it casts text: white space and ISO control characters."""
_INT = range(-(1 << 31), 1 << 31)
_GREGORIAN = -141_427
"""The day of which Spark says that the Gregorian calendar began."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS = 146_097


def as_text(value: Any) -> str | None:
    """A JSON value as ``from_json`` returns it for a STRING column."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, float | Decimal):
        return _number_text(value)
    if isinstance(value, dict):
        parts = (f"{_quoted(name)}:{_json_text(one)}" for name, one in value.items())
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    return str(value).lower() if type(value) is bool else str(value)


def _json_text(value: Any) -> str:
    """A value inside of another one."""
    text = as_text(value)
    if text is None:
        return "null"
    return _quoted(value) if type(value) is str else text


def _quoted(text: str) -> str:
    """A text in JSON as Spark's generator escapes it."""
    return '"' + _ESCAPED(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    one = found[0]
    units = struct.unpack(">2H", one.encode("utf-16-be")) if ord(one) > 0xFFFF else (ord(one),)
    return _ESCAPES.get(one) or "".join(f"\\u{unit:04X}" for unit in units)


def _number_text(value: float | Decimal) -> str:
    number = float(value)
    return double_text(number) if math.isfinite(number) else f'"{double_text(number)}"'


def double_text(value: float) -> str:
    """A double as Java writes it (``Double.toString``)."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)  # the digits are behind the point, times ten to this
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if 1e-3 <= abs(value) < 1e7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        return f"{minus}{whole}.{('0' * -point + text[max(point, 0) :]) or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def value_reader(field: Field) -> Callable[[dict[str, Any]], Any]:
    """A function that gives a field's value in a decoded object."""
    read_as, made, digits = field.read_as, field.made, field.round
    cast_to = type_of(field.cast) if field.cast is not None else read_as
    found = path_reader(field.path, lambda value: from_json(value, read_as))
    if cast_to == read_as and digits is None:
        return found

    def read(fields: dict[str, Any]) -> Any:
        value = cast(found(fields), read_as, cast_to)
        return value if digits is None else _rounded(value, digits, made)

    return read


def path_reader(path: Path, convert: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    """A function that gives what ``convert`` makes of the value at a path; ``None`` if nothing is there.

    An array is read as a whole: if one of its entries is of another type than the path needs, Spark reads none of it.
    """

    def read(value: Any) -> Any:
        for part in path:
            if type(value) is not dict:
                return None
            value = value.get(part)
        return None if value is None else convert(value)

    def read_arrays(value: Any) -> Any:
        for at, part in enumerate(path):
            if type(part) is str:
                value = value.get(part) if type(value) is dict else None
            elif type(value) is list and all(
                one is None or _fits(one, path[at + 1 :], convert) for one in value
            ):
                value = value[int(part)] if int(part) < len(value) else None
            else:
                return None
        return None if value is None else convert(value)

    return read if all(type(part) is str for part in path) else read_arrays


def _fits(value: Any, path: Path, convert: Callable[[Any], Any]) -> bool:
    """Whether an entry of an array is of the type that the rest of a path needs."""
    if not path:
        return convert(value) is not None
    if type(path[0]) is str:
        return type(value) is dict
    return type(value) is list and all(one is None or _fits(one, path[1:], convert) for one in value)


_NO_SUCH_VALUE = (ValueError, OverflowError, InvalidOperation)
"""What Python raises for numbers that are too large for a type."""


def from_json(value: Any, kind: ValueType) -> Any:
    """A decoded JSON value as Spark's JSON reader reads it for a column of this type."""
    if value is None:
        return None
    try:
        return _READERS[kind.kind](value, kind)
    except _NO_SUCH_VALUE:
        return None


def _json_double(value: Any, _kind: ValueType) -> float | None:
    if type(value) is str:
        return _INFINITE.get(value)
    return float(value) if isinstance(value, int | float | Decimal) and type(value) is not bool else None


def _json_decimal(value: Any, kind: ValueType) -> Decimal | None:
    if type(value) is str:
        text = value.replace(",", "")
        return fitted(Decimal(text), kind) if _NUMBER(text) else None
    if isinstance(value, int | Decimal) and type(value) is not bool:
        return fitted(Decimal(value), kind)
    return None


def _json_date(value: Any, _kind: ValueType) -> int | None:
    if type(value) is not str:
        return None
    days = days_of(value)
    if days is None and _WHOLE(value) and _GREGORIAN <= int(value) in _INT:
        return int(value)  # as Spark 1.5 wrote days
    return days


_READERS: dict[str, Callable[[Any, ValueType], Any]] = {
    STRING: lambda value, _: as_text(value),
    BIGINT: lambda value, _: value if type(value) is int and value in LONG else None,
    DOUBLE: _json_double,
    DECIMAL: _json_decimal,
    BOOLEAN: lambda value, _: value if type(value) is bool else None,
    DATE: _json_date,
}


def fitted(value: Decimal, kind: ValueType) -> Decimal | None:
    """A number as a decimal of a type: rounded half up; ``None`` if it has too many digits."""
    nothing = Decimal(0).scaleb(-kind.scale)
    if value.is_zero() or (value.is_finite() and value.adjusted() < -kind.scale - 1):
        return nothing
    if not value.is_finite() or value.adjusted() >= kind.precision - kind.scale:
        return None
    found = value.quantize(nothing, ROUND_HALF_UP, _EXACT)
    if found.is_zero():
        return nothing
    return found if found.adjusted() < kind.precision - kind.scale else None


def cast(value: Any, kind: ValueType, to: ValueType) -> Any:
    """A value of one type as another, as ``try_cast`` makes it."""
    if value is None or kind == to:
        return value
    try:
        return _CASTS[to.kind](value, kind, to)
    except _NO_SUCH_VALUE:
        return None


def _to_string(value: Any, kind: ValueType, _to: ValueType) -> str:
    return value_text(value, kind)


def _to_bigint(value: Any, kind: ValueType, _to: ValueType) -> int | None:
    if kind.kind == STRING:
        text = value.strip(_SPACE)
        if not _WHOLE(text):
            return None
        number = int(text)
    elif kind.kind == DOUBLE and value == 2.0**63:
        return LONG[-1]
    else:
        number = int(value)
    return number if number in LONG else None


def _to_double(value: Any, kind: ValueType, _to: ValueType) -> float | None:
    if kind.kind != STRING:
        return float(value)
    text = value.strip(_SPACE)
    if found := _DOUBLE(text):
        return float(found[1])
    if text.lower() == "nan":
        return math.nan
    special = _SPECIAL(text)
    return None if special is None else float(f"{special[1]}inf")


def _to_decimal(value: Any, kind: ValueType, to: ValueType) -> Decimal | None:
    if kind.kind == STRING:
        text = value.strip(_SPACE)
        return fitted(Decimal(text), to) if _NUMBER(text) else None
    if kind.kind == DOUBLE:
        return fitted(Decimal(double_text(value)), to) if math.isfinite(value) else None
    return fitted(Decimal(value), to)


def _to_boolean(value: Any, kind: ValueType, _to: ValueType) -> bool | None:
    if kind.kind != STRING:
        return bool(value)
    text = value.strip(_SPACE).lower()
    return True if text in _TRUE else False if text in _FALSE else None


_CASTS: dict[str, Callable[[Any, ValueType, ValueType], Any]] = {
    STRING: _to_string,
    BIGINT: _to_bigint,
    DOUBLE: _to_double,
    DECIMAL: _to_decimal,
    BOOLEAN: _to_boolean,
    DATE: lambda value, _kind, _to: days_of(value),
}


def _rounded(value: Any, digits: int, made: ValueType) -> Any:
    """A number rounded half up, as Spark's ``round``; ``made`` is the type of the result."""
    if value is None or (made.kind == DOUBLE and not math.isfinite(value)):
        return value
    exact = Decimal(double_text(value)) if made.kind == DOUBLE else Decimal(value)
    if exact.is_zero() or -int(exact.as_tuple().exponent) <= digits:
        found = exact
    else:
        found = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    if made.kind == DOUBLE:
        return float(found) or 0.0  # no zero has a sign any more
    return fitted(found, made)


def days_of(text: str) -> int | None:
    """Text as Spark casts it to a date: days since the epoch; ``None`` if it is none."""
    found = _DAY(text.strip(_SPACE))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    try:
        return _days(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None


def _days(year: int, month: int, day: int) -> int:
    """Days since the epoch of a date of any year; raises ``ValueError`` if there is none."""
    cycles, rest = divmod(year, 400)
    return date(rest + 400, month, day).toordinal() - _EPOCH_DAY + (cycles - 1) * _DAYS_OF_400_YEARS


def _date_text(days: int) -> str:
    cycles, rest = divmod(days + _EPOCH_DAY - 1, _DAYS_OF_400_YEARS)
    found = date(1, 1, 1) + timedelta(rest)
    year = found.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"


def value_text(value: Any, kind: ValueType) -> str:
    """A value that is not NULL as Spark casts it to text."""
    match kind.kind:
        case "string":
            return str(value)
        case "double":
            return double_text(value)
        case "decimal":
            return f"{value:f}"
        case "boolean":
            return "true" if value else "false"
        case "date":
            return _date_text(value)
    return str(int(value))


def key_text(value: Any, kind: ValueType) -> str | None:
    """A value as an id or a part of a join key: two of one type are equal if and only if their texts are."""
    return None if value is None else value_text(value, kind)


def in_order(value: Any, kind: ValueType, scale: int) -> int | bytes | None:
    """A value as what has its order: a number, or for text its bytes; ``scale`` is that of the decimals compared."""
    if value is None:
        return None
    if kind.kind == STRING:
        return str(value).encode("utf-8", "replace")
    if kind.kind == DECIMAL:
        return int(value.scaleb(scale, _EXACT))
    if kind.kind != DOUBLE:
        return int(value)
    if math.isnan(value):
        return (1 << 63) - 1
    bits: int = struct.unpack(">q", struct.pack(">d", value or 0.0))[0]
    return bits if bits >= 0 else -(bits & (1 << 63) - 1)


def literal_of(value: int | float | str | bool, kind: ValueType) -> Any:
    """A value that a contract writes as one of a type; raises ``ValueError`` if it is none of it."""
    try:
        found = _literal(value, kind.kind)
    except _NO_SUCH_VALUE:
        found = None
    if found is None:
        raise ValueError(f"{value!r} is no {kind}")
    return found


def _literal(value: int | float | str | bool, kind: str) -> Any:
    if kind == STRING:
        return value if type(value) is str else None
    if kind == BOOLEAN:
        return value if type(value) is bool else None
    if type(value) is bool:
        return None
    if kind == BIGINT:
        return value if type(value) is int and value in LONG else None
    if kind == DATE:
        return days_of(value) if type(value) is str else None
    if kind == DOUBLE:
        return _INFINITE.get(value) if type(value) is str else float(value)
    is_number = type(value) is not str or _NUMBER(value)
    return Decimal(repr(value) if type(value) is float else value) if is_number else None
