"""The class path of a Spark installation and the versions that belong to it, for every backend."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.stack.install import jars as jar_cache
from tidemark.stack.install.toolchain import Spark


def spark_class_path(spark: Spark, home: str, extra: Sequence[str]) -> str:
    """The class path that Spark gives its executors, with Spark in ``home``.

    All JVMs use this one, so that they share class archives. ``extra`` is ``spark.executor.extraClassPath``.
    """
    slf4j = next(iter(sorted(spark.jars.glob("slf4j-api-*.jar"))), spark.jars / "slf4j-api.jar")
    return ":".join([*extra, f"{home}/conf", f"{home}/jars/{slf4j.name}", f"{home}/jars/*"])


def versions_of(spark: Spark, kafka: str = "") -> dict[str, str]:
    """The versions of Kafka, Spark, connector and Python, the same for all backends.

    ``kafka`` is the version that a stack was asked for, empty for its own.
    """
    return {
        "kafka": kafka or jar_cache.kafka_version(),
        "spark": spark.version,
        "connector": jar_cache.connector_version(spark.version),
        "python": spark.python_version,
    }
