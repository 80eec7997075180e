"""The judge reads every field and time of a contract as the pipeline that is made of it: values by the thousand."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pipelines.codec import _text
from tests.spark.field_records import DECIMAL_TIMES, FIELDS, FORMS, record
from tidemark.formats.contract import Side
from tidemark.formats.events import decode_object, read_event, time_reader
from tidemark.formats.field_values import value_reader, value_text
from tidemark.formats.json_schema_records import json_schema_pair
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.record_fields import Field
from tidemark.formats.registry_schemas import HEAD
from tidemark.formats.time_forms import FIRST_US, LAST_US

JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
RECORDS = [2_000, pytest.param(10_000, marks=pytest.mark.long)]


Values = list[str] | list[bytes]


def as_spark_reads(session: Any, side: Side, fields: list[Field], values: Values, text: str) -> list[Any]:
    """For each value the event time in microseconds, and each field as text; ``text`` is SQL of the JSON in a value."""
    from pyspark.sql.functions import col, expr, lit, unix_micros

    from pipelines.side_columns import parsed

    kind = "STRING" if isinstance(values[0], str) else "BINARY"
    rows = session.createDataFrame(list(enumerate(values)), f"offset INT, value {kind}")
    rows = rows.withColumn("value", expr(text)).withColumn("partition", lit(0))
    columns = {f"c{at}": field for at, field in enumerate(fields)}
    found = parsed(rows, side, columns, "time").select(
        "offset", unix_micros("time"), *(col(name).cast("string") for name in columns)
    )
    return sorted(tuple(row) for row in found.collect())


@dataclass(frozen=True)
class Reading:
    """Where the JSON is in a value: SQL of its text for Spark, and what the judge makes of the value."""

    text: str
    decode: Callable[[Any], dict[str, Any] | None]


PLAIN = Reading("value", decode_object)


def differences(
    session: Any, side: Side, fields: list[Field], values: Values, reading: Reading = PLAIN
) -> list[Any]:
    """What Spark and the judge read otherwise: name of the field, both readings, the record.

    Times beyond the years 0001 to 9999 are none for the judge.
    """
    read_time = time_reader(side.time_field, side.time_format, side.time_zone)
    readers = [(field, value_reader(field)) for field in fields]
    found = []
    for value, (_, time_us, *texts) in zip(
        values, as_spark_reads(session, side, fields, values, reading.text), strict=True
    ):
        decoded = reading.decode(value)
        ours = None if decoded is None else read_time(decoded)
        if ours != time_us and (time_us is None or FIRST_US <= time_us <= LAST_US):
            found.append((f"time {side.time_format}", ours, time_us, value))
        for (field, read), text in zip(readers, texts, strict=True):
            ours = None if decoded is None else read(decoded)
            ours_text = None if ours is None else value_text(ours, field.made)
            if ours_text != text:
                found.append((field.name, ours_text, text, value))
    return found


@pytest.mark.parametrize("records", RECORDS)
def test_fields_of_every_type_and_path_are_read_as_spark_reads_them(records, session):
    rng = random.Random("fields")
    side = Side("records", "a", ("a",), "t", 0)
    values = [record(rng) for _ in range(records)]

    found = differences(session, side, FIELDS, values)

    assert not found, (len(found), found[:20])
    decoded = [one for one in map(decode_object, values) if one is not None]
    readers = {field.name: value_reader(field) for field in FIELDS}
    assert [name for name, read in readers.items() if not any(read(one) is not None for one in decoded)] == []


@pytest.mark.parametrize("records", RECORDS)
def test_json_behind_the_head_of_a_registry_is_read_as_spark_reads_what_follows_the_head(
    records, stack, session
):
    if stack.spec.backend != "local":
        pytest.skip("the backend compose has no schema registry")
    registry, rng = stack.start_registry(), random.Random("heads")
    with SchemaRegistryClient({"url": registry}) as client:
        number = client.register_schema(f"heads-{uuid.uuid4().hex}-value", Schema(JSON_SCHEMA, "JSON"))
    decode, _ = json_schema_pair(registry)
    side = Side("records", "a", ("a",), "t", 0)

    def as_the_judge_reads(value):
        return decode_object(_text("decode", decode, KafkaRecord("records", value)))

    texts = [record(rng).encode() for _ in range(records)]
    found = differences(
        session, side, FIELDS, [HEAD.pack(0, number) + text for text in texts],
        Reading("CAST(substring(value, 6) AS STRING)", as_the_judge_reads),
    )  # fmt: skip

    assert not found, (len(found), found[:20])
    wrong = HEAD.pack(1, number), HEAD.pack(0, number + 1_000_000)
    assert [text for text in texts for head in wrong if as_the_judge_reads(head + text) is not None] == []


@pytest.mark.parametrize("records", RECORDS)
@pytest.mark.parametrize(("form", "zone"), FORMS)
def test_times_of_every_form_are_read_as_spark_reads_them(form, zone, records, session):
    rng = random.Random(f"{form} {zone}")
    side = Side("records", "a", ("a",), "t", 0, time_format=form, time_zone=zone)

    values = [record(rng, form) for _ in range(records)]

    found = differences(session, side, [], values)

    assert not found, (len(found), found[:20])
    assert sum(read_event(value, side) is not None for value in values) > records / 10


@pytest.mark.parametrize("records", RECORDS)
@pytest.mark.parametrize(("form", "kind"), DECIMAL_TIMES)
def test_times_with_fractions_are_read_as_spark_reads_them(form, kind, records, session):
    rng = random.Random(f"{form} {kind}")
    side = Side("records", "a", ("a",), "t", 0, time_format=form, fields=(Field("t", type=kind),))

    values = [record(rng, form) for _ in range(records)]

    found = differences(session, side, [], values)

    assert not found, (len(found), found[:20])
    assert sum(read_event(value, side) is not None for value in values) > records / 10
