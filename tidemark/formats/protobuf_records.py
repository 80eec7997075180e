"""Records in Protobuf, plain or in the wire format of a schema registry, for the contract of a pipeline's file.

Free of Kafka and Spark. Messages are read and written by ``protobuf`` (``pip install protobuf``), which generated
classes need anyhow. In the file::

    decode_order, encode_order = protobuf_pair(orders_pb2.Order)

A record has all fields of the class, by their names in the ``.proto`` file: 64-bit numbers are numbers, enums are names
(a number that has none is a number), keys of maps are text, bytes are base64 in the contract. A field with presence
(``optional``, of a ``oneof``, a message, all of proto2) that is not set is NULL; one without has its default, for
Protobuf does not tell it from a field that is not set. ``google.protobuf.Timestamp`` is a time in UTC whose nanoseconds
are cut to microseconds, NULL beyond the years 1 to 9999; wrappers are their value or NULL; other messages are objects.

With ``registry`` (:mod:`tidemark.formats.registry_schemas`) a record begins with a byte 0, the schema ID in four bytes,
and the message index: zigzag varints, how many there are and each one, or a single 0 for the first message of the file.
The schema has to be known to the registry, and has to have a message of the class's name at that index; maps are not
counted among nested messages. The record is read by the class, whatever else the writer's schema says.

What cannot be parsed, is cut inside of a field or lacks a required one is unreadable. Fields that the class does not
have are skipped, as those of a newer writer; so a record that is cut between two fields, or has whole fields behind it,
is a record: Protobuf does not say where one ends.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.kafka_record import Decode, Encode, KafkaRecord
from tidemark.formats.protobuf_values import event_of, fill
from tidemark.formats.registry_schemas import HEAD, Registry, RegistrySchemas, schema_id

Index = tuple[int, ...]
_NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL).sub
"""Comments and text in a ``.proto`` file."""
_BLOCKS = re.compile(r"\bmessage\s+(\w+)\s*(?=\{)|([{}])").finditer
_VARINT_BITS = 64


def protobuf_pair(
    message: type[Any], *, registry: Registry | None = None, subject: str | None = None
) -> tuple[Decode, Encode]:
    """The functions ``decode`` and ``encode`` for records of a generated message class.

    ``registry`` is the registry that has the writers' schemas; without it records have no head. What is encoded has the
    head of a record of the topic; if it has none, the ID of the latest schema under ``subject``, by default
    ``TOPIC-value``: nothing is registered. Raises ``UsageError`` for what is no message class.
    """
    decode_error = _checked(message)
    name = _name(message.DESCRIPTOR)
    heads = _Heads(name, RegistrySchemas(registry, "PROTOBUF", subject)) if registry else None

    def decode(record: KafkaRecord) -> dict[str, Any] | None:
        if heads is not None:
            heads.schemas.saw(record)
        if record.value is None:
            return None
        start = heads.length(record.value) if heads is not None else 0
        found = message()
        try:
            found.ParseFromString(record.value[start:])
        except decode_error as error:
            raise ValueError(f"it is no {name}: {error}") from error
        if not found.IsInitialized():
            raise ValueError(f"it lacks {', '.join(found.FindInitializationErrors())}")
        return event_of(found)

    def encode(event: dict[str, Any], like: KafkaRecord | None) -> bytes | KafkaRecord:
        made = message()
        fill(made, event)
        value = (heads.made_like(like) if heads is not None else b"") + made.SerializeToString(
            deterministic=True
        )
        return value if like is None else like._replace(value=value)

    return decode, encode


class _Heads:
    """Heads of records whose message has this name in a schema of the registry."""

    def __init__(self, name: str, schemas: RegistrySchemas) -> None:
        self.schemas = schemas
        self._name = name
        self._known: dict[int, dict[Index, str]] = {}

    def length(self, value: bytes) -> int:
        """How long the head of a record is; raises ``ValueError`` if it is that of no such message."""
        number = schema_id(value)
        index, end = _index(value, HEAD.size)
        found = self._messages(number).get(index)
        if found != self._name:
            what = "has no message" if found is None else f"has {found}, not {self._name},"
            raise ValueError(f"its schema {number} {what} at index {[*index]}")
        return end

    def made_like(self, like: KafkaRecord | None) -> bytes:
        """The head of a record that is made like another; without one that of the subject's latest schema."""
        if like is not None and like.value is not None:
            return like.value[: self.length(like.value)]
        number = self.schemas.latest()
        for index, name in self._messages(number).items():
            if name == self._name:
                return HEAD.pack(0, number) + _written(index)
        raise ValueError(f"the latest schema of the topic, {number}, has no message {self._name}")

    def _messages(self, number: int) -> dict[Index, str]:
        if number not in self._known:
            self._known[number] = dict(_messages(self.schemas.schema(number).schema_str or ""))
        return self._known[number]


