"""Options of the exactly-once sink, and the translation of Java client settings to librdkafka's. Pure.

Users set the options of Spark's own Kafka sink: ``kafka.bootstrap.servers``, ``topic``, ``kafka.<Java producer
setting>``. The client is librdkafka, some of whose settings have other names. A setting without an equivalent is an
error; it is never dropped silently. The sink's own options are in :data:`SINK_OPTIONS`. Names are compared in lower
case, because Spark passes them in lower case.

A value may refer to a file, as with Kafka's Java clients (KIP-421): ``kafka.config.providers`` is ``file``, and the
password ``${file:/path/on/the/cluster:NAME}``. Driver and tasks read the file; the value is in no plan and no log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from tidemark.errors import SinkRefused, UsageError
from tidemark.formats.client_settings import (
    FILE_PROVIDER,
    PROVIDERS,
    REFERENCE,
    jaas_login,
    read_properties,
    store_settings,
)
from tidemark.sink.ledger import DEFAULT_LEDGER, DEFAULT_PREFIX, DEFAULT_SINK

DAY_S = 86_400.0
EXPIRY_SHARE = 0.7
"""Share of the brokers' offset retention after which a batch counts as expired: a margin for the lookup itself."""

SAME_NAME = frozenset(
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
"""Settings with the same name and unit in both clients (and two that only librdkafka has: SASL user and password)."""

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
"""Java name -> librdkafka name, with the same value; OpenSSL's files keep librdkafka's names."""

REFUSED = {
    "transactional.id": "the sink sets one per partition; set the option transactionalIdPrefix instead",
    "key.serializer": "keys are written unchanged: cast the column to STRING or BINARY",
    "value.serializer": "values are written unchanged: cast the column to STRING or BINARY",
    "partitioner.class": "add a column 'partition' to the data frame instead",
    "interceptor.classes": "Java classes do not run in a Python task; leave it out",
    "ssl.engine.factory.class": "Java classes do not run in a Python task; leave it out",
    "sasl.client.callback.handler.class": "Java classes do not run in a Python task; leave it out",
    "max.block.ms": "set kafka.transaction.timeout.ms, which bounds every wait of a task",
}
REQUIRED_VALUES = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
"""Values that transactions require: the options may be set, but only to these."""

WRITER_S = 120
MESSAGE_BYTES = 1_048_576
DEFAULTS: dict[str, str | int | bool] = {
    "transaction.timeout.ms": WRITER_S * 1000,
    "message.max.bytes": MESSAGE_BYTES,  # as the Java client's max.request.size
    "compression.type": "lz4",
    "linger.ms": 5,
    "reconnect.backoff.max.ms": 1000,  # not 10 s: reconnect soon after an outage
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,  # bounds the memory of a task
    "partitioner": "murmur2_random",  # the Java client's: a key has the same partition with either client
    "enable.sparse.connections": False,  # otherwise the first request waits for timers of 50 and 500 ms
    "topic.metadata.propagation.max.ms": 5000,  # so long, an unknown topic may be one that is being created
    "log_level": 3,
}

SINK_OPTIONS = {
    "topic",
    "includeheaders",
    "partitions",
    "keyfingerprint",
    "provenance",
    "sinkid",
    "transactionalidprefix",
    "ledgertopic",
    "checkpointchecks",
    "checkpointstore",
    "expiryguardseconds",
    "ignoreexpiry",
    "newledger",
    "startedms",
    "offsetskeptseconds",
}
SPARK_OPTIONS = {"checkpointlocation", "path", "queryname"}
UNSAFE = {"asyncprogresstrackingenabled"}
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class SinkOptions:
    """The options of one sink. ``client`` has librdkafka's settings; ``keys`` is the fingerprint of the key
    expressions.

    ``checkpoint_store`` has settings of the checkpoint's file system, as the query of a URL; without
    ``checkpoint_checks`` the driver does not read the checkpoint.
    ``started_ms`` is the driver's clock at the start of the query: a batch that was begun earlier is run again.
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
    checkpoint_store: str
    checkpoint_checks: bool
    expiry_guard_s: float
    new_ledger: bool
    started_ms: int

    @property
    def timeout_s(self) -> float:
        """The transaction timeout, which also bounds every wait of a task for Kafka."""
        return int(self.client["transaction.timeout.ms"]) / 1000


def read_options(given: Mapping[str, str], *, on_cluster: bool = True) -> SinkOptions:
    """Parse the options of a query; raises ``SinkRefused`` with the name of an invalid one.

    Where ``on_cluster`` is False (in the program that starts the query), files to which options refer are not read, and
    those options are left out.
    """
    options = {name.lower(): value for name, value in given.items()}
    for name, value in options.items():
        if name in UNSAFE and value.lower() == "true":
            raise SinkRefused(
                f"option {name} cannot be used with this sink",
                detail="it does not log offsets before each batch, so a batch that is run again may have other rows",
                hint="leave it out",
            )
        if not name.startswith("kafka.") and name not in SINK_OPTIONS | SPARK_OPTIONS | UNSAFE:
            raise SinkRefused(
                f"the exactly-once sink has no option {name!r}",
                hint=f"its options are kafka.*, checkpointLocation and {', '.join(sorted(SINK_OPTIONS))}",
            )
    return SinkOptions(
        client=client_settings(options, on_cluster=on_cluster),
        topic=options.get("topic"),
        partitions=_positive_int(options, "partitions", "1"),
        keys=options.get("keyfingerprint", ""),
        provenance=_boolean(options, "provenance"),
        sink=_name(options, "sinkid", DEFAULT_SINK),
        prefix=_name(options, "transactionalidprefix", DEFAULT_PREFIX),
        ledger=_name(options, "ledgertopic", DEFAULT_LEDGER),
        checkpoint=options.get("checkpointlocation"),
        checkpoint_store=_store_address(options.get("checkpointstore", "")),
        checkpoint_checks=_boolean(options, "checkpointchecks", "true"),
        expiry_guard_s=float("inf") if _boolean(options, "ignoreexpiry") else _expiry_guard_s(options),
        new_ledger=_boolean(options, "newledger"),
        started_ms=_positive_int(options, "startedms", "1"),
    )


def client_settings(options: Mapping[str, str], *, on_cluster: bool = True) -> dict[str, str | int | bool]:
    """librdkafka's settings for the ``kafka.*`` options; raises ``SinkRefused`` for one without an equivalent."""
    java = _dereferenced(
        {name[6:]: value for name, value in options.items() if name.startswith("kafka.")},
        on_cluster=on_cluster,
    )
    settings: dict[str, str | int | bool] = dict(DEFAULTS)
    settings.update(_store(java, "truststore"))
    settings.update(_store(java, "keystore"))
    settings.update(_jaas_login(java.pop("sasl.jaas.config", "")))
    if "buffer.memory" in java:
        settings["queue.buffering.max.kbytes"] = max(1, _positive_int(java, "buffer.memory", "0") // 1024)
        del java["buffer.memory"]
    if "ssl.endpoint.identification.algorithm" in java:
        settings["ssl.endpoint.identification.algorithm"] = (
            java.pop("ssl.endpoint.identification.algorithm") or "none"
        )
    for name, value in java.items():
        if name in REQUIRED_VALUES and value.lower() in REQUIRED_VALUES[name]:
            continue
        if name not in SAME_NAME and name not in RENAMED:
            raise _no_equivalent(name, value)
        settings[RENAMED.get(name, name)] = value
    settings["transaction.timeout.ms"] = _positive_int(
        {name: str(value) for name, value in settings.items()}, "transaction.timeout.ms", ""
    )
    if not settings.get("bootstrap.servers"):
        raise SinkRefused(
            "option kafka.bootstrap.servers is missing",
            hint="set it to HOST:PORT of the brokers, as the executors reach them",
        )
    return settings


def _no_equivalent(name: str, value: str) -> SinkRefused:
    if name in REQUIRED_VALUES:
        return SinkRefused(
            f"option kafka.{name} is {value!r}, but a transaction needs {REQUIRED_VALUES[name][0]!r}",
            detail="otherwise records may be lost or written twice without the ledger showing it",
            hint="leave it out",
        )
    return SinkRefused(
        f"option kafka.{name} cannot be used with this sink",
        detail="the sink uses librdkafka instead of Kafka's Java client, and librdkafka has no equivalent",
        hint=REFUSED.get(name, "leave it out, or see the table in tidemark/sink/sink_options.py"),
    )


def _store(java: dict[str, str], which: str) -> dict[str, str]:
    """Settings of a Java trust store or key store that OpenSSL can read; removes the Java settings from ``java``."""
    kind = java.pop(f"ssl.{which}.type", "JKS").upper()
    location = java.pop(f"ssl.{which}.location", "")
    password = java.pop(f"ssl.{which}.password", "")
    if not location:
        return {}
    files = store_settings(which, kind, location, password)
    if files is not None:
        return files
    raise SinkRefused(
        f"option kafka.ssl.{which}.location is {location!r}, a store of type {kind}",
        detail="librdkafka uses OpenSSL, which cannot read this type",
        hint=f"convert it to PEM, and set kafka.ssl.{which}.type to PEM",
    )


def _dereferenced(java: Mapping[str, str], *, on_cluster: bool) -> dict[str, str]:
    """Settings with what their references refer to; not on the cluster, settings without references."""
    providers = {name: java[name] for name in java if name.startswith(PROVIDERS)}
    settings = {name: value for name, value in java.items() if name not in providers}
    if not providers:
        return settings
    if providers != {PROVIDERS: "file", f"{PROVIDERS}.file.class": FILE_PROVIDER}:
        raise SinkRefused(
            f"option kafka.{PROVIDERS} is {providers.get(PROVIDERS)!r}",
            detail="the sink uses librdkafka instead of Kafka's Java client, and reads references to files only",
            hint=f"set kafka.{PROVIDERS} to file, and kafka.{PROVIDERS}.file.class to {FILE_PROVIDER}",
        )
    if not on_cluster:
        return {name: value for name, value in settings.items() if not REFERENCE.search(value)}
    files: dict[str, dict[str, str]] = {}

    def value_of(match: re.Match[str]) -> str:
        path, name = match.groups()
        try:
            files[path] = files.get(path) or read_properties(Path(path))
            return files[path][name]
        except (UsageError, KeyError) as error:
            why = error.detail if isinstance(error, UsageError) else f"it has no setting {name!r}"
            raise SinkRefused(
                f"the file {path!r}, to which options of the sink refer, cannot be used",
                detail=why,
                hint="driver and executors must see this file under this path, and be allowed to read it",
            ) from error

    return {name: REFERENCE.sub(value_of, value) for name, value in settings.items()}


def _jaas_login(jaas: str) -> dict[str, str]:
    """User and password from a JAAS configuration of the PLAIN or SCRAM login module."""
    if not jaas:
        return {}
    found = jaas_login(jaas)
    if found is None:
        raise SinkRefused(
            "option kafka.sasl.jaas.config has no user name and password of PLAIN or SCRAM",
            hint="set kafka.sasl.username and kafka.sasl.password instead; other mechanisms are not supported",
        )
    return {"sasl.username": found[1], "sasl.password": found[2]}


def _store_address(settings: str) -> str:
    for name, _ in parse_qsl(settings):
        if any(word in name.lower() for word in ("key", "secret", "token", "password")):
            raise SinkRefused(
                f"option checkpointStore has the setting {name}",
                detail="options are in the plan and the event log of a query, for everybody to read",
                hint="leave it out, and give the login in the driver's environment (for S3, AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, a profile, or the role of the machine)",
            )
    return settings


def _positive_int(options: Mapping[str, str], name: str, default: str) -> int:
    text = options.get(name, default)
    if not text.isdecimal() or int(text) < 1:
        raise SinkRefused(f"option {name} is {text!r}", hint="set it to an integer of 1 or more")
    return int(text)


def _boolean(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    text = options.get(name, default).lower()
    if text not in ("true", "false"):
        raise SinkRefused(f"option {name} is {text!r}", hint="set it to true or false")
    return text == "true"


def _name(options: Mapping[str, str], name: str, default: str) -> str:
    text = options.get(name, default)
    if not NAME.fullmatch(text):
        raise SinkRefused(
            f"option {name} is {text!r}", hint="set it to 1 to 100 letters, digits, '.', '_' and '-'"
        )
    return text


def _expiry_guard_s(options: Mapping[str, str]) -> float:
    """The option ``expiryGuardSeconds`` (five days by default), capped by the brokers' offset retention."""
    guard_s = float(_positive_int(options, "expiryguardseconds", str(int(5 * DAY_S))))
    if "offsetskeptseconds" not in options:
        return guard_s
    return min(guard_s, EXPIRY_SHARE * _positive_int(options, "offsetskeptseconds", ""))
