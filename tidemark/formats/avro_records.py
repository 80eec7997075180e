"""Records in Avro, plain or in the wire format of a schema registry, for the contract of a pipeline's file.

Free of Kafka and Spark. What is Avro is read and written by ``fastavro`` (``pip install fastavro``), which is imported
when a pair is made. In the file::

    decode_order, encode_order = avro_pair("orders.avsc")

The wire format has a byte 0, the schema ID of the writer's schema in four bytes, and the record. ``schemas`` names the
file of each schema ID, so that no registry is asked; or ``registry`` says which one is
(:mod:`tidemark.formats.registry_schemas`), once for each ID. Logical types are times, dates, ``Decimal`` and ``UUID``;
bytes are base64 in the contract, as in Spark's ``to_json``. What is no record of the schema, or has bytes behind it,
is none. Bytes of a string that are no UTF-8 are replaced, as where Spark shows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.avro_logical_types import with_own_types
from tidemark.formats.kafka_record import Decode, Encode, KafkaRecord
from tidemark.formats.registry_schemas import HEAD, Registry, RegistrySchemas, schema_id

Schema = str | Path | Mapping[str, Any]
"""The path of a schema file, or a schema as a dictionary."""


def avro_pair(
    schema: Schema,
    *,
    schemas: Mapping[int, Schema] | None = None,
    registry: Registry | None = None,
    subject: str | None = None,
) -> tuple[Decode, Encode]:
    """The functions ``decode`` and ``encode`` for records of a schema.

    ``schemas`` has the writers' schemas of the wire format by their schema IDs, ``registry`` is the registry that has
    them; without both records have no head. They are read as ``schema`` says, as Avro resolves the difference.
    What is encoded has the schema ID of a record of the topic; if it has none, that of ``schema``, which is registered
    under ``subject``, by default ``TOPIC-value``. Raises ``UsageError`` for a schema that cannot be read.
    """
    try:
        import fastavro
    except ImportError as error:
        raise UsageError(
            "records in Avro need the package fastavro",
            detail=str(error),
            hint="pip install fastavro, in the environment of the pipeline",
        ) from error
    if schemas is not None and registry:
        raise UsageError(
            "avro_pair has both schemas and a registry",
            hint="name the file of each schema ID, or the registry",
        )
    loaded = _loaded(schema)
    reader = _parsed(loaded)
    writers = _writers(
        reader, schemas, RegistrySchemas(registry, "AVRO", subject) if registry else None, loaded
    )

    def decode(record: KafkaRecord) -> dict[str, Any] | None:
        writers.saw(record)
        if record.value is None:
            return None
        writer, data = writers.of(record.value)
        found = fastavro.schemaless_reader(data, writer, reader, handle_unicode_errors="replace")
        if rest := len(data.getbuffer()) - data.tell():
            raise ValueError(f"{rest} bytes are behind the record")
        return found if isinstance(found, dict) else None

    def encode(event: dict[str, Any], like: KafkaRecord | None) -> bytes | KafkaRecord:
        out = BytesIO()
        out.write(head := writers.head(like))
        fastavro.schemaless_writer(out, writers.of(head)[0], event)
        return out.getvalue() if like is None else like._replace(value=out.getvalue())

    return decode, encode


class _Data(BytesIO):
    """The bytes of a record, which end where they end: ``fastavro`` skips fields beyond that."""

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes; raises ``EOFError`` if there are fewer."""
        if size is None or size < 0:
            raise ValueError(f"a length is {size}")
        found = super().read(size)
        if len(found) < size:
            raise EOFError(f"{size} bytes are to follow, and {len(found)} do")
        return found


class _PlainWriters:
    """Of records without a head: the schema that they are read with."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def saw(self, record: KafkaRecord) -> None:
        """Nothing depends on the topic."""

    def of(self, value: bytes) -> tuple[Any, _Data]:
        """The writer's schema of a record, and its data; raises ``ValueError`` if the schema is not known."""
        return self._reader, _Data(value)

    def head(self, _like: KafkaRecord | None) -> bytes:
        """The head of a record that is made like another."""
        return b""


class _NumberedWriters(_PlainWriters):
    """Of records whose head names one of these schemas."""

    def __init__(self, writers: Mapping[int, Any]) -> None:
        self._writers = writers

    def of(self, value: bytes) -> tuple[Any, _Data]:
        number = schema_id(value)
        if number not in self._writers:
            known = ", ".join(map(str, self._writers))
            raise ValueError(f"its schema has the number {number}; known are {known}")
        return self._writers[number], _Data(value[HEAD.size :])

    def head(self, like: KafkaRecord | None) -> bytes:
        return HEAD.pack(0, max(self._writers) if like is None else schema_id(like.value or b""))


class _RegisteredWriters(_PlainWriters):
    """Of records whose head names a schema of a registry."""

    def __init__(self, text: str, schemas: RegistrySchemas) -> None:
        self._text = text
        self._schemas = schemas
        self._parsed: dict[int, Any] = {}

    def saw(self, record: KafkaRecord) -> None:
        self._schemas.saw(record)

    def of(self, value: bytes) -> tuple[Any, _Data]:
        number = schema_id(value)
        if number not in self._parsed:
            schema = self._schemas.schema(number)
            self._parsed[number] = _with_references(schema, self._schemas.referenced(schema))
        return self._parsed[number], _Data(value[HEAD.size :])

    def head(self, like: KafkaRecord | None) -> bytes:
        return HEAD.pack(0, self._schemas.number(self._text, like))


def _writers(
    reader: Any, schemas: Mapping[int, Schema] | None, registered: RegistrySchemas | None, loaded: Any
) -> _PlainWriters:
    if registered:
        return _RegisteredWriters(json.dumps(loaded), registered)
    if schemas is not None:
        return _NumberedWriters({number: _parsed(_loaded(one)) for number, one in schemas.items()})
    return _PlainWriters(reader)


def _with_references(schema: Any, referenced: Sequence[Any]) -> Any:
    """A registry's schema, parsed with those that it refers to."""
    import fastavro

    named: dict[str, Any] = {}
    for one in referenced:
        fastavro.parse_schema(with_own_types(json.loads(one.schema_str)), named)
    return fastavro.parse_schema(with_own_types(json.loads(schema.schema_str)), named)


def _loaded(schema: Schema) -> Any:
    """A schema as it is written."""
    import fastavro

    try:
        found = (
            json.loads(Path(schema).read_text(encoding="utf-8"))
            if isinstance(schema, str | Path)
            else dict(schema)
        )
        fastavro.parse_schema(found, {}, _write_hint=False)
    except (OSError, ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise UsageError(
            f"the schema {str(schema)[:80]!r} cannot be read",
            detail=f"{type(error).__name__}: {error}",
            hint="give the path of a schema file (JSON), or the schema as a dictionary",
        ) from error
    return found


def _parsed(schema: Any) -> Any:
    """A schema that was loaded, as records are read and written by it."""
    import fastavro

    return fastavro.parse_schema(with_own_types(schema))
