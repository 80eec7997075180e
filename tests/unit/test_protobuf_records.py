"""Records in Protobuf: which value each kind of field is, messages of what was decoded, and heads with an index."""

from __future__ import annotations

import base64
import json
import struct
import sys
from datetime import UTC, datetime

import pytest
from google.protobuf import descriptor_pb2

from pipelines.codec import _text, as_like
from tests.support.protobuf_messages import PROTO, file_descriptor, message_class
from tidemark.errors import UsageError
from tidemark.formats import protobuf_records
from tidemark.formats.contract import Side
from tidemark.formats.events import read_event
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.protobuf_records import protobuf_pair
from tidemark.formats.record_fields import Field

FILE = file_descriptor()
EVENT = message_class(FILE, "Event")
LINE = message_class(FILE, "Payment.Line")
NOON = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
UNSET = {
    "id": "", "key": None, "who": None, "at": None, "big": 0, "price": 0.0, "ratio": 0.0, "paid": False, "raw": b"",
    "state": "NEW", "many": [], "counts": {}, "friends": {}, "note": None, "number": None, "card": None, "cash": None,
    "times": [],
}  # fmt: skip
SET = {
    "id": "é", "key": 0, "who": {"name": "ann", "tags": ["a", ""]}, "at": NOON, "big": -(2**63), "price": -0.0,
    "ratio": 0.5, "paid": True, "raw": b"\xff\x00", "state": "LOST", "many": [-1, 2**31 - 1],
    "counts": {"": 1, "x": 2**63 - 1}, "friends": {"true": {"name": "bob", "tags": []}}, "note": "", "number": 2**62,
    "card": None, "cash": 2**64 - 1, "times": [NOON, NOON],
}  # fmt: skip


def written() -> bytes:
    """The message of ``SET``, set field by field."""
    made = EVENT(
        id="é",
        key=0,
        big=-(2**63),
        price=-0.0,
        ratio=0.5,
        paid=True,
        raw=b"\xff\x00",
        state=7,
        cash=2**64 - 1,
    )
    made.who.name = "ann"
    made.who.tags.extend(("a", ""))
    for time in (made.at, made.times.add(), made.times.add()):
        time.seconds, time.nanos = 1_767_268_800, 123_456_789
    made.many.extend((-1, 2**31 - 1))
    made.counts[""], made.counts["x"] = 1, 2**63 - 1
    made.friends[True].name = "bob"
    made.note.SetInParent()
    made.number.value = 2**62
    return made.SerializeToString()


def record(value: bytes | None) -> KafkaRecord:
    return KafkaRecord("events", value, key=b"k", headers=(("h", b"1"),))


def test_each_kind_of_field_is_read_with_its_type():
    decode, _ = protobuf_pair(EVENT)

    assert decode(record(written())) == SET
    assert decode(record(b"")) == UNSET
    assert decode(record(None)) is None
    assert decode(record(EVENT(state=5).SerializeToString()))["state"] == 5


def test_a_record_is_read_by_the_names_of_the_contract():
    decode, _ = protobuf_pair(EVENT)
    fields = (Field("big", type="bigint"), Field("tag", "who.tags[0]"), Field("x", "counts.x", "bigint"))
    side = Side("events", "id", ("tag", "big"), "at", 0, fields=fields, decode="decode", encode="encode")

    found = _text("decode", decode, record(written()))

    assert read_event(found, side) == ("é", ("a", str(-(2**63))), 1_767_268_800_123_456)
    assert json.loads(found)["raw"] == "/wA="


def test_what_was_decoded_is_encoded_as_it_was_but_for_nanoseconds():
    decode, encode = protobuf_pair(EVENT)
    for value in (written(), b"", EVENT(state=5).SerializeToString()):
        given = record(value)
        said = decode(given)

        event = as_like(json.loads(_text("decode", decode, given)), said)

        assert event == said
        made = encode(event, given)
        assert decode(made) == said
        assert made._replace(value=value) == given
    assert EVENT.FromString(encode(SET, None)).at.nanos == 123_456_000


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800, 2**62])
def test_a_time_beyond_the_years_that_there_are_is_null(seconds):
    made = EVENT()
    made.at.seconds = seconds
    assert protobuf_pair(EVENT)[0](record(made.SerializeToString()))["at"] is None


