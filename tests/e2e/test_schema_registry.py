"""A schema registry on a stack: started when asked for, and records in its wire format, from trace to sentinels."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from io import BytesIO

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from pipelines.codec import _text, as_like
from tests.support.protobuf_messages import PROTO, file_descriptor, message_class
from tidemark.errors import UsageError
from tidemark.formats.avro_records import avro_pair
from tidemark.formats.contract import Side
from tidemark.formats.events import read_event
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.json_schema_records import json_schema_pair
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.protobuf_records import protobuf_pair
from tidemark.formats.record_fields import Field
from tidemark.formats.trace import TraceReader
from tidemark.stack import ComponentState

pytestmark = [pytest.mark.e2e]

FIELDS = [
    {"name": "order_id", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
]
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}
NEWER = {**SCHEMA, "fields": [*FIELDS, {"name": "note", "type": "string", "default": "none"}]}
TEXT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
EVENT = {"order_id": "o1", "at": datetime(2026, 1, 1, 12, tzinfo=UTC), "amount": Decimal("0.50")}


@pytest.fixture(scope="module")
def registry(stack) -> str:
    """The URL of the stack's registry."""
    if stack.spec.backend != "local":
        pytest.skip("the backend compose has no schema registry")
    return stack.start_registry()


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


@contextmanager
def client(registry: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry}) as connected:
        yield connected


def registered(registry: str, subject: str, schema: object, kind: str = "AVRO") -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with client(registry) as connected:
        return connected.register_schema(subject, Schema(text, kind))


