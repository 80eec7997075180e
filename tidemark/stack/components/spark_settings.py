"""Every setting of Spark's daemons and of a driver, with the reason for it. Pure: data in, data out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

WORKER_CORES = 8
WORKER_MEMORY = "16g"
"""Declared, not taken: it only must not be what limits how many executors a worker is given."""
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
