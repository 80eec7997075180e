"""Records in Avro: read by the contract's names, written like the records of their topic, in both formats."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from uuid import UUID

import fastavro
import pytest

from pipelines.codec import _text, as_like
from tidemark.errors import UsageError
from tidemark.formats.avro_records import avro_pair
from tidemark.formats.contract import Side
from tidemark.formats.events import read_event
from tidemark.formats.kafka_record import KafkaRecord

FIELDS = [
    {"name": "id", "type": "string"},
    {
        "name": "who",
        "type": {"type": "record", "name": "Who", "fields": [{"name": "id", "type": ["null", "long"]}]},
    },
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "raw", "type": "bytes"},
    {"name": "many", "type": {"type": "array", "items": "double"}},
]
SCHEMA = {"type": "record", "name": "Event", "fields": FIELDS}
NEWER = {
    "type": "record",
    "name": "Event",
    "fields": [*FIELDS, {"name": "note", "type": "string", "default": "none"}],
}
EVENT = {
    "id": "e1", "who": {"id": 7}, "at": datetime(2026, 1, 1, 12, 0, 0, 123456, UTC), "day": date(2026, 1, 2),
    "amount": Decimal("12.50"), "ref": UUID(int=5), "raw": b"\xff\x00", "many": [1.5, -0.0],
}  # fmt: skip


def written(schema: dict, event: dict, head: bytes = b"") -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return head + out.getvalue()


def head(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def record(value: bytes | None) -> KafkaRecord:
    return KafkaRecord("events", value, key=b"k", headers=(("h", b"1"),))


def test_a_record_is_read_by_the_names_of_the_contract():
    decode, _ = avro_pair(SCHEMA)
    side = Side("events", "id", ("who.id", "day"), "at", 0, decode="decode", encode="encode")

    found = _text("decode", decode, record(written(SCHEMA, EVENT)))

    assert read_event(found, side) == ("e1", ("7", "2026-01-02"), 1_767_268_800_123_456)
    assert json.loads(found)["amount"] == "12.50"
    assert json.loads(found)["raw"] == "/wA="


@pytest.mark.parametrize("number", [None, 3])
def test_what_was_decoded_is_encoded_as_it_was(number):
    start = b"" if number is None else head(number)
    decode, encode = avro_pair(SCHEMA, schemas=None if number is None else {3: SCHEMA, 4: NEWER})
    given = record(written(SCHEMA, EVENT, start))
    said = decode(given)

    event = as_like(json.loads(_text("decode", decode, given)), said)

    assert event == said == EVENT
    assert encode(event, given) == given


def test_a_record_of_an_older_schema_is_read_as_the_newer_one_says():
    decode, encode = avro_pair(NEWER, schemas={1: SCHEMA, 2: NEWER})

    older = record(written(SCHEMA, EVENT, head(1)))

    assert decode(older) == EVENT | {"note": "none"}
    assert decode(encode(decode(older), older)) == decode(older)
    assert encode(decode(older), None)[:5] == head(2)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it begins with b''"),
        (b"\x01abcd", "it begins with b'"),
        (head(9), "its schema has the number 9; known are 1"),
        (head(1), "raised EOFError"),
        (written(SCHEMA, EVENT, head(1)) + b"x", "1 bytes are behind the record"),
    ],
)
def test_what_is_no_record_of_the_schema_says_why(value, why):
    decode, _ = avro_pair(SCHEMA, schemas={1: SCHEMA})

    assert why in _text("decode", decode, record(value))
    assert _text("decode", decode, record(None)) == "decode returned None"


def test_a_schema_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "broken.avsc").write_text("{")

    for schema in (tmp_path / "none.avsc", tmp_path / "broken.avsc", {"type": "other"}):
        with pytest.raises(UsageError, match="cannot be read"):
            avro_pair(schema)
