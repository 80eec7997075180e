"""Pairs of functions read records as Spark does: thousands in each format, broken ones among them."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

import pytest

from pipelines.codec import _text
from tests.spark import avro_events
from tidemark.formats.avro_records import avro_pair
from tidemark.formats.contract import Side
from tidemark.formats.events import decode_object, time_reader
from tidemark.formats.field_values import value_reader, value_text
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.record_fields import Field
from tidemark.formats.time_forms import FIRST_US, LAST_US

RECORDS = [pytest.param(2_000, id="2000"), pytest.param(10_000, id="10000", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def avro_session(stack):
    """A session on a driver that has spark-avro."""
    from pyspark.sql import SparkSession

    from tidemark.runner.own_driver import own_driver
    from tidemark.runner.pipeline_code import PipelineCode

    if stack.spec.backend != "local":
        pytest.skip("the comparison is the same on each backend")
    code = PipelineCode("", packages=("org.apache.spark:spark-avro_2.13:4.2.0",))
    with own_driver(stack, f"avro-{uuid.uuid4().hex[:6]}", code) as driver:
        session = SparkSession.builder.remote(driver.remote).create()
        try:
            yield session
        finally:
            session.stop()


MADE = {
    "timestamp-millis": "at", "timestamp-micros": "at",
    "epoch-s": "timestamp_seconds({})", "epoch-ms": "timestamp_millis({})", "epoch-us": "timestamp_micros({})",
    "epoch-ns": "timestamp_micros(floor({} / 1000D))",
    "iso": "try_cast(at AS TIMESTAMP)", avro_events.PATTERN: f"try_to_timestamp(at, '{avro_events.PATTERN}')",
}  # fmt: skip
UNITS = {"epoch-s": 1_000_000, "epoch-ms": 1_000, "epoch-us": 1}


def micros(form: str) -> str:
    """SQL of the event time in microseconds; numbers that are no time of the years 0001 to 9999 are NULL."""
    if form in UNITS:
        unit = UNITS[form]
        return f"IF(at BETWEEN {-(-FIRST_US // unit)} AND {LAST_US // unit}, at * {unit}L, NULL)"
    if form == "epoch-ns":
        return "IF(at < 0 AND at % 1000 != 0, at DIV 1000 - 1, at DIV 1000)"
    return f"unix_micros({MADE[form]})"


def difference(what: str, ours: object, sparks: object) -> str:
    """What a difference is called where it is known (docs/howto/read-my-records.md names them); else empty."""
    if "bytes are behind the record" in str(ours) and sparks == "read":
        return "bytes behind the record"
    return ""


def compare_all(found: list[tuple[str, Any, Any, Any]]) -> Counter[str]:
    """Of kind, what is compared, our reading and Spark's: known differences by name; fails for any other."""
    names: Counter[str] = Counter()
    unknown = []
    for kind, what, ours, sparks in found:
        if ours != sparks:
            name = difference(what, ours, sparks)
            names[name] += 1
            if not name:
                unknown.append((kind, what, ours, sparks))
    kinds = Counter((kind, what.partition(" ")[0], str(ours)[:9]) for kind, what, ours, _ in unknown)
    assert not unknown, (len(unknown), kinds, [str(one)[:200] for one in unknown[:3]])
    return names


FIELDS = {
    "id": Field("id"),
    "key": Field("key", "who.key", "bigint"),
    "tag": Field("tag", "who.tags[0]"),
    "amount": Field("amount", type="decimal(12,2)"),
    "fixed": Field("fixed", type="decimal(18,4)"),
    "price": Field("price", type="double"),
    "ratio": Field("ratio", type="double"),
    "paid": Field("paid", type="boolean"),
    "day": Field("day", type="date"),
    "state": Field("state"),
    "raw": Field("raw"),
    "note": Field("note"),
}
SELECTED = {
    "id": "e.id", "key": "e.who.key", "tag": "get(e.who.tags, 0)", "amount": "e.amount", "fixed": "e.fixed",
    "price": "e.price", "ratio": "e.ratio", "paid": "e.paid", "day": "e.day", "state": "e.state",
    "raw": "base64(e.raw)", "note": "e.note",
}  # fmt: skip


@pytest.mark.parametrize("count", RECORDS)
@pytest.mark.parametrize("form", list(avro_events.TIMES))
def test_avro_is_read_as_from_avro_reads_it(form, count, avro_session):
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr, when

    reader = avro_events.schema(form)
    writers = {1: reader, 2: avro_events.schema(form, newer=True)}
    made = avro_events.records(form, count)
    decode, _ = avro_pair(reader, schemas=writers)

    rows = avro_session.createDataFrame(
        [(at, value) for at, (_, value) in enumerate(made)], "n INT, value BINARY"
    )
    column = None
    for number, writer in writers.items():
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(reader)}
        is_this = expr(f"hex(substring(value, 1, 5)) = '{avro_events.head(number).hex().upper()}'")
        one = from_avro(expr("substring(value, 6)"), json.dumps(writer), options)
        column = when(is_this, one) if column is None else column.when(is_this, one)
    read = rows.select("n", column.alias("e")).select("n", "e", "e.at")
    # Text as bytes: Spark keeps those that are no UTF-8, and Arrow refuses them.
    texts = [f"CAST(CAST({sql} AS STRING) AS BINARY) AS {name}" for name, sql in SELECTED.items()]
    sparks = sorted(read.selectExpr("n", "e.id IS NOT NULL", f"{micros(form)} AS us", *texts).collect())

    side_form = "iso" if form.startswith("timestamp") else form
    side = Side("topic", "id", ("key",), "at", 0, time_format=side_form, fields=tuple(FIELDS.values()))
    names = compare_all(list(readings(decode, side, made, sparks)))
    assert names["bytes behind the record"] > 0
    assert {kind for kind, _ in made} == {"", *avro_events.BROKEN}
    assert sum(bool(kind) for kind, _ in made) > count * 0.05


def readings(decode: Any, side: Side, made: list[tuple[str, bytes | None]], sparks: list[Any]):
    read_time = time_reader(side.time_field, side.time_format, side.time_zone)
    readers = [(field, value_reader(side.field(name))) for name, field in FIELDS.items()]
    for (kind, value), (_, is_read, time_us, *texts) in zip(made, sparks, strict=True):
        said = _text("decode", decode, KafkaRecord("topic", value))
        decoded = decode_object(said)
        if time_us is not None and not FIRST_US <= time_us <= LAST_US:
            yield kind, "time beyond", None if decoded is None else read_time(decoded), None
            continue
        if decoded is None or not is_read:
            if (decoded is None) == is_read:
                ours = "read" if decoded is not None else said
                yield kind, f"record {value!r}", ours, "read" if is_read else "unreadable"
            continue
        yield kind, f"time {decoded.get('at')!r}", read_time(decoded), time_us
        for (field, read), text in zip(readers, texts, strict=True):
            ours = read(decoded)
            made_of = side.field(field.name).made
            shown = None if text is None else bytes(text).decode("utf-8", "replace")
            if made_of.kind == "double":  # Java writes some doubles with more digits than they need
                yield kind, field.name, repr(ours), repr(None if shown is None else float(shown))
            else:
                yield kind, field.name, None if ours is None else value_text(ours, made_of), shown
