"""Events in Avro, a part of them broken: what ``avro_pair`` and Spark's ``from_avro`` are compared on."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro

from tests.spark.field_records import PATTERNS

PATTERN = "dd/MM/yyyy HH:mm:ss"
TIMES: dict[str, object] = {
    "timestamp-millis": {"type": "long", "logicalType": "timestamp-millis"},
    "timestamp-micros": {"type": "long", "logicalType": "timestamp-micros"},
    "epoch-s": "long",
    "epoch-ms": "long",
    "epoch-us": "long",
    "epoch-ns": "long",
    "iso": "string",
    PATTERN: "string",
}
"""Form of the time -> its type in the schema; the first two are times of Avro."""
LONGS = (0, -1, 1, 1_767_225_600, 1_767_225_600_123, 1_767_225_600_123_456, -62_135_596_800_000, 253_402_300_799_999,
         253_402_300_800_000, 2**63 - 1, -(2**63), -(2**53) - 1)  # fmt: skip
TEXTS = ("", "a", "é€😀", "NULL", " x ", "1.50", '"q"', "\u0000", "a" * 200)
DOUBLES = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -1e-5, 1e22, 1e-320, 0.1, 123456789.125)
ISO = (
    "2026-01-01T00:00:00.123Z",
    "2026-01-01 00:00:00",
    "2026-07-01T02:00:00+02:00",
    "2026-1-1",
    "soon",
    "",
    "2026-02-30",
)
UNSCALED = (0, 1, -1, 50, 1250, 999_999_999_999, -999_999_999_999, 123_456)
TOO_LARGE = (10**12, -(10**12), 10**30)
SYMBOLS = ("NEW", "PAID", "LOST")
NULLABLE = "null"


def schema(form: str, *, newer: bool = False) -> dict[str, Any]:
    """The schema of events; that of newer writers has a field more, and numbers that are narrower."""
    number = "int" if newer else "long"
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    fixed = {
        "type": "fixed",
        "name": "Fixed",
        "size": 8,
        "logicalType": "decimal",
        "precision": 18,
        "scale": 4,
    }
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}}
    who = {"type": "record", "name": "Who", "fields": [{"name": "key", "type": [NULLABLE, number]}, tags]}
    fields = [
        {"name": "id", "type": "string"},
        {"name": "who", "type": [NULLABLE, who]},
        {"name": "at", "type": [NULLABLE, TIMES[form]]},
        {"name": "amount", "type": [NULLABLE, amount]},
        {"name": "fixed", "type": fixed},
        {"name": "price", "type": "double"},
        {"name": "ratio", "type": "float" if newer else "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": [*SYMBOLS]}},
        {"name": "raw", "type": "bytes"},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ]  # fmt: skip
    if newer:
        fields.append({"name": "extra", "type": "string"})
    else:
        fields.append({"name": "note", "type": "string", "default": "none"})
    return {"type": "record", "name": "Event", "fields": fields}


def without_logical(found: Any) -> Any:
    """A schema whose values are written as numbers and bytes, so that any can be written."""
    if isinstance(found, list):
        return [without_logical(one) for one in found]
    if not isinstance(found, dict):
        return found
    if found.get("type") == "enum":
        return "int"
    left_out = ("logicalType", "precision", "scale")
    return {name: without_logical(one) for name, one in found.items() if name not in left_out}


def place(symbol: str | int) -> int:
    """The number by which an enum has a symbol."""
    return SYMBOLS.index(symbol) if isinstance(symbol, str) else symbol


def unscaled(rng: random.Random) -> int:
    return rng.choice(UNSCALED) if rng.random() < 0.97 else rng.choice(TOO_LARGE)


def as_bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def a_time(rng: random.Random, form: str) -> Any:
    if rng.random() < 0.03:
        return None
    if TIMES[form] == "string":
        return rng.choice(ISO if form == "iso" else PATTERNS[form])
    return rng.choice(LONGS) if rng.random() < 0.5 else rng.randrange(1_700_000_000_000, 1_800_000_000_000)


def event(rng: random.Random, form: str, *, newer: bool) -> dict[str, Any]:
    """An event, by the names of a schema without logical types."""
    narrow = rng.choice((0, 7, -5, 2**31 - 1, -(2**31)))
    return {
        "id": rng.choice(TEXTS),
        "who": None if rng.random() < 0.05 else {
            "key": rng.choice((None, narrow if newer else rng.choice(LONGS))),
            "tags": [rng.choice(TEXTS) for _ in range(rng.randrange(3))],
        },
        "at": a_time(rng, form),
        "amount": None if rng.random() < 0.1 else as_bytes(unscaled(rng)),
        "fixed": rng.choice((0, 1, -1, 12345, 10**18 - 1, 10**18, 2**63 - 1)).to_bytes(8, "big", signed=True),
        "price": rng.choice(DOUBLES),
        "ratio": rng.choice((0.5, -0.0, 0.1, float("nan"))),
        "paid": rng.random() < 0.5,
        "day": rng.choice((0, -1, 20_454, -719_162, 2_932_896)),
        "state": rng.choice(SYMBOLS),
        "raw": rng.choice((b"", b"\xff\x00", b"abc")),
        "counts": {rng.choice(TEXTS): rng.choice(LONGS) for _ in range(rng.randrange(3))},
        "extra": "x",
        "note": rng.choice(TEXTS),
    }  # fmt: skip


def head(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def _cut(rng: random.Random, value: bytes) -> bytes:
    return value[: rng.randrange(len(value))]


BROKEN: dict[str, Callable[[random.Random, bytes], bytes | None]] = {
    "truncated": _cut,
    "magic": lambda _rng, value: b"\x01" + value[1:],
    "unknown id": lambda _rng, value: head(9) + value[5:],
    "branch": lambda _rng, value: value[:5] + b"\x00\x12" + value[5:],
    "symbol": lambda _rng, value: value,
    "trailing": lambda _rng, value: value + b"\x00\x01",
    "utf-8": lambda _rng, value: (
        value[:5] + b"\x04\xff\xfe" + value[6:] if value[5] == 0 else value[:5] + b"\x04\xc3\x28"
    ),
    "no value": lambda _rng, _value: None,
    "empty": lambda _rng, _value: b"",
}
"""Kind -> what it makes of a record with its head; ``branch`` is of a union, ``symbol`` of an enum, that there is not.

None makes up a length: ``from_avro`` asks for as much memory as a broken one says, which may end an executor.
"""


def records(form: str, count: int) -> list[tuple[str, bytes | None]]:
    """The kind of each record (empty: it is whole), and its value; one in eight is broken."""
    rng = random.Random(f"avro {form}")
    writers = {1: schema(form), 2: schema(form, newer=True)}
    plain = {number: fastavro.parse_schema(without_logical(one)) for number, one in writers.items()}
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        number = rng.choice((1, 2))
        kind = rng.choice(list(BROKEN)) if rng.random() < 0.125 else ""
        given = event(rng, form, newer=number == 2)
        if kind == "symbol":
            given["state"] = len(SYMBOLS)
        out = BytesIO()
        fastavro.schemaless_writer(out, plain[number], given | {"state": place(given["state"])})
        value = head(number) + out.getvalue()
        found.append((kind, BROKEN[kind](rng, value) if kind else value))
    return found
