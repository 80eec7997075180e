"""How a record's value becomes an event, exactly as the pipelines' ``from_json`` reads it.

Free of Spark and of I/O. A value is a JSON object. The event time is an ISO-8601 string with at most six digits of
fraction and an offset (``2026-01-01T00:00:00.123Z``); without an offset it is UTC, the session's time zone. A
value that is not a JSON object, or whose time is missing, null or no timestamp, is *unreadable*: the pipelines
filter it out below the watermark, so it neither moves the watermark nor counts as late. A missing or null key
field stays an event: a left outer join owes it a NULL row.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tidemark.contract import Side

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Event(NamedTuple):
    """A readable record: ``id`` (``None`` if it has none), ``key`` (a part is ``None`` if missing), ``time_us``."""

    id: str | None
    key: tuple[str | None, ...]
    time_us: int


def read_event(value: bytes | str | None, side: Side) -> Event | None:
    """The event in a record's value, or ``None`` if it is unreadable for this side."""
    return _event_reader(side)(value)


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
    """A function that gives two or more fields of a JSON object (``None`` where missing), or ``None`` if it is none."""
    struct, attributes = field_struct(names)
    decode = msgspec.json.Decoder(struct).decode
    pick = operator.attrgetter(*attributes)

    def read(value: bytes | str | None) -> tuple[Any, ...] | None:
        if not value:
            return None
        try:
            found: tuple[Any, ...] = pick(decode(value))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found

    return read


def field_struct(names: Sequence[str]) -> tuple[type[msgspec.Struct], list[str]]:
    """A struct that takes just these fields of a JSON object, and its attribute for each name."""
    attributes = {name: f"field_{index}" for index, name in enumerate(dict.fromkeys(names))}
    struct = msgspec.defstruct(
        "Fields",
        [(attribute, Any, None) for attribute in attributes.values()],
        rename={attribute: name for name, attribute in attributes.items()},
        gc=False,
    )
    return struct, [attributes[name] for name in names]


def read_time_us(text: object) -> int | None:
    """Microseconds since the epoch of an ISO-8601 string, or ``None`` if it is no such string."""
    if type(text) is not str:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MICROSECOND


def write_time(time_us: int) -> str:
    """The reverse of :func:`read_time_us`, with milliseconds, or microseconds where they are needed."""
    moment = EPOCH + timedelta(microseconds=time_us)
    spec = "milliseconds" if time_us % 1000 == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=spec) + "Z"


def as_text(value: Any) -> str | None:
    """A JSON value as ``from_json`` gives it for a STRING column."""
    if value is None or type(value) is str:
        return value
    return msgspec.json.encode(value).decode()
