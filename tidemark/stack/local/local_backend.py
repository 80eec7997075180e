"""The preparation of a stack of local processes: Java and Spark of this machine, jars, free ports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tidemark.stack.api import Say
from tidemark.stack.components.plan import planned_record, published_ports
from tidemark.stack.install import hadoop_defaults_jar, schema_registry
from tidemark.stack.install import jars as jar_cache
from tidemark.stack.install.spark_install import spark_class_path, versions_of
from tidemark.stack.install.toolchain import check_java, find_java, find_spark
from tidemark.stack.registry import StackRecord, Supplies
from tidemark.stack.spec import StackSpec


class LocalBackend:
    """Processes of this machine, with its Java and the PySpark of an interpreter. See ``backends.Backend``."""

    def __init__(self, spec: StackSpec) -> None:
        self.spec = spec
        self._java = find_java()
        self.spark = find_spark(spec.python)

    def identity(self) -> Iterable[object]:
        """The spec, PySpark, Java and the jars."""
        java = os.path.realpath(self._java)
        jars = jar_cache.locked(*jar_cache.groups_of(self.spark.version), schema_registry.GROUP)
        jars += jar_cache.locked(f"kafka-{self.spec.kafka}", lock=jar_cache.BROKERS_LOCK)
        return (
            replace(self.spec, registry=False),
            self.spark,
            java,
            os.stat(java).st_mtime_ns,
            *jars,
            hadoop_defaults_jar.name(),
        )

    def provide(self, say: Say) -> Supplies:
        """Check Java, fetch the jars."""
        java_version = check_java(self._java, self.spark.version)
        broker, *others = groups = jar_cache.groups_of(self.spark.version)
        jars = jar_cache.provide(self._java, self.spark, groups if not self.spec.kafka else others, say)
        if self.spec.kafka:
            broker = f"kafka-{self.spec.kafka}"
            jars |= jar_cache.provide(self._java, self.spark, [broker], say, jar_cache.BROKERS_LOCK)
        no_defaults = hadoop_defaults_jar.write_into(jar_cache.cache_folder())
        spark_jars = [str(no_defaults), *(str(path) for group in others for path in jars[group])]
        return Supplies(
            java=str(self._java),
            java_home=str(Path(os.path.realpath(self._java)).parents[1]),
            spark_home=str(self.spark.home),
            spark_class_path=spark_class_path(self.spark, str(self.spark.home), spark_jars),
            worker_python=str(self.spec.python),
            broker_jars=[str(path) for path in jars[broker]],
            spark_jars=spark_jars,
            versions={"java": java_version, **versions_of(self.spark, self.spec.kafka)},
        )

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """A record with free ports for every component."""
        spec = self.spec
        admins = spec.brokers if spec.kafka_security else 0
        kafka, ports = published_ports(spec, 3 + 3 * spec.brokers + spec.workers + admins)
        return planned_record(
            spec,
            supplies,
            digest,
            kafka_ports=kafka,
            controller_ports=[next(ports) for _ in range(spec.brokers)],
            master_port=next(ports),
            worker_ports=[next(ports) for _ in range(spec.workers)],
            admin_ports=[next(ports) for _ in range(admins)],
            proxy_ports=[next(ports) for _ in range(spec.brokers)],
            proxied_ports=[next(ports) for _ in range(spec.brokers)],
            registry_ports=[next(ports), next(ports)],
        )