def _messages(schema: str) -> Iterator[tuple[Index, str]]:
    """The messages of a schema by their index: of a ``.proto`` file, or of a file descriptor in base64."""
    try:
        descriptor = base64.b64decode(schema, validate=True)
    except binascii.Error:
        yield from _messages_of_text(schema)
        return
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    yield from _messages_of(FileDescriptorProto.FromString(descriptor).message_type, (), "")


def _messages_of(kinds: Sequence[Any], index: Index, outer: str) -> Iterator[tuple[Index, str]]:
    """Messages of a descriptor, with those inside of them; the entries of maps are none."""
    for at, kind in enumerate(one for one in kinds if not one.options.map_entry):
        yield (*index, at), outer + kind.name
        yield from _messages_of(kind.nested_type, (*index, at), f"{outer}{kind.name}.")


def _messages_of_text(text: str) -> Iterator[tuple[Index, str]]:
    """Messages of a ``.proto`` file; of other blocks, and of what is in text or comments, none."""
    open_blocks: list[tuple[Index, str] | None] = []
    counts: dict[Index, int] = {}
    begun: tuple[Index, str] | None = None
    for token in _BLOCKS(_NO_CODE(" ", text)):
        if token[1]:
            outer, prefix = next((block for block in reversed(open_blocks) if block), ((), ""))
            counts[outer] = counts.get(outer, -1) + 1
            begun = (*outer, counts[outer]), prefix + token[1]
            yield begun
            begun = begun[0], f"{begun[1]}."
        elif token[2] == "{":
            open_blocks.append(begun)
            begun = None
        elif token[2] == "}" and open_blocks:
            open_blocks.pop()


def _index(value: bytes, at: int) -> tuple[Index, int]:
    """The message index at a place, and where it ends."""
    count, at = _zigzag(value, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(value) - at:
        raise ValueError(f"its message index has {count} numbers")
    found = []
    for _ in range(count):
        number, at = _zigzag(value, at)
        found.append(number)
    return (*found,), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    """A number as a zigzag varint, and where it ends."""
    number = 0
    for shift in range(0, _VARINT_BITS, 7):
        if at >= len(value):
            break
        number |= (value[at] & 0x7F) << shift
        at += 1
        if value[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("its message index does not end")


def _written(index: Index) -> bytes:
    return b"\0" if index == (0,) else b"".join(map(_varint, (len(index), *index)))


def _varint(number: int) -> bytes:
    """A number that is not below zero, as a zigzag varint."""
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*found, rest))


def _name(descriptor: Any) -> str:
    """The name of a message in its file."""
    outer = descriptor.containing_type
    return str(descriptor.name) if outer is None else f"{_name(outer)}.{descriptor.name}"


def _checked(message: Any) -> type[Exception]:
    """The error for bytes that are no message; raises ``UsageError`` for what is no message class."""
    try:
        from google.protobuf.message import DecodeError, Message
    except ImportError as error:
        raise UsageError(
            "records in Protobuf need the package protobuf",
            detail=str(error),
            hint="pip install protobuf, in the environment of the pipeline",
        ) from error
    if not (isinstance(message, type) and issubclass(message, Message)):
        raise UsageError(
            f"{message!r} is no message class of Protobuf",
            hint="give the class that protoc generated, such as orders_pb2.Order",
        )
    cannot_parse: type[Exception] = DecodeError
    return cannot_parse
