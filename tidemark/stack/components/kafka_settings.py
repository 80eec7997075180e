"""Every setting of a broker, with its reason. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BROKER_HEAP = ("-Xms96m", "-Xmx512m")
LONG_MAX = 2**63 - 1
PROXIED = "PROXIED"
"""The listener that advertises the network proxy's address."""
BROKER_LOG4J = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.config.name = kafka.server.KafkaConfig
logger.config.level = warn
logger.values.name = org.apache.kafka.common.config.AbstractConfig
logger.values.level = warn
"""
LOG4J_BEFORE_4 = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.logger.org.apache.kafka.common.config.AbstractConfig=WARN
"""


@dataclass(frozen=True)
class BrokerNetwork:
    """The addresses of a cluster's brokers, each list in the order of the node ids, which start at 1.

    Clients on this machine use ``host``; brokers, driver and executors use ``inside``, which is empty where they use
    ``host`` too. ``controller`` has the addresses of the quorum. A broker listens at ``bind``. Where clients have to
    log in, tidemark uses ``admin``; brokers use it, too, or ``between``, if that is not empty; and ``security`` has the
    settings for that. ``proxied`` are the addresses of the network proxy, one for each broker, which are advertised to
    clients behind it; brokers listen for them at ``proxied_ports``. Both are empty where there can be no such proxy.
    """

    bind: str
    host: Sequence[str]
    inside: Sequence[str]
    controller: Sequence[str]
    admin: Sequence[str] = ()
    between: Sequence[str] = ()
    proxied: Sequence[str] = ()
    proxied_ports: Sequence[int] = ()
    security: Mapping[str, str] = field(default_factory=dict)


def broker_properties(node: int, data: Path, network: BrokerNetwork) -> str:
    """``server.properties`` of a broker that is also a controller (KRaft combined mode)."""
    listeners, advertised = _listeners(node, network)
    replicas = len(network.host)
    in_sync = max(1, replicas - 1)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{n}@{at}" for n, at in enumerate(network.controller, 1)),
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL" if network.inside else "HOST",
        "log.dirs": data,
        # One broker has no second replica. Of three brokers each has every partition, and two must have a record before
        # it is acknowledged: any one of them may be lost.
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # By default fifty partitions each, which cost seconds at the first commit and at every restart.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        # A trace has its own record timestamps: years ago, and (sentinels) far in the future.
        "log.retention.ms": -1,
        "log.message.timestamp.before.max.ms": LONG_MAX,
        "log.message.timestamp.after.max.ms": LONG_MAX,
        # A misspelt topic is an error, not an empty topic.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker is fenced for 3 s before it can return, instead of 9 s.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "log.cleaner.backoff.ms": 1000,  # a trace with compacted topics waits for it, by default 15 s
        **network.security,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _listeners(node: int, network: BrokerNetwork) -> tuple[dict[str, str], dict[str, str]]:
    """The addresses at which a broker listens, and those that it advertises, by the names of the listeners."""
    named = {
        "HOST": network.host, "INTERNAL": network.inside, PROXIED: network.proxied, "ADMIN": network.admin,
        "BETWEEN": network.between, "CONTROLLER": network.controller,
    }  # fmt: skip
    own = {name: addresses[node - 1] for name, addresses in named.items() if addresses}
    ports = {name: address.rsplit(":", 1)[1] for name, address in own.items()}
    if network.proxied:
        ports[PROXIED] = str(network.proxied_ports[node - 1])
    return {name: f"{network.bind}:{port}" for name, port in ports.items()}, own
