"""Every setting of the broker, of Spark's daemons and of a driver, with the reason for it. Pure: data in, data out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WORKER_CORES = 8
WORKER_MEMORY = "16g"
"""Declared, not taken: it only must not be what limits how many executors a worker is given."""
BROKER_HEAP = ("-Xms96m", "-Xmx512m")
DAEMON_HEAP = ("-Xms16m", "-Xmn4m", "-Xmx128m")
DRIVER_HEAP = ("-Xms96m", "-Xmx1g")
"""Small beginnings: left alone, a JVM begins with 1/64 of the machine, and fills it before it collects."""
EXECUTORS_PER_DRIVER = 2
DAEMON_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
"""Start fast, stay small. C1 alone runs up to 2x slower when warm, which a daemon does not show."""
DRIVER_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:-UsePerfData",
    "-XX:MetaspaceSize=192m",
)
"""Of a driver, and of its executors. Without a word on it C1 has 48 MB for code: a driver that serves dozens of queries
fills them, and then throws away what it compiles again a moment later. And each time that classes fill another few of
the first 60 MB of their space the whole heap is collected: four times in the first ten seconds."""
SPARK_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.invoke",
            "java.lang.reflect",
            "java.io",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "jdk.internal.ref",
            "sun.nio.ch",
            "sun.nio.cs",
            "sun.security.action",
            "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""What Spark's launcher gives its JVMs (JavaModuleOptions); the launcher itself would cost 0.5 s each."""
LONG_MAX = 2**63 - 1

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


@dataclass(frozen=True)
class BrokerNetwork:
    """Where the brokers of a cluster are, each list in the order of their node ids, which begin with 1.

    ``host`` is what clients on this machine use, ``inside`` what brokers, driver and executors use; empty where that is
    the same. ``controller`` is the quorum's. ``bind`` is the address that a broker listens at.
    """

    bind: str
    host: Sequence[str]
    inside: Sequence[str]
    controller: Sequence[str]


def broker_properties(node: int, data: Path, network: BrokerNetwork) -> str:
    """``server.properties`` of a broker that is a controller as well (KRaft combined mode)."""
    named = {"HOST": network.host, "INTERNAL": network.inside, "CONTROLLER": network.controller}
    own = {name: addresses[node - 1] for name, addresses in named.items() if addresses}
    listeners = [f"{name}://{network.bind}:{address.rsplit(':', 1)[1]}" for name, address in own.items()]
    replicas = len(network.host)
    in_sync = max(1, replicas - 1)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{n}@{at}" for n, at in enumerate(network.controller, 1)),
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in own.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in own),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL" if network.inside else "HOST",
        "log.dirs": data,
        # One broker has no second replica. Of three, each holds everything, and two must have a record before it
        # counts as written: any one of them may be lost.
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Fifty partitions each by default: seconds of work at the first commit and at every restart.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        # A trace keeps its own record timestamps: of years ago, and far in the future (sentinels).
        "log.retention.ms": -1,
        "log.message.timestamp.before.max.ms": LONG_MAX,
        "log.message.timestamp.after.max.ms": LONG_MAX,
        # A misspelt topic is an error, not an empty topic.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        # A broker that was killed is back after 3 s of fencing instead of 9.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def master_conf(recovery: Path) -> dict[str, str]:
    """Settings of the Spark master."""
    return {
        # Chaos kills executors by the dozen; by default ten failures in a row remove the application.
        "spark.deploy.maxExecutorRetries": "-1",
        # Its port is fixed (6066), so a second stack on this machine would not start.
        "spark.master.rest.enabled": "false",
        "spark.port.maxRetries": "0",
        # A master that was killed comes back knowing its workers and applications.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(recovery),
    }


def worker_conf() -> dict[str, str]:
    """Settings of a Spark worker."""
    return {"spark.port.maxRetries": "0", "spark.worker.cleanup.enabled": "false"}


def driver_network(host: str, bind: str, connect_port: int) -> dict[str, str]:
    """Where a driver is: ``host`` for its executors, ``bind`` the address that it listens at."""
    return {
        "spark.driver.host": host,
        "spark.driver.bindAddress": bind,
        "spark.connect.grpc.binding.address": bind,
        "spark.connect.grpc.binding.port": str(connect_port),
        "spark.connect.grpc.port.maxRetries": "0",
    }


def driver_conf(folder: Path, event_logs: Path) -> dict[str, str]:
    """Settings of a driver: a Spark Connect server whose executors have one core each."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # An executor that chaos kills must never fail a job, and must not be waited for longer than need be.
        "spark.task.maxFailures": "16",
        "spark.stage.maxConsecutiveAttempts": "32",
        "spark.excludeOnFailure.enabled": "false",
        "spark.shuffle.io.maxRetries": "2",
        "spark.shuffle.io.retryWait": "500ms",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.streaming.minBatchesToRetain": "100000",
        "spark.python.worker.reuse": "true",
        # The event log is evidence: one plain file, complete to the last event.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def local_files(spark: str) -> dict[str, str]:
    """How a driver and its executors write local files: without starting a process for each. ``spark``: its version.

    Hadoop without its native library, which no wheel has, runs ``chmod`` for each file that is made, and ``readlink``
    several times for each that is renamed (``RawLocalFileSystem.setPermission``, ``RawLocalFs.getFileLinkStatus``);
    each batch writes many. BareLocalFileSystem asks Java instead; Spark's manager for plain file systems renames with
    it, and refuses what is there, as the other one does.
    """
    package = "org.apache.spark.sql.execution.streaming"
    if not spark.startswith("4.0."):
        package += ".checkpointing"
    return {
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": f"{package}.FileSystemBasedCheckpointFileManager",
    }


def as_java_properties(conf: Mapping[str, str]) -> list[str]:
    """Spark settings as ``-D`` options."""
    return [f"-D{name}={value}" for name, value in conf.items()]


def as_spark_file(conf: Mapping[str, str]) -> str:
    """Spark settings as the text of a ``--properties-file``."""
    return "".join(f"{name} {_escaped(value)}\n" for name, value in conf.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
