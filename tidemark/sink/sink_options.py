"""Options of the exactly-once sink, and the names of Kafka's Java client in librdkafka's. Pure.

A user says what Spark's own Kafka sink is told: ``kafka.bootstrap.servers``, ``topic``, ``kafka.<setting of the Java
producer>``. The client that writes is librdkafka, whose settings have other names here and there; what it has no
equivalent for is refused, never dropped. The sink's own options are in :data:`OWN`. Names are compared in small
letters, because Spark hands them over so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.errors import SinkRefused
from tidemark.sink.ledger import DEFAULT_LEDGER, DEFAULT_PREFIX, DEFAULT_SINK

DAY_S = 86_400.0
TRUSTED = 0.7
"""Of the time for which brokers keep offsets: a batch older than that may be forgotten while it is looked for."""

SAME = frozenset(
    {
        "batch.size",
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.type",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.metrics.push",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.key.password",
        "transaction.timeout.ms",
    }
)
"""Settings with the same name and unit in both clients (and two that only librdkafka has: the login of SASL)."""

RENAMED = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.ca.location": "ssl.ca.location",
    "ssl.certificate.location": "ssl.certificate.location",
    "ssl.key.location": "ssl.key.location",
}
"""Java's name -> librdkafka's, where the value stays as it is; files of OpenSSL keep librdkafka's names."""

REFUSED = {
    "transactional.id": "the sink makes one for each partition; set the option transactionalIdPrefix instead",
    "key.serializer": "keys are written as they are: cast the column to STRING or BINARY",
    "value.serializer": "values are written as they are: cast the column to STRING or BINARY",
    "partitioner.class": "give the data frame a column 'partition' instead",
    "interceptor.classes": "Java classes do not run in a Python task; leave it out",
    "ssl.engine.factory.class": "Java classes do not run in a Python task; leave it out",
    "sasl.client.callback.handler.class": "Java classes do not run in a Python task; leave it out",
    "max.block.ms": "set kafka.transaction.timeout.ms, which bounds everything that a task waits for",
}
MUST_BE = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
"""What a transaction needs anyway: may be said, must be said right."""

WRITER_S = 120
MESSAGE_BYTES = 1_048_576
DEFAULTS: dict[str, str | int | bool] = {
    "transaction.timeout.ms": WRITER_S * 1000,
    "message.max.bytes": MESSAGE_BYTES,  # as the Java client's max.request.size
    "compression.type": "lz4",
    "linger.ms": 5,
    "reconnect.backoff.max.ms": 1000,  # not 10 s: a broker that is back after an outage is found at once
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,  # what a task holds at most
    "partitioner": "murmur2_random",  # as Java's: one key, one partition, whoever writes
    "enable.sparse.connections": False,  # else the first request waits for timers of 50 and 500 ms
    "topic.metadata.propagation.max.ms": 5000,  # for as long, a topic that is not there may be one that is being made
    "log_level": 3,
}

