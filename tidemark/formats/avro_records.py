"""Records in Avro, plain or in the wire format of a schema registry, for the contract of a pipeline's file.

Free of Kafka and Spark. What is Avro is read and written by ``fastavro`` (``pip install fastavro``), which is imported
when a pair is made. In the file::

    decode_order, encode_order = avro_pair("orders.avsc")

The wire format has a byte 0, the schema ID of the writer's schema in four bytes, and the record: ``schemas`` names the
file of each schema ID, so that no registry is asked. Logical types are times, dates, ``Decimal`` and ``UUID``; bytes
are base64 in the contract, as in Spark's ``to_json``. What is no record of the schema, or has bytes behind it, is none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.kafka_record import KafkaRecord

Decode = Callable[[KafkaRecord], dict[str, Any] | None]
Encode = Callable[[dict[str, Any], KafkaRecord | None], KafkaRecord | bytes]
Schema = str | Path | Mapping[str, Any]
"""The path of a schema file, or a schema as a dictionary."""
_HEAD = struct.Struct(">bI")


def avro_pair(schema: Schema, *, schemas: Mapping[int, Schema] | None = None) -> tuple[Decode, Encode]:
    """The functions ``decode`` and ``encode`` for records of a schema.

    ``schemas`` has the writers' schemas of the wire format by their schema IDs; without it records have no head. They
    are read as ``schema`` says, as Avro resolves the difference. Raises ``UsageError`` for a schema that cannot be
    read.
    """
    try:
        import fastavro
    except ImportError as error:
        raise UsageError(
            "records in Avro need the package fastavro",
            detail=str(error),
            hint="pip install fastavro, in the environment of the pipeline",
        ) from error
    reader = _parsed(schema)
    writers = None if schemas is None else {number: _parsed(one) for number, one in schemas.items()}

    def decode(record: KafkaRecord) -> dict[str, Any] | None:
        if record.value is None:
            return None
        data = BytesIO(record.value)
        writer = reader if writers is None else writers[_number_of(data.read(_HEAD.size), writers)]
        found = fastavro.schemaless_reader(data, writer, reader)
        if rest := len(data.read()):
            raise ValueError(f"{rest} bytes are behind the record")
        return found if isinstance(found, dict) else None

    def encode(event: dict[str, Any], like: KafkaRecord | None) -> bytes | KafkaRecord:
        out, writer = BytesIO(), reader
        if writers is not None:
            number = max(writers) if like is None else _number_of((like.value or b"")[: _HEAD.size], writers)
            out.write(_HEAD.pack(0, number))
            writer = writers[number]
        fastavro.schemaless_writer(out, writer, event)
        return out.getvalue() if like is None else like._replace(value=out.getvalue())

    return decode, encode


def _number_of(head: bytes, writers: Mapping[int, Any]) -> int:
    """The number of the writer's schema; raises ``ValueError`` if it is not known."""
    if len(head) < _HEAD.size or head[0] != 0:
        raise ValueError(f"it begins with {head!r}, not with 0 and the number of a schema")
    number: int = _HEAD.unpack(head)[1]
    if number not in writers:
        raise ValueError(f"its schema has the number {number}; known are {', '.join(map(str, writers))}")
    return number


def _parsed(schema: Schema) -> Any:
    import fastavro

    try:
        found = (
            json.loads(Path(schema).read_text(encoding="utf-8"))
            if isinstance(schema, str | Path)
            else dict(schema)
        )
        return fastavro.parse_schema(found)
    except (OSError, ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise UsageError(
            f"the schema {str(schema)[:80]!r} cannot be read",
            detail=f"{type(error).__name__}: {error}",
            hint="give the path of a schema file (JSON), or the schema as a dictionary",
        ) from error
