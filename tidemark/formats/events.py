"""Parses a record's value into an event, exactly as the pipelines' ``from_json`` does.

Free of Spark and of I/O. A value is a JSON object. The event time is an ISO-8601 string (``2026-01-01T00:00:00.123Z``)
or another form that Spark reads as a TIMESTAMP. A time without an offset is in UTC, the session's time zone; a
fraction is truncated after six digits. A value is *unreadable* if it is not a JSON object, or its time is missing,
null or not a timestamp: the pipelines filter it out below the watermark, so it neither moves the watermark nor counts
as late. A value with a missing or null key is still an event: a left outer join owes it a NULL row.

Years are 0001 to 9999. A time without a date, which Spark completes with the current day, is unreadable here, because
its meaning would change every day.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tidemark.formats.contract import Side
from tidemark.formats.field_types import LONG

SHOWN = 80
"""So many characters of a value are in a message."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HALF = 1 << 63
_MICROSECOND = timedelta(microseconds=1)

is_canonical = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII).fullmatch
"""Matches the form that ``datetime.fromisoformat`` parses as Spark does, in a tenth of the time."""

_LENIENT = re.compile(
    r"\s*(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[T ](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d*))?(?:\s?([A-Z+-].*?))?)?)?)?)?)?\s*",
    re.ASCII,
).fullmatch
_OFFSET = re.compile(r"(?:Z|(?:UTC|GMT|UT)?(?:([+-])(\d\d?)(?::?(\d\d)(?::?(\d\d))?)?)?)", re.ASCII).fullmatch
_WIDEST_OFFSET = timedelta(hours=18)


class Event(NamedTuple):
    """A readable record: ``id``, ``key`` (one value per key field), ``time_us``; what is missing is ``None``."""

    id: str | None
    key: tuple[str | None, ...]
    time_us: int


def read_event(value: bytes | str | None, side: Side) -> Event | None:
    """The event in a record's value, or ``None`` if it is unreadable for this side."""
    return _event_reader(side)(value)


def why_unreadable(value: bytes | str | None, time: str) -> str:
    """Why a value is no event with this event time field: a clause for a message; at most 80 characters of a value."""
    try:
        fields = msgspec.json.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"it is not JSON: {_beginning(value)}"
    if not isinstance(fields, dict):
        return f"it is not a JSON object: {_beginning(value)}"
    if time not in fields:
        return f"it has no field {time!r}: {_beginning(value)}"
    return f"its field {time!r} is no timestamp: {_beginning(value)}"


def _beginning(value: bytes | str | None) -> str:
    """The beginning of a record's value, for a message."""
    if value is None:
        return "no value"
    text = repr(value[:SHOWN].decode("utf-8", "replace") if isinstance(value, bytes) else value[:SHOWN])
    return text + (" …" if len(value) > SHOWN else "")


@functools.cache
def _event_reader(side: Side) -> Callable[[bytes | str | None], Event | None]:
    read_fields = field_reader((side.time, side.id, *side.keys))

    def read(value: bytes | str | None) -> Event | None:
        fields = read_fields(value)
        time_us = None if fields is None else read_time_us(fields[0])
        if fields is None or time_us is None:
            return None
        name, *key = [as_text(field) for field in fields[1:]]
        return Event(name, tuple(key), time_us)

    return read


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


def read_time_us(value: object) -> int | None:
    """A JSON value as Spark reads it for a TIMESTAMP, in microseconds since the epoch; ``None`` for NULL."""
    if type(value) is int:
        # A JSON number is in seconds, one with a fraction is NULL. Spark multiplies as Java does, and wraps what is too
        # large (``JacksonParser.makeConverter``); what is no LONG is NULL.
        return (value * 1_000_000 + _HALF) % (2 * _HALF) - _HALF if value in LONG else None
    if type(value) is not str:
        return None
    try:
        if is_canonical(value):
            return (datetime.fromisoformat(value) - EPOCH) // _MICROSECOND
        return _read_leniently(value)
    except (ValueError, OverflowError):
        return None


def _read_leniently(text: str) -> int | None:
    """As ``SparkDateTimeUtils.parseTimestampString``: parts may have one digit, and trailing parts may be missing."""
    found = _LENIENT(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    year, month, day, hour, minute, second = [
        int(part) if part else least for part, least in zip(parts, (1, 1, 1, 0, 0, 0), strict=True)
    ]
    microsecond = int(((fraction or "") + "000000")[:6])
    moment = datetime(year, month, day, hour, minute, second, microsecond, _zone(zone or "Z"))
    return (moment - EPOCH) // _MICROSECOND


def _zone(name: str) -> tzinfo:
    """The time zone of this name in Java's ``ZoneId``; raises ``ValueError`` if there is none."""
    found = _OFFSET(name)
    if found is None:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError) as error:
            raise ValueError(name) from error
    sign, *numbers = found.groups()
    hours, minutes, seconds = [int(number or 0) for number in numbers]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > _WIDEST_OFFSET:
        raise ValueError(name)
    return timezone(-offset if sign == "-" else offset)


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


def as_text(value: Any) -> str | None:
    """A JSON value as ``from_json`` returns it for a STRING column."""
    if value is None or type(value) is str:
        return value
    return msgspec.json.encode(value).decode()