OWN = {
    "topic",
    "includeheaders",
    "partitions",
    "keyfingerprint",
    "provenance",
    "sinkid",
    "transactionalidprefix",
    "ledgertopic",
    "expiryguardseconds",
    "ignoreexpiry",
    "newledger",
    "startedms",
    "offsetskeptseconds",
}
OF_SPARK = {"checkpointlocation", "path", "queryname"}
UNSAFE = {"asyncprogresstrackingenabled"}
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class SinkOptions:
    """What one sink was told. ``client`` are librdkafka's settings; ``keys`` stands for the key expressions.

    ``started_ms`` is the driver's clock when the sink was made: a batch that was begun before is run again.
    """

    client: Mapping[str, str | int | bool]
    topic: str | None
    partitions: int
    keys: str
    provenance: bool
    sink: str
    prefix: str
    ledger: str
    checkpoint: str | None
    expiry_guard_s: float
    new_ledger: bool
    started_ms: int

    @property
    def timeout_s(self) -> float:
        """How long a transaction may take; whatever a task waits for in Kafka is bounded by it."""
        return int(self.client["transaction.timeout.ms"]) / 1000


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a query, checked; raises ``SinkRefused`` with the name of the one that will not do."""
    options = {name.lower(): value for name, value in given.items()}
    for name, value in options.items():
        if name in UNSAFE and value.lower() == "true":
            raise SinkRefused(
                f"option {name} cannot be used with this sink",
                detail="offsets are not logged before each batch, so one batch id may stand for other rows",
                hint="leave it out",
            )
        if not name.startswith("kafka.") and name not in OWN | OF_SPARK | UNSAFE:
            raise SinkRefused(
                f"the exactly-once sink has no option {name!r}",
                hint=f"it has kafka.*, checkpointLocation and {', '.join(sorted(OWN))}",
            )
    return SinkOptions(
        client=client_settings(options),
        topic=options.get("topic"),
        partitions=_whole(options, "partitions", "1"),
        keys=options.get("keyfingerprint", ""),
        provenance=_yes(options, "provenance"),
        sink=_name(options, "sinkid", DEFAULT_SINK),
        prefix=_name(options, "transactionalidprefix", DEFAULT_PREFIX),
        ledger=_name(options, "ledgertopic", DEFAULT_LEDGER),
        checkpoint=options.get("checkpointlocation"),
        expiry_guard_s=float("inf") if _yes(options, "ignoreexpiry") else _guard(options),
        new_ledger=_yes(options, "newledger"),
        started_ms=_whole(options, "startedms", "1"),
    )


def client_settings(options: Mapping[str, str]) -> dict[str, str | int | bool]:
    """librdkafka's settings for the ``kafka.*`` among ``options``; raises ``SinkRefused`` for what has none."""
    java = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    settings: dict[str, str | int | bool] = dict(DEFAULTS)
    settings.update(_store(java, "truststore"))
    settings.update(_store(java, "keystore"))
    settings.update(_login(java.pop("sasl.jaas.config", "")))
    if "buffer.memory" in java:
        settings["queue.buffering.max.kbytes"] = max(1, _whole(java, "buffer.memory", "0") // 1024)
        del java["buffer.memory"]
    if "ssl.endpoint.identification.algorithm" in java:
        settings["ssl.endpoint.identification.algorithm"] = (
            java.pop("ssl.endpoint.identification.algorithm") or "none"
        )
    for name, value in java.items():
        if name in MUST_BE and value.lower() in MUST_BE[name]:
            continue
        if name not in SAME and name not in RENAMED:
            raise _no_equivalent(name, value)
        settings[RENAMED.get(name, name)] = value
    settings["transaction.timeout.ms"] = _whole(
        {name: str(value) for name, value in settings.items()}, "transaction.timeout.ms", ""
    )
    if not settings.get("bootstrap.servers"):
        raise SinkRefused(
            "option kafka.bootstrap.servers is missing",
            hint="give HOST:PORT of the brokers, as executors see them",
        )
    return settings


def _no_equivalent(name: str, value: str) -> SinkRefused:
    if name in MUST_BE:
        return SinkRefused(
            f"option kafka.{name} is {value!r}, but a transaction needs {MUST_BE[name][0]!r}",
            detail="without it a record may be lost or written twice, and no ledger would know",
            hint="leave it out",
        )
    return SinkRefused(
        f"option kafka.{name} cannot be used with this sink",
        detail="the client that writes is librdkafka, not Kafka's Java client, and has no equivalent",
        hint=REFUSED.get(name, "leave it out, or see the table in tidemark/sink/sink_options.py"),
    )


def _store(java: dict[str, str], which: str) -> dict[str, str]:
    """Java's trust store or key store, if it is one that OpenSSL can read. Takes its settings out of ``java``."""
    kind = java.pop(f"ssl.{which}.type", "JKS").upper()
    location = java.pop(f"ssl.{which}.location", "")
    password = java.pop(f"ssl.{which}.password", "")
    if not location:
        return {}
    if kind == "PEM" and which == "truststore":
        return {"ssl.ca.location": location}
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12" and which == "keystore":
        return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    raise SinkRefused(
        f"option kafka.ssl.{which}.location is {location!r}, of type {kind}",
        detail="the client that writes uses OpenSSL, which does not read it",
        hint=f"convert it to PEM, and set kafka.ssl.{which}.type to PEM",
    )


def _login(jaas: str) -> dict[str, str]:
    """User and password of a line of JAAS, which the login modules of PLAIN and SCRAM take."""
    if not jaas:
        return {}
    found = dict(re.findall(r"\b(username|password)\s*=\s*[\"']([^\"']*)[\"']", jaas))
    if set(found) != {"username", "password"} or not re.search(r"\b(Plain|Scram)LoginModule\b", jaas):
        raise SinkRefused(
            "option kafka.sasl.jaas.config is not a user and a password",
            hint="PLAIN and SCRAM can be used: set kafka.sasl.username and kafka.sasl.password instead",
        )
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _whole(options: Mapping[str, str], name: str, default: str) -> int:
    text = options.get(name, default)
    if not text.isdecimal() or int(text) < 1:
        raise SinkRefused(f"option {name} is {text!r}", hint="give a whole number, 1 or more")
    return int(text)


def _yes(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise SinkRefused(f"option {name} is {text!r}", hint="give true or false")
    return text == "true"


def _name(options: Mapping[str, str], name: str, default: str) -> str:
    text = options.get(name, default)
    if not NAME.fullmatch(text):
        raise SinkRefused(
            f"option {name} is {text!r}", hint="give 1 to 100 letters, digits, '.', '_' and '-'"
        )
    return text


def _guard(options: Mapping[str, str]) -> float:
    """As said, or five days; never more than what is safe with brokers that keep offsets for a shorter time."""
    said = float(_whole(options, "expiryguardseconds", str(int(5 * DAY_S))))
    if "offsetskeptseconds" not in options:
        return said
    return min(said, TRUSTED * _whole(options, "offsetskeptseconds", ""))
