"""Logical types of Avro as Spark's ``from_avro`` reads them, for ``fastavro``: under names of their own.

A decimal with more digits than its type makes the record unreadable, as in Spark; ``fastavro`` rounds it. So do
milliseconds that are too many microseconds. A time or a date that is not in the years 1 to 9999, which Python has not,
is NULL; it is an error in ``fastavro``. Elsewhere in the process ``fastavro`` reads as ever: only schemas that
:func:`with_own_types` has renamed are read this way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

from tidemark.formats.field_types import LONG

_OWN = "tidemark-"
_TIMES = (
    "long-timestamp-millis", "long-timestamp-micros",
    "long-local-timestamp-millis", "long-local-timestamp-micros", "int-date",
)  # fmt: skip
_DECIMALS = ("bytes-decimal", "fixed-decimal")
_LOGICAL = "logicalType"


def with_own_types(schema: Any) -> Any:
    """A schema, not parsed yet, with other names for the logical types that are read here."""
    _register()
    return _renamed(schema)


def _renamed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_renamed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _renamed(one) if name in ("type", "items", "values", "fields") else one
             for name, one in schema.items()}  # fmt: skip
    if f"{schema.get('type')}-{schema.get(_LOGICAL)}" in (*_TIMES, *_DECIMALS):
        found[_LOGICAL] = _OWN + schema[_LOGICAL]
    return found


@functools.cache
def _register() -> None:
    """Tell ``fastavro`` of the types, as it offers for logical types of one's own."""
    from fastavro.read import LOGICAL_READERS
    from fastavro.write import LOGICAL_WRITERS

    for name in (*_TIMES, *_DECIMALS):
        kind, _, logical = name.partition("-")
        own = f"{kind}-{_OWN}{logical}"
        plain: Any = LOGICAL_READERS[name]
        found: Any = _decimal if name in _DECIMALS else _time_of(plain, in_ms=logical.endswith("-millis"))
        LOGICAL_READERS[own] = found
        LOGICAL_WRITERS[own] = LOGICAL_WRITERS[name]


def _decimal(data: bytes, writer: Mapping[str, Any], _reader: object = None) -> Decimal:
    """The decimal of an unscaled number; raises ``ValueError`` if it has more digits than its type."""
    unscaled, precision = int.from_bytes(data, "big", signed=True), int(writer["precision"])
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"a decimal of {precision} digits has the unscaled value {unscaled}")
    return Decimal(unscaled).scaleb(-int(writer.get("scale", 0)), Context(prec=precision))


def _time_of(read: Callable[..., Any], *, in_ms: bool) -> Callable[..., Any]:
    def time(data: int, writer: Mapping[str, Any], reader: object = None) -> Any:
        if in_ms and data * 1000 not in LONG:
            raise ValueError(f"{data} ms are more microseconds than Spark holds")
        try:
            return read(data, writer, reader)
        except (OverflowError, ValueError):
            return None

    return time
