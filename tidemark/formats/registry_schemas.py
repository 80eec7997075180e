"""Schemas of a schema registry with Confluent's API, and the head of records that name one by its ID.

Free of Kafka and Spark. The registry is asked through Confluent's client (``pip install
"confluent-kafka[schemaregistry]"``), which is imported when a schema is first asked for. A schema ID is asked for once:
a registry never changes what an ID means. ``registry`` is a URL; ``True`` for that of the run (``tidemark run
--registry``, or the variable ``TIDEMARK_REGISTRY``); or the settings of Confluent's client (``{"url": …}``), where the
registry has a login.

The head is a byte 0 and the schema ID in four bytes. What the registry does not know makes a record unreadable; a
registry that does not answer ends the run (``TestbedError``), for a record would be judged by chance then.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidemark.errors import TestbedError, UsageError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

    from tidemark.formats.kafka_record import KafkaRecord

Registry = str | bool | Mapping[str, Any]
"""A URL, ``True`` for the run's own, or the settings of Confluent's client."""
REGISTRY_VARIABLE = "TIDEMARK_REGISTRY"
"""The URL of the run's schema registry, for all programs of a run."""
HEAD = struct.Struct(">bI")
_NOT_FOUND = 404
_REFUSED = (409, 422)
"""A schema that is not compatible with those of its subject, or that is none."""


def schema_id(value: bytes) -> int:
    """The schema ID in the head of a record; raises ``ValueError`` if there is no head."""
    head = value[: HEAD.size]
    if len(head) < HEAD.size or head[0] != 0:
        raise ValueError(f"it begins with {head!r}, not with 0 and the number of a schema")
    number: int = HEAD.unpack(head)[1]
    return number


class RegistrySchemas:
    """The schemas of one registry. ``kind`` is ``AVRO``, ``PROTOBUF`` or ``JSON``."""

    def __init__(self, registry: Registry, kind: str, subject: str | None = None) -> None:
        self._registry = registry
        self._kind = kind
        self._subject = subject
        self._topic: str | None = None
        self._known: dict[int, Schema | None] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def saw(self, record: KafkaRecord) -> None:
        """Note the topic of a record: it names the subject of schemas that are registered."""
        self._topic = record.topic

    def schema(self, number: int) -> Schema:
        """The schema of an ID. Raises ``ValueError`` for an ID that is not known, or is a schema of another kind."""
        if number not in self._known:
            self._known[number] = self._ask(lambda client: client.get_schema(number), missing_is_none=True)
        found = self._known[number]
        if found is None:
            raise ValueError(f"its schema has the number {number}, which the registry does not know")
        if (found.schema_type or "AVRO") != self._kind:
            raise ValueError(f"its schema {number} is {found.schema_type}, not {self._kind}")
        return found

    def referenced(self, schema: Schema) -> list[Schema]:
        """The schemas that a schema refers to, each after those that it refers to itself."""
        found: list[Schema] = []
        for reference in schema.references or ():
            one = self._ask(_version(reference.subject or "", reference.version or 1)).schema
            found += [*self.referenced(one), one]
        return found

    def number(self, text: str, like: KafkaRecord | None) -> int:
        """The ID in the head of ``like``; without one that of the schema, registered under ``TOPIC-value``."""
        if like is not None and like.value is not None:
            return schema_id(like.value)
        if not text:
            raise UsageError(
                "no schema is given that could be registered",
                detail="the topic of the sentinel has no record whose schema ID it could have",
                hint="give the pair a schema: schema=…",
            )
        subject = self._subject_name()
        key = subject, text
        if key not in self._numbers:
            from confluent_kafka.schema_registry import Schema

            schema = Schema(text, self._kind)
            self._numbers[key] = self._ask(lambda client: client.register_schema(subject, schema))
        return self._numbers[key]

    def latest(self) -> int:
        """The ID of the latest schema under ``TOPIC-value``; raises ``UsageError`` if there is none."""
        subject = self._subject_name()
        found = self._ask(lambda client: client.get_latest_version(subject), missing_is_none=True)
        if found is None:
            raise UsageError(
                f"the schema registry has no schema under {subject!r}",
                detail="the topic of the sentinel has no record whose schema ID it could have",
                hint=f"register the schema under {subject!r}, or give the pair another subject: subject=…",
            )
        return int(found.schema_id)

    def _subject_name(self) -> str:
        subject = self._subject or (f"{self._topic}-value" if self._topic else "")
        if not subject:
            raise UsageError(
                "no record tells under which subject the schema is registered",
                detail="the topic of the sentinel has no record",
                hint='give the pair a subject: subject="orders-value"',
            )
        return subject

    def _ask(self, question: Callable[[Any], Any], *, missing_is_none: bool = False) -> Any:
        """What the registry answers; raises ``TestbedError`` if it does not.

        Each question has a client of its own, because a run has few of them, and a client keeps sockets open.
        """
        connect, settings = self._client()
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            with connect(settings) as client:
                return question(client)
        except SchemaRegistryError as error:
            if missing_is_none and error.http_status_code == _NOT_FOUND:
                return None
            if error.http_status_code in _REFUSED:
                raise UsageError(
                    "the schema registry refuses the schema",
                    detail=str(error),
                    hint="the schema of the pair has to be one that the topic's producers may register",
                ) from error
            raise self._silent(error) from error
        except Exception as error:  # of its HTTP client, which is not ours to name
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> TestbedError:
        return TestbedError(
            f"the schema registry at {self._url()} cannot be asked",
            detail=f"{type(error).__name__}: {error}",
            hint="`tidemark status` shows the stack's own; look whether the URL is right and the registry runs",
        )

    def _url(self) -> str:
        if isinstance(self._registry, Mapping):
            return str(self._registry.get("url", ""))
        if isinstance(self._registry, str):
            return self._registry
        found = os.environ.get(REGISTRY_VARIABLE, "")
        if not found:
            raise UsageError(
                "records name schemas of a registry, and the run has none",
                detail=f"{REGISTRY_VARIABLE} is not set",
                hint="run with --registry (in pytest registry=True), or give the pair the URL of yours: registry=URL",
            )
        return found

    def _client(self) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
        """The class of the client, and its settings."""
        url = self._url()
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise UsageError(
                "a schema registry needs the client of confluent-kafka",
                detail=str(error),
                hint='pip install "confluent-kafka[schemaregistry]", in the environment of the pipeline',
            ) from error
        settings = dict(self._registry) if isinstance(self._registry, Mapping) else {"url": url}
        return SchemaRegistryClient, settings


def _version(subject: str, version: int) -> Callable[[Any], Any]:
    return lambda client: client.get_version(subject, version)
