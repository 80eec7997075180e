"""Schemas of a registry: what is a head, which registry is asked, and what happens where none answers."""

from __future__ import annotations

import sys

import pytest

from pipelines.codec import _text
from tidemark.errors import TestbedError, UsageError
from tidemark.formats.avro_records import avro_pair
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.registry_schemas import HEAD, REGISTRY_VARIABLE, RegistrySchemas, schema_id
from tidemark.stack.components.ports import LOOPBACK, free_ports

SCHEMA = {"type": "record", "name": "Event", "fields": [{"name": "id", "type": "string"}]}
RECORD = KafkaRecord("topic", HEAD.pack(0, 7) + b"\x02a")


def nowhere() -> dict[str, object]:
    """The settings of a client whose registry is not there, and which does not try again."""
    return {"url": f"http://{LOOPBACK}:{free_ports(1)[0]}", "max.retries": 0}


def test_the_head_has_the_number_of_the_schema():
    assert schema_id(RECORD.value) == 7
    for wrong in (b"", b"\x00\x00\x00\x00", b"\x01" + RECORD.value[1:]):
        with pytest.raises(ValueError, match="it begins with"):
            schema_id(wrong)


def test_a_registry_that_does_not_answer_is_an_error_and_no_unreadable_record():
    decode, _ = avro_pair(SCHEMA, registry=nowhere())

    with pytest.raises(TestbedError, match="cannot be asked") as error:
        _text("decode", decode, RECORD)

    assert "URL" in error.value.hint


def test_what_has_no_head_needs_no_registry():
    decode, _ = avro_pair(SCHEMA, registry=nowhere())
    assert "it begins with b'{'" in _text("decode", decode, RECORD._replace(value=b"{"))


def test_a_run_without_a_registry_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv(REGISTRY_VARIABLE, raising=False)
    decode, _ = avro_pair(SCHEMA, registry=True)
    with pytest.raises(UsageError, match="the run has none") as error:
        decode(RECORD)
    assert "--registry" in error.value.hint


def test_without_the_client_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(UsageError, match="needs the client") as error:
        RegistrySchemas("http://127.0.0.1:1", "AVRO").schema(1)
    assert "pip install" in error.value.hint


def test_a_pair_has_files_or_a_registry():
    with pytest.raises(UsageError, match="both"):
        avro_pair(SCHEMA, schemas={1: SCHEMA}, registry=True)


def test_a_topic_without_records_needs_a_subject():
    _, encode = avro_pair(SCHEMA, registry=nowhere())
    with pytest.raises(UsageError, match="under which subject") as error:
        encode({"id": "a"}, None)
    assert "subject=" in error.value.hint
