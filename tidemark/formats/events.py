"""Parses a record's value into an event, exactly as the pipelines' ``from_json`` does.

Free of Spark and of I/O. A value is a JSON object; what comes behind it is not looked at. What a contract names is
found by its path (``tidemark.formats.record_fields``). The event time is an ISO-8601 string
(``2026-01-01T00:00:00.123Z``) or another form that Spark reads as a TIMESTAMP, unless the contract says another
(``tidemark.formats.time_forms``). A time without an offset is in the time zone of the contract, else in UTC; a fraction
is truncated after six digits. A value is *unreadable* if it is not a JSON object, or its time is missing, null or not
a timestamp: the pipelines filter it out upstream of the watermark, so it neither moves the watermark nor counts as
late. A value with a missing or null key is still an event: a left outer join owes it a NULL row.

A value that Spark reads otherwise, and that programs do not write: a name that is twice in an object, of which the last
is no value of its type (Spark keeps the one before), or in an object that is read as text (Spark keeps both); broken
JSON inside of an object or array that is read; a lone half of a surrogate pair; and the double nearest to zero as text.

Years are 0001 to 9999. A time without a date, which Spark completes with the current day, is unreadable here, because
its meaning would change every day.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, Protocol

import msgspec

from tidemark.formats.contract import Side
from tidemark.formats.field_types import LONG
from tidemark.formats.field_values import key_text, path_reader, value_reader
from tidemark.formats.record_fields import Field
from tidemark.formats.time_forms import EPOCH, ISO, NS_PER_UNIT, epoch_us, pattern_reader, zone_of

SHOWN = 80
"""So many characters of a value are in a message."""

_HALF = 1 << 63
_MICROSECOND = timedelta(microseconds=1)

is_canonical = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII).fullmatch
"""Matches the form that ``datetime.fromisoformat`` parses as Spark does, in a tenth of the time."""

_LENIENT = re.compile(
    r"\s*\+?(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[T ](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d*))?(?:\s?([A-Z+-].*?))?)?)?)?)?)?\s*",
    re.ASCII,
).fullmatch
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


class Event(NamedTuple):
    """A readable record: ``id``, ``key`` (one value per key field), ``time_us``; what is missing is ``None``."""

    id: str | None
    key: tuple[str | None, ...]
    time_us: int


def read_event(value: bytes | str | None, side: Side) -> Event | None:
    """The event in a record's value, or ``None`` if it is unreadable for this side."""
    return _event_reader(side)(value)


def _exactly(text: str) -> Decimal | float:
    """A number with a fraction or an exponent; one that no decimal holds is infinite, or 0."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)


class _ExactDecoder:
    """Decoders that keep every digit of a number; made again where this is unpickled, for they cannot be pickled."""

    def __init__(self) -> None:
        self.whole = msgspec.json.Decoder(float_hook=_exactly).decode
        self.first = json.JSONDecoder(parse_float=_exactly).raw_decode

    def __reduce__(self) -> tuple[type[_ExactDecoder], tuple[()]]:
        return _ExactDecoder, ()


_exact = _ExactDecoder()


def decode_object(value: bytes | str | None) -> dict[str, Any] | None:
    """The JSON object at the beginning of a value, as Spark's parser finds one; ``None``: none.

    A number with a fraction or an exponent is a ``Decimal``; ``NaN`` and ``Infinity`` are numbers.
    """
    if not value:
        return None
    try:
        found = _exact.whole(value)
    except _BROKEN:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        try:
            found, _ = _exact.first(text.lstrip(" \t\r\n"))
        except _BROKEN:
            return None  # Spark's parser, too, gives up on a value that is nested too deeply
    return found if isinstance(found, dict) else None


class TimedSource(Protocol):
    """What a contract or a chain says of a topic, and of its event time; ``decode`` names a function that reads it."""

    @property
    def topic(self) -> str:
        """The logical topic."""

    @property
    def time_field(self) -> Field:
        """Where the event time is."""

    @property
    def time_format(self) -> str:
        """How it is written."""

    @property
    def decode(self) -> str | None:
        """The function that reads its records."""


def why_unreadable(value: bytes | str | None, source: TimedSource) -> str:
    """Why a value is no event of this source: a clause for a message; at most 80 characters of a value."""
    fields = decode_object(value)
    if fields is None and source.decode is not None and isinstance(value, str):
        return value  # the function's own reason
    if fields is None:
        try:
            msgspec.json.decode(value or b"")
        except _BROKEN:
            return f"it is not JSON: {_beginning(value)}"
        return f"it is not a JSON object: {_beginning(value)}"
    time = source.time_field.column or source.time_field.name
    if path_reader(source.time_field.path, lambda raw: raw)(fields) is None:
        return f"it has no field {time!r}: {_beginning(value)}"
    form = "timestamp" if source.time_format == ISO else f"time of the form {source.time_format!r}"
    return f"its field {time!r} is no {form}: {_beginning(value)}"


def _beginning(value: bytes | str | None) -> str:
    """The beginning of a record's value, for a message."""
    if value is None:
        return "no value"
    text = repr(value[:SHOWN].decode("utf-8", "replace") if isinstance(value, bytes) else value[:SHOWN])
    return text + (" …" if len(value) > SHOWN else "")


