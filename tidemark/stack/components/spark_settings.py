"""Every setting of Spark's daemons and of a driver, with its reason. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

WORKER_CORES = 8
WORKER_MEMORY = "16g"
"""Declared, not allocated: it must not limit the number of executors on a worker."""
DAEMON_HEAP = ("-Xms16m", "-Xmn4m", "-Xmx128m")
REGISTRY_HEAP = ("-Xms32m", "-Xmx256m")
DRIVER_HEAP = ("-Xms96m", "-Xmx2g")
"""Small initial heaps: by default a JVM starts with 1/64 of the machine's memory and fills it before it collects.

A driver keeps each query for an hour after it was stopped, with its last plan (``SparkConnectStreamingQueryCache``):
about 1 MB of a join.
"""
EXECUTORS_PER_DRIVER = 2
DAEMON_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
"""For a fast start and little memory. C1 alone is up to 2x slower when warm, which does not matter for a daemon."""
DRIVER_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:-UsePerfData",
    "-XX:MetaspaceSize=192m",
)
"""For a driver and its executors. C1's default code cache of 48 MB is too small for a driver with dozens of queries: it
discards compiled code and compiles it again. The default metaspace threshold causes four full collections in the first
ten seconds, while classes are loaded."""
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
"""The options of Spark's own launcher (JavaModuleOptions); running the launcher would cost 0.5 s per JVM."""


def master_conf(recovery: Path) -> dict[str, str]:
    """Settings of the Spark master."""
    return {
        # Injected faults kill dozens of executors; by default ten failures in a row remove the application.
        "spark.deploy.maxExecutorRetries": "-1",
        # Its port is fixed (6066): a second stack on this machine could not start.
        "spark.master.rest.enabled": "false",
        "spark.port.maxRetries": "0",
        # A killed master recovers its workers and applications.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(recovery),
    }


def worker_conf() -> dict[str, str]:
    """Settings of a Spark worker."""
    return {"spark.port.maxRetries": "0", "spark.worker.cleanup.enabled": "false"}


def driver_network(host: str, bind: str, connect_port: int) -> dict[str, str]:
    """The addresses of a driver: executors connect to ``host``, the driver listens at ``bind``."""
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
        # Nobody looks at them; by default the plans of 1,000 executions are kept.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # A killed executor must never fail a job, and its shuffle files must not be waited for longer than necessary.
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
        # The event log is evidence: one uncompressed file, complete up to the last event.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def local_files(spark: str) -> dict[str, str]:
    """Settings that write local files without starting a process for each. ``spark`` is Spark's version.

    Without its native library, which no wheel contains, Hadoop runs ``chmod`` for each new file and ``readlink``
    several times for each renamed one (``RawLocalFileSystem.setPermission``, ``RawLocalFs.getFileLinkStatus``), and
    each batch writes many files. BareLocalFileSystem uses Java's own calls. Spark's
    FileSystemBasedCheckpointFileManager renames through it and, like the default manager, refuses to overwrite.
    """
    package = "org.apache.spark.sql.execution.streaming"
    if not spark.startswith(("3.5.", "4.0.")):
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