def head(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def avro(schema: dict, event: dict) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return out.getvalue()


def test_a_stack_that_runs_is_given_one_registry(registry, stack):
    assert stack.start_registry() == registry == stack.registry
    assert stack.spec.registry
    status = {component.name: component for component in stack.status()}["registry"]
    assert (status.state, status.address) == (ComponentState.RUNNING, registry)
    assert "using h2 sql storage" in stack.logs("registry", None).lower()


@pytest.mark.parametrize("leased", ["local"], indirect=True)
@pytest.mark.long
def test_a_registry_that_was_killed_is_started_again_at_its_address(own_stack):
    url = own_stack.start_registry()
    registered(url, "before-value", SCHEMA)
    own_stack.kill("registry")

    assert own_stack.repair() == ["registry"]

    assert own_stack.registry == url
    with client(url) as connected:
        assert connected.get_subjects() == []


def test_a_writers_schema_is_looked_up_and_resolved(registry, topic):
    older = registered(registry, f"{topic}-value", SCHEMA)
    decode, encode = avro_pair(NEWER, registry=registry)
    record = KafkaRecord(topic, head(older) + avro(SCHEMA, EVENT))

    said = decode(record)

    assert said == EVENT | {"note": "none"}
    assert encode(said, record) == record


def test_without_a_record_to_be_like_the_schema_is_registered_under_the_topics_subject(registry, topic):
    decode, encode = avro_pair(SCHEMA, registry=registry)
    assert "it begins with" in _text("decode", decode, KafkaRecord(topic, b"{"))

    made = encode(EVENT, None)

    assert decode(KafkaRecord(topic, made)) == EVENT
    [number] = struct.unpack(">I", made[1:5])
    with client(registry) as connected:
        assert connected.get_latest_version(f"{topic}-value").schema_id == number
    assert encode(EVENT, None) == made


@pytest.mark.parametrize("case", ["unknown", "other kind", "truncated", "trailing"])
def test_what_is_no_record_of_the_registry_says_why(case, registry, topic):
    number = registered(registry, f"{topic}-value", SCHEMA)
    text = registered(registry, f"{topic}-text-value", TEXT, "JSON")
    whole = avro(SCHEMA, EVENT)
    value, why = {
        "unknown": (head(999_999) + whole, "the number 999999, which the registry does not know"),
        "other kind": (head(text) + whole, "is JSON, not AVRO"),
        "truncated": (head(number) + whole[:-1], "raised EOFError"),
        "trailing": (head(number) + whole + b"xy", "2 bytes are behind the record"),
    }[case]
    decode, _ = avro_pair(SCHEMA, registry=registry)

    assert why in _text("decode", decode, KafkaRecord(topic, value))


def test_a_schema_that_refers_to_another_is_read_with_it(registry, topic):
    person = {"type": "record", "name": "Person", "fields": [{"name": "id", "type": "long"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "who", "type": "Person"}]}
    registered(registry, f"{topic}-person", person)
    reference = SchemaReference("Person", f"{topic}-person", 1)
    with client(registry) as connected:
        number = connected.register_schema(f"{topic}-value", Schema(json.dumps(order), "AVRO", [reference]))
    whole = {"type": "record", "name": "Order", "fields": [{"name": "who", "type": person}]}
    decode, _ = avro_pair(whole, registry=registry)

    assert decode(KafkaRecord(topic, head(number) + avro(whole, {"who": {"id": 7}}))) == {"who": {"id": 7}}


JSON_SIDE = Side("topic", "m.id", ("price",), "at", 0, fields=(Field("price", "m.price", "double"),
                 Field("amount", "m.price", "decimal(38,18)"), Field("text", "m.price")))  # fmt: skip


def test_json_behind_a_head_is_read_as_without_one_and_written_with_all_digits(registry, topic):
    number = registered(registry, f"{topic}-value", TEXT, "JSON")
    text = '{"m": {"id": "\u00e9", "price": 12345678901.123456789012345678}, "at": "2026-01-01T00:00:00Z"} x'
    record = KafkaRecord(topic, head(number) + text.encode())
    decode, encode = json_schema_pair(registry)

    said = _text("decode", decode, record)

    assert said == text
    assert read_event(said, JSON_SIDE) == read_event(text, JSON_SIDE) is not None
    event = as_like(json.loads(text[:-2], parse_float=Decimal), decode(record))
    made = encode(event, record)
    assert made.value[:5] == head(number)
    assert b'"price": 12345678901.123456789012345678}' in made.value
    assert decode(made) == decode(record)


def test_a_json_schema_is_registered_for_a_topic_without_records(registry, topic):
    decode, encode = json_schema_pair(registry, schema=json.loads(TEXT), subject=f"{topic}-value")
    assert decode(KafkaRecord(topic, encode({"id": 1}, None))) == {"id": 1}
    with pytest.raises(UsageError, match="no schema is given"):
        json_schema_pair(registry, subject="x")[1]({"id": 1}, None)


@pytest.mark.parametrize(
    ("headless", "value", "why"),
    [
        (True, b'{"id": 1}', "it begins with"),
        (True, head(999_999) + b"{}", "which the registry does not know"),
        (False, b"[]", "it is no JSON object"),
        (False, b'{"id"', "JSONDecodeError"),
        (False, b"", "JSONDecodeError"),
    ],
)
def test_what_is_no_json_of_the_registry_says_why(headless, value, why, registry, topic):
    number = registered(registry, f"{topic}-value", TEXT, "JSON")
    decode, _ = json_schema_pair(registry)

    assert why in _text("decode", decode, KafkaRecord(topic, value if headless else head(number) + value))


@pytest.mark.parametrize("as_text", [True, False])
def test_protobuf_behind_a_head_is_read_by_the_message_that_its_index_names(as_text, registry, topic):
    file = file_descriptor()
    kind, other = message_class(file, "Payment.Line"), message_class(file, "Event")
    schema = PROTO if as_text else base64.b64encode(file.SerializeToString()).decode()
    decode, encode = protobuf_pair(kind, registry=registry)
    _, encode_other = protobuf_pair(other, registry=registry, subject=f"{topic}-value")
    assert "it begins with" in _text("decode", decode, KafkaRecord(topic, b"{"))
    with pytest.raises(UsageError, match="no schema under"):
        encode({"cents": 7}, None)
    number = registered(registry, f"{topic}-value", schema, "PROTOBUF")

    made = encode({"cents": 7}, None)

    assert made == head(number) + b"\x04\x02\x00" + kind(cents=7).SerializeToString()
    record = KafkaRecord(topic, made)
    assert decode(record) == {"cents": 7}
    assert encode({"cents": 8}, record).value == made[:-1] + b"\x08"
    wrong = KafkaRecord(topic, encode_other({"id": "a"}, None))
    assert "has Event, not Payment.Line, at index [0]" in _text("decode", decode, wrong)
    assert "which the registry does not know" in _text(
        "decode", decode, KafkaRecord(topic, head(999_999) + b"\x00")
    )


PIPELINE = """
from datetime import datetime, timezone

from pyspark.sql.functions import expr, udf

from tidemark import Bound, Contract, Field, JoinKind, Output, Side, avro_pair

SCHEMA = {schema}
decode, encode = avro_pair(SCHEMA, registry=True)


def side(topic):
    amount = (Field("amount", type="decimal(12,2)"),)
    return Side(topic, "order_id", ("order_id",), "at", 10_000, fields=amount, decode="decode", encode="encode")


CONTRACT = Contract(
    name="registered", kind=JoinKind.LEFT_OUTER, left=side("{left}"), right=side("{right}"),
    bound=Bound(lower_ms=-60_000, upper_ms=0), output=Output("left_id", "right_id"),
)


def build(left, right):
    from fastavro import parse_schema

    parsed = parse_schema(SCHEMA)

    @udf("order_id STRING, at TIMESTAMP, amount DECIMAL(12,2)")
    def read(value):
        from io import BytesIO

        from fastavro import schemaless_reader

        try:
            data = BytesIO(bytes(value)[5:])
            found = schemaless_reader(data, parsed)
        except Exception:
            return None
        return found["order_id"], found["at"], found["amount"]

    def events(frame, name):
        rows = frame.select(read("value").alias("e")).select("e.*").where("at IS NOT NULL")
        return rows.withWatermark("at", "10 seconds").alias(name)

    on = "l.order_id = r.order_id AND r.at >= l.at AND r.at <= l.at + INTERVAL 60 SECONDS"
    joined = events(left, "l").join(events(right, "r"), expr(on), "leftOuter")
    return joined.selectExpr("l.order_id AS left_id", "l.at", "r.order_id AS right_id")
"""


ASKING = """
    @udf("order_id STRING, at TIMESTAMP, amount DECIMAL(12,2)")
    def read(value):
        import json
        import urllib.request
        from io import BytesIO

        from fastavro import parse_schema, schemaless_reader

        number = int.from_bytes(bytes(value)[1:5], "big")
        for attempt in range({attempts}):
            try:
                with urllib.request.urlopen(f"{{URL}}/schemas/ids/{{number}}", timeout=2) as answer:
                    schema = json.loads(json.load(answer)["schema"])
                break
            except OSError:
                if attempt == {attempts} - 1:
                    return None
        found = schemaless_reader(BytesIO(bytes(value)[5:]), parse_schema(schema))
        return found["order_id"], found["at"], found["amount"]
"""
"""Of a query that asks for the schema of each record, so often at most, and takes no answer for no record."""


def asking(attempts: int) -> str:
    """The pipeline with this function."""
    begin, end = PIPELINE.index("    @udf"), PIPELINE.index("    def events")
    function = ASKING.format(attempts=attempts) + "\n"
    whole = PIPELINE[:begin] + function.replace("{", "{{").replace("}", "}}") + PIPELINE[end:]
    return "import os\n" + whole.replace(
        "SCHEMA =", 'URL = os.environ.get("TIDEMARK_REGISTRY", "")\nSCHEMA =', 1
    )


def order(heads: list[bytes], side: int, name: str, second: int) -> bytes:
    """A record of a side, behind its head."""
    at = EVENT["at"] + timedelta(seconds=second)
    return heads[side] + avro(SCHEMA, {"order_id": name, "at": at, "amount": Decimal("0.50")})


def trace_of(path, topics: tuple[str, str], values: list[tuple[int, int, bytes]], slices: int = 3) -> None:
    """Write a trace of records: slice, side, value."""
    header = {
        "tidemark_trace": 2,
        "pace": "stepped",
        "slices": slices,
        "topics": {topic: {} for topic in topics},
    }
    lines = [header]
    for at, (number, side, value) in enumerate(values):
        encoded = base64.b64encode(value).decode()
        lines.append({"topic": topics[side], "arrival_ms": 1 + at, "slice": number, "value_base64": encoded})
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"", id="whole"),
        pytest.param(b"\x00\x00\x0f\x42\x3f\x02a", id="one of an unknown schema"),
    ],
)
@pytest.mark.long
def test_topics_in_the_registrys_wire_format_are_judged_and_flushed(
    broken, registry, topic, tmp_path, run_pipeline
):
    """The producer registers the schemas; the run finds the registry by its address."""
    topics = f"{topic}-l", f"{topic}-r"
    heads = [head(registered(registry, f"{name}-value", SCHEMA)) for name in topics]
    value = partial(order, heads)

    values = [
        (0, 0, value(0, "o1", 0)), (0, 0, value(0, "o2", 5)), (0, 1, value(1, "o1", 30)),
        (0, 1, value(1, "o1", -10)), (0, 1, value(1, "o1", 120)),
        (1, 0, value(0, "o3", 600)), (1, 1, value(1, "o3", 610)), (2, 0, value(0, "o2", 6)),
        *([(2, 1, broken)] if broken else []),
    ]  # fmt: skip
    trace_of(tmp_path / "trace.jsonl", topics, values)
    (tmp_path / "registered.py").write_text(PIPELINE.format(schema=SCHEMA, left=topics[0], right=topics[1]))
    run_dir = tmp_path / "run"

    result = run_pipeline(
        tmp_path / "registered.py", trace=tmp_path / "trace.jsonl", registry=True, run_dir=run_dir
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert result.verdict.counts["unreadable"] == bool(broken)
    assert result.verdict.counts["late"] == 1
    with TraceReader(run_dir / "flush.jsonl") as flush:
        sentinels = {record.topic: record.value_bytes() for record in flush}
    assert [sentinels[name][:5] for name in topics] == heads
    assert "--registry" in result.command


@pytest.mark.parametrize(("attempts", "lost"), [(1, True), (12, False)], ids=["gives up", "asks again"])
@pytest.mark.long
def test_a_registry_that_is_cut_off_costs_rows_where_the_query_gives_up(
    attempts, lost, registry, topic, tmp_path, run_pipeline
):
    topics = f"{topic}-l", f"{topic}-r"
    heads = [head(registered(registry, f"{name}-value", SCHEMA)) for name in topics]
    value = partial(order, heads)

    values = [
        (number, side, value(side, f"o{number}", 600 * number + 20 * side))
        for number in range(8)
        for side in (0, 1)
    ]
    trace_of(tmp_path / "trace.jsonl", topics, values, slices=8)
    code = asking(attempts).format(schema=SCHEMA, left=topics[0], right=topics[1])
    (tmp_path / "asking.py").write_text(code)
    faults = "registry:cut@planned~4"

    result = run_pipeline(
        tmp_path / "asking.py", trace=tmp_path / "trace.jsonl", registry=True, faults=faults
    )

    [fault] = RunDirectory(result.run_dir).faults()
    assert fault.injected
    seen = fault.proof["traffic"]
    assert seen["during"]["requests"]["received"] > 0 == seen["during"]["requests"]["passed"]
    found = set(result.verdict.findings_total)
    assert found & {"lost_rows", "missing_nulls"} if lost else not found, found