@functools.cache
def _event_reader(side: Side) -> Callable[[bytes | str | None], Event | None]:
    read_time = time_reader(side.time_field, side.time_format, side.time_zone)
    identity = side.field(side.id)
    read_id = value_reader(identity)
    keys = [(value_reader(field), field.made) for field in map(side.field, side.keys)]

    def read(value: bytes | str | None) -> Event | None:
        fields = decode_object(value)
        time_us = None if fields is None else read_time(fields)
        if fields is None or time_us is None:
            return None
        name = key_text(read_id(fields), identity.made)
        return Event(name, tuple([key_text(of(fields), kind) for of, kind in keys]), time_us)

    return read


def time_reader(field: Field, form: str, zone: str) -> Callable[[dict[str, Any]], int | None]:
    """A function that gives the event time of a decoded object, in microseconds since the epoch."""
    if form == ISO:
        default = zone_of(zone)
        return path_reader(field.path, lambda value: read_time_us(value, default))
    read = value_reader(field)
    if form in NS_PER_UNIT:
        return lambda fields: None if (number := read(fields)) is None else epoch_us(number, form)
    by_pattern = pattern_reader(form, zone)
    return lambda fields: None if (text := read(fields)) is None else by_pattern(text)


def field_reader(names: Sequence[str]) -> Callable[[bytes | str | None], tuple[Any, ...] | None]:
    """A function that returns these fields (two or more) of a JSON object; ``None`` if the value is not an object."""
    struct, attributes = field_struct(names)
    decode = msgspec.json.Decoder(struct).decode
    pick = operator.attrgetter(*attributes)

    def read(value: bytes | str | None) -> tuple[Any, ...] | None:
        if not value:
            return None
        try:
            found: tuple[Any, ...] = pick(decode(value))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # Spark's parser, too, gives up on a value that is nested too deeply
        return found

    return read


def field_struct(names: Sequence[str]) -> tuple[type[msgspec.Struct], list[str]]:
    """A struct that decodes only these fields of a JSON object, and the attribute for each name."""
    attributes = {name: f"field_{index}" for index, name in enumerate(dict.fromkeys(names))}
    struct = msgspec.defstruct(
        "Fields",
        [(attribute, Any, None) for attribute in attributes.values()],
        rename={attribute: name for name, attribute in attributes.items()},
        gc=False,
    )
    return struct, [attributes[name] for name in names]


def read_time_us(value: object, zone: tzinfo = UTC) -> int | None:
    """A JSON value as Spark reads it for a TIMESTAMP, in microseconds since the epoch; ``None`` for NULL.

    ``zone`` is that of a time without an offset.
    """
    if type(value) is int:
        # A JSON number is in seconds, one with a fraction is NULL. Spark multiplies as Java does, and wraps what is too
        # large (``JacksonParser.makeConverter``); what is no LONG is NULL.
        return (value * 1_000_000 + _HALF) % (2 * _HALF) - _HALF if value in LONG else None
    if type(value) is not str:
        return None
    try:
        if is_canonical(value):
            return (datetime.fromisoformat(value) - EPOCH) // _MICROSECOND
        return _read_leniently(value, zone)
    except (ValueError, OverflowError):
        return None


def _read_leniently(text: str, default: tzinfo) -> int | None:
    """As ``SparkDateTimeUtils.parseTimestampString``: parts may have one digit, and trailing parts may be missing."""
    found = _LENIENT(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    year, month, day, hour, minute, second = [
        int(part) if part else least for part, least in zip(parts, (1, 1, 1, 0, 0, 0), strict=True)
    ]
    microsecond = int(((fraction or "") + "000000")[:6])
    moment = datetime(year, month, day, hour, minute, second, microsecond, zone_of(zone) if zone else default)
    return (moment - EPOCH) // _MICROSECOND


def write_time(time_us: int) -> str:
    """The inverse of :func:`read_time_us`: ISO-8601 with milliseconds, or microseconds if necessary.

    A time that is not in the years 1 to 9999 is written as ``N us``.
    """
    try:
        moment = EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us} us"
    spec = "milliseconds" if time_us % 1000 == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=spec) + "Z"
