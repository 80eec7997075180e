"""Records in JSON behind the head of a schema registry, for the contract of a pipeline's file.

Free of Kafka and Spark. In the file::

    decode_order, encode_order = json_schema_pair(registry=True)

The head is a byte 0 and the schema ID in four bytes (:mod:`tidemark.formats.registry_schemas`). The ID has to be that
of a JSON Schema of the registry; what it asks of a record is not checked, as ``from_json`` does not check it. The text
behind the head is kept as it is, and read as the text of a topic without a head: every digit of its numbers counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark.formats.exact_json import json_text
from tidemark.formats.kafka_record import Decode, Encode, KafkaRecord
from tidemark.formats.registry_schemas import HEAD, Registry, RegistrySchemas, schema_id

BLANKS = (", ", ": ")


class JsonObject(dict[str, Any]):
    """What a record says, with the text that says it."""

    def __init__(self, text: str) -> None:
        super().__init__(_object(text))
        self.text = text


def json_schema_pair(
    registry: Registry, *, schema: str | Path | Mapping[str, Any] | None = None, subject: str | None = None
) -> tuple[Decode, Encode]:
    """The functions ``decode`` and ``encode`` for records in JSON with a schema ID.

    What is encoded has the schema ID of a record of the topic. ``schema`` (a file, or the schema itself) is needed for
    a topic without one: it is registered under ``subject``, by default ``TOPIC-value``.
    """
    schemas = RegistrySchemas(registry, "JSON", subject)

    def decode(record: KafkaRecord) -> dict[str, Any] | None:
        schemas.saw(record)
        if record.value is None:
            return None
        schemas.schema(schema_id(record.value))
        return JsonObject(record.value[HEAD.size :].decode("utf-8", "replace"))

    def encode(event: dict[str, Any], like: KafkaRecord | None) -> bytes | KafkaRecord:
        head = HEAD.pack(0, schemas.number(_text(schema), like))
        value = head + json_text(event, BLANKS, ensure_ascii=False).encode()
        return value if like is None else like._replace(value=value)

    return decode, encode


def _object(text: str) -> dict[str, Any]:
    """The object at the beginning of a text; what follows it is not looked at, as Spark's parser does not."""
    found, _ = json.JSONDecoder(parse_float=Decimal).raw_decode(text.lstrip(" \t\r\n"))
    if not isinstance(found, dict):
        raise ValueError(f"it is no JSON object: {text[:40]!r}")
    return found


def _text(schema: str | Path | Mapping[str, Any] | None) -> str:
    """The text of a schema; empty if none is given."""
    if schema is None:
        return ""
    return Path(schema).read_text(encoding="utf-8") if isinstance(schema, str | Path) else json.dumps(schema)
