"""``protobuf_pair`` reads messages as they were meant, and as a Python UDF of a query reads them with the same class.

The UDF shows the whole path: what Spark has in its columns is what the judge compares. It is no independent oracle of
Protobuf, because the same library parses for both; so each record is compared with what its generator meant to write.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipelines.codec import _text
from tests.support.protobuf_messages import file_descriptor, message_class
from tidemark.formats.contract import Side
from tidemark.formats.events import decode_object, time_reader
from tidemark.formats.field_values import value_reader, value_text
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.protobuf_records import protobuf_pair
from tidemark.formats.record_fields import Field

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = ("", "a", "é€😀", "NULL", " x ", '"q"', "\u0000", "a" * 200)
LONGS = (0, -1, 1, 2**63 - 1, -(2**63), -(2**53) - 1, 1_767_225_600_123_456)
DOUBLES = (0.0, -0.0, float("nan"), float("inf"), 1.5, -1e-5, 1e22, 123456789.125)
SECONDS = (0, -1, 1_767_268_800, -62_135_596_800, 253_402_300_799)
NANOS = (0, 1, 999, 1_000, 123_456_789, 999_999_999)
STATES = {"NEW": 0, "PAID": 1, "LOST": 7}


def meant(rng: random.Random) -> dict[str, Any]:
    """What a record is to say; a time is its seconds and nanoseconds."""
    return {
        "id": rng.choice(TEXTS),
        "key": rng.choice((None, *LONGS)),
        "who": rng.choice(
            (None, {"name": rng.choice(TEXTS), "tags": rng.choices(TEXTS, k=rng.randrange(3))})
        ),
        "at": None if rng.random() < 0.05 else (rng.choice(SECONDS), rng.choice(NANOS)),
        "big": rng.choice(LONGS),
        "price": rng.choice(DOUBLES),
        "paid": rng.random() < 0.5,
        "raw": rng.choice((b"", b"\xff\x00", b"abc")),
        "state": rng.choice(tuple(STATES)),
        "counts": {text: rng.choice(LONGS) for text in sorted({*rng.choices(TEXTS, k=rng.randrange(3))})},
        "note": rng.choice((None, *TEXTS)),
        "card": rng.choice((None, *TEXTS)),
    }


def written(kind: Any, event: dict[str, Any]) -> bytes:
    """The message, set field by field, without the code that is tested."""
    plain = {name: event[name] for name in ("id", "big", "price", "paid", "raw", "counts")}
    made = kind(**plain, state=STATES[event["state"]])
    for name in ("key", "card"):
        if event[name] is not None:
            setattr(made, name, event[name])
    if event["who"] is not None:
        made.who.SetInParent()
        made.who.name = event["who"]["name"]
        made.who.tags.extend(event["who"]["tags"])
    if event["at"] is not None:
        made.at.seconds, made.at.nanos = event["at"]
        made.at.SetInParent()
    if event["note"] is not None:
        made.note.value = event["note"]
        made.note.SetInParent()
    data: bytes = made.SerializeToString()
    return data


BROKEN: dict[str, Callable[[bytes], bytes | None]] = {
    "no value": lambda _value: None,
    "cut": lambda value: value + b"\xa2\x01\x05ab",
    "no tag": lambda value: value + b"\x00",
    "no varint": lambda value: value + b"\x28" + b"\xff" * 11,
    "utf-8": lambda value: value + b"\x0a\x02\xff\xfe",
    "group": lambda value: value + b"\x0b",
    "JSON": lambda _value: b'{"id": "a"}',
}
"""Kind -> what it makes of a message; none of it is one."""


def records(kind: Any, count: int) -> list[tuple[str, bytes | None, dict[str, Any] | None]]:
    """How each record is broken (empty: it is whole), its value, and what it is to say."""
    rng = random.Random("protobuf")
    found: list[tuple[str, bytes | None, dict[str, Any] | None]] = []
    for _ in range(count):
        event = meant(rng)
        value = written(kind, event)
        if rng.random() < 0.125:
            how = rng.choice(tuple(BROKEN))
            found.append((how, BROKEN[how](value), None))
        else:
            newer = b"\xa2\x06\x01x" if rng.random() < 0.1 else b""  # a field that the class does not have
            found.append(("", value + newer, event))
    return found


COLUMNS = {
    "id": Field("id"),
    "key": Field("key", type="bigint"),
    "name": Field("name", "who.name"),
    "tag": Field("tag", "who.tags[0]"),
    "big": Field("big", type="bigint"),
    "price": Field("price", type="double"),
    "paid": Field("paid", type="boolean"),
    "raw": Field("raw"),
    "state": Field("state"),
    "count": Field("count", "counts.a", "bigint"),
    "note": Field("note"),
    "card": Field("card"),
}
SCHEMA = (
    "id STRING, key BIGINT, name STRING, tag STRING, big BIGINT, price DOUBLE, paid BOOLEAN, raw BINARY, state STRING,"
    " count BIGINT, note STRING, card STRING, at TIMESTAMP"
)


def reader(file: bytes) -> Any:
    """A UDF as a query has it: it makes the class of a descriptor, and takes its fields by hand."""
    from pyspark.sql.functions import udf

    made: list[Any] = []

    @udf(SCHEMA)
    def read(value):
        from datetime import UTC, datetime, timedelta

        from google.protobuf import descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
        from google.protobuf.message import DecodeError

        if not made:
            pool = descriptor_pool.DescriptorPool()
            for one in (timestamp_pb2.DESCRIPTOR.serialized_pb, wrappers_pb2.DESCRIPTOR.serialized_pb, file):
                pool.AddSerializedFile(one)
            made.append(message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Event")))
        if value is None:
            return None
        event = made[0]()
        try:
            event.ParseFromString(bytes(value))
        except DecodeError:
            return None
        at = None
        if event.HasField("at"):
            since = timedelta(seconds=event.at.seconds, microseconds=event.at.nanos // 1000)
            at = datetime(1970, 1, 1, tzinfo=UTC) + since
        return (
            event.id,
            event.key if event.HasField("key") else None,
            event.who.name if event.HasField("who") else None,
            event.who.tags[0] if event.who.tags else None,
            event.big,
            event.price,
            event.paid,
            event.raw,
            {0: "NEW", 1: "PAID", 7: "LOST"}[event.state],
            event.counts.get("a"),
            event.note.value if event.HasField("note") else None,
            event.card if event.HasField("card") else None,
            at,
        )

    return read


def said_of(event: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is to be decoded: with times as times, and defaults of what is not written."""
    if event is None:
        return None
    rest = {"ratio": 0.0, "many": [], "friends": {}, "number": None, "cash": None, "times": []}
    at = event["at"] and EPOCH + timedelta(seconds=event["at"][0], microseconds=event["at"][1] // 1000)
    return {**event, **rest, "at": at}


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_messages_are_read_as_they_were_meant_and_as_a_udf_reads_them(count, session):
    file = file_descriptor()
    kind = message_class(file, "Event")
    made = records(kind, count)
    decode, encode = protobuf_pair(kind)

    rows = session.createDataFrame(
        [(at, value) for at, (_, value, _) in enumerate(made)], "n INT, value BINARY"
    )
    read = rows.select("n", reader(file.SerializeToString())("value").alias("e"))
    texts = [f"CAST({'base64(e.raw)' if name == 'raw' else f'e.{name}'} AS STRING)" for name in COLUMNS]
    sparks = sorted(read.selectExpr("n", "e IS NULL", "unix_micros(e.at)", *texts).collect())

    side = Side("topic", "id", ("key",), "at", 0, fields=tuple(COLUMNS.values()))
    read_time = time_reader(side.time_field, side.time_format, side.time_zone)
    readers = [(side.field(name).made, value_reader(side.field(name))) for name in COLUMNS]
    wrong = []
    for (how, value, event), (_, is_null, time, *spark) in zip(made, sparks, strict=True):
        record = KafkaRecord("topic", value)
        decoded = decode_object(text := _text("decode", decode, record))
        if (decoded is None) != is_null or (decoded is None) != bool(how):
            wrong.append((how, value, text, spark))
            continue
        if decoded is None:
            continue
        ours = [None if (one := read(decoded)) is None else value_text(one, of) for of, read in readers]
        if (ours, read_time(decoded)) != (spark, time):
            wrong.append((how, value, ours, spark))
        said = decode(record)
        if repr(sorted(said.items())) != repr(sorted(said_of(event).items())):  # repr: NaN, -0.0
            wrong.append((how, value, said, event))
        if repr(decode(record._replace(value=encode(said, None)))) != repr(said):
            wrong.append((how, value, said, encode(said, None)))

    assert not wrong, (len(wrong), wrong[:3])
    kinds = Counter(how for how, _, _ in made)
    assert set(kinds) == {"", *BROKEN}
    assert kinds[""] < count * 0.9