def test_a_field_that_the_class_does_not_have_is_skipped():
    assert protobuf_pair(LINE)[0](record(b"\x08\x07\x92\x01\x01a")) == {"cents": 7}


@pytest.mark.parametrize(
    "value", [written()[:-1], written() + b"\xff", b"\x0a\x02\xff\xfe", b"\x0a\x09a", b"{}"]
)
def test_what_cannot_be_parsed_says_why(value):
    assert "raised ValueError: it is no Event" in _text("decode", protobuf_pair(EVENT)[0], record(value))


def test_a_message_without_a_required_field_is_unreadable():
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    file.message_type.add(name="Old").field.add(name="id", number=1, type=9, label=2)
    old = message_class(file, "Old")
    decode, _ = protobuf_pair(old)
    assert decode(record(old(id="a").SerializeToString())) == {"id": "a"}
    assert "it lacks id" in _text("decode", decode, record(b""))


def test_what_is_no_message_class_is_refused():
    for wrong in (EVENT(), dict, "Event", None):
        with pytest.raises(UsageError, match="is no message class"):
            protobuf_pair(wrong)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(UsageError, match="need the package protobuf") as error:
        protobuf_pair(EVENT)
    assert "pip install protobuf" in error.value.hint


class Registry:
    """What a registry knows: the file as text under 3, as a descriptor under 4."""

    schemas = {3: PROTO, 4: base64.b64encode(FILE.SerializeToString()).decode()}  # noqa: RUF012

    def __init__(self, *_: object) -> None:
        pass

    def saw(self, record: KafkaRecord) -> None:
        pass

    def schema(self, number: int):
        from confluent_kafka.schema_registry import Schema

        if number not in self.schemas:
            raise ValueError(f"its schema has the number {number}, which the registry does not know")
        return Schema(self.schemas[number], "PROTOBUF")

    def latest(self) -> int:
        return 4


def head(number: int, index: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + index


@pytest.fixture
def known(monkeypatch):
    """Schemas without a registry: tests/e2e/test_schema_registry.py asks a real one."""
    monkeypatch.setattr(protobuf_records, "RegistrySchemas", Registry)


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize(
    ("name", "index"),
    [("Event", b"\x00"), ("Event", b"\x02\x00"), ("Event.Who", b"\x04\x00\x00"), ("Payment", b"\x02\x02"),
     ("Payment.Line", b"\x04\x02\x00")],
)  # fmt: skip
def test_the_head_names_a_message_of_the_schema(number, name, index, known):
    decode, encode = protobuf_pair(message_class(FILE, name), registry=True)
    given = record(head(number, index))

    said = decode(given)

    assert said is not None
    assert encode(said, given).value[:5] == head(number, b"")
    assert encode(said, given).value[5 : 5 + len(index)] == index
    assert decode(record(encode(said, None))) == said
    assert encode(said, None)[:5] == head(4, b"")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it begins with b''"),
        (b"\x01" + head(3, b"\x00")[1:], "it begins with"),
        (head(9, b"\x00"), "the number 9, which the registry does not know"),
        (head(3, b""), "its message index does not end"),
        (head(3, b"\x80"), "its message index does not end"),
        (head(3, b"\x80" * 11), "its message index does not end"),
        (head(3, b"\x01"), "its message index has -1 numbers"),
        (head(3, b"\xfe\x01"), "its message index has 127 numbers"),
        (head(3, b"\x02\x02"), "has Payment, not Event, at index [1]"),
        (head(3, b"\x02\x06"), "has no message at index [3]"),
        (head(4, b"\x02\x03"), "has no message at index [-2]"),
        (head(3, b"\x00") + b"\x0a\x09a", "it is no Event"),
    ],
)
def test_a_record_of_another_head_says_why(value, why, known):
    decode, _ = protobuf_pair(EVENT, registry=True)
    assert why in _text("decode", decode, record(value))
