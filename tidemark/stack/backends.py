"""What the backends have to have before a stack can be started, and how they plan it.

A backend is found for a spec by :func:`backend_of`, the runtime of a stack that is there by :func:`runtime_of`. Finding
is cheap: a warm ``tidemark up`` passes through here, and nothing of containers is imported for a stack of processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from tidemark.stack import hadoop
from tidemark.stack import jars as jar_cache
from tidemark.stack.ports import asked_port, free_ports
from tidemark.stack.processes import ProcessRuntime
from tidemark.stack.runtime import Runtime
from tidemark.stack.spec import StackSpec
from tidemark.stack.state import StackRecord, StateFolder, Supplies
from tidemark.stack.toolchain import Spark, check_java, find_java, find_spark

Say = Callable[[str], None]


class Backend(Protocol):
    """How stacks of a kind are made ready."""

    spec: StackSpec
    spark: Spark

    def identity(self) -> Iterable[object]:
        """What a stack of this spec depends on besides its launch specs: another one is another stack."""

    def provide(self, say: Say) -> Supplies:
        """Have everything that a stack needs, fetched or built if need be. Ports are not chosen yet."""

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """Choose ports and say what the stack will be."""


def backend_of(spec: StackSpec, home: Path) -> Backend:
    """The backend for a spec; raises ``TidemarkError`` if this machine cannot have it."""
    if spec.backend == "local":
        return LocalBackend(spec)
    from tidemark.stack.compose import ComposeBackend

    return ComposeBackend(spec, home)


def runtime_of(state: StateFolder, backend: str) -> Runtime:
    """The runtime of a stack, or of what is left of one."""
    if backend == "compose":
        from tidemark.stack.containers import ContainerRuntime

        return ContainerRuntime(state)
    return ProcessRuntime(state)


class LocalBackend:
    """Processes of this machine, with its Java and the PySpark of an interpreter."""

    def __init__(self, spec: StackSpec) -> None:
        self.spec = spec
        self._java = find_java()
        self.spark = find_spark(spec.python)

    def identity(self) -> Iterable[object]:
        """The spec, PySpark, Java, and the jars."""
        java = os.path.realpath(self._java)
        jars = jar_cache.locked(*jar_cache.groups_of(self.spark.version))
        return self.spec, self.spark, java, os.stat(java).st_mtime_ns, *jars, hadoop.name()

    def provide(self, say: Say) -> Supplies:
        """Check Java, fetch the jars."""
        java_version = check_java(self._java)
        broker, *others = groups = jar_cache.groups_of(self.spark.version)
        jars = jar_cache.provide(self._java, self.spark, groups, say)
        no_defaults = hadoop.write_into(jar_cache.cache_folder())
        spark_jars = [str(no_defaults), *(str(path) for group in others for path in jars[group])]
        return Supplies(
            java=str(self._java),
            java_home=str(Path(os.path.realpath(self._java)).parents[1]),
            spark_home=str(self.spark.home),
            spark_class_path=spark_class_path(self.spark, str(self.spark.home), spark_jars),
            worker_python=str(self.spec.python),
            broker_jars=[str(path) for path in jars[broker]],
            spark_jars=spark_jars,
            versions={"java": java_version, **versions_of(self.spark)},
        )

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """Free ports for every part."""
        spec = self.spec
        kafka, ports = published_ports(spec, 1 + spec.brokers + spec.workers)
        return planned(
            spec,
            supplies,
            digest,
            kafka_ports=kafka,
            controller_ports=[next(ports) for _ in range(spec.brokers)],
            master_port=next(ports),
            worker_ports=[next(ports) for _ in range(spec.workers)],
        )


def published_ports(spec: StackSpec, others: int = 0) -> tuple[list[int], Iterator[int]]:
    """The brokers' ports, the first of them as asked for, and ``others`` more that are free too."""
    asked = None if spec.kafka_port is None else asked_port(spec.kafka_port)
    ports = iter([port for port in free_ports(1 + spec.brokers + others) if port != asked])
    return [asked or next(ports), *(next(ports) for _ in range(spec.brokers - 1))], ports


def spark_class_path(spark: Spark, home: str, extra: Sequence[str]) -> str:
    """The class path that Spark gives its executors, with Spark in ``home``: they share its archives.

    ``extra`` is their ``spark.executor.extraClassPath``.
    """
    slf4j = next(iter(sorted(spark.jars.glob("slf4j-api-*.jar"))), spark.jars / "slf4j-api.jar")
    return ":".join([*extra, f"{home}/conf", f"{home}/jars/{slf4j.name}", f"{home}/jars/*"])


def versions_of(spark: Spark) -> dict[str, str]:
    """Versions that are the same for all backends."""
    return {
        "kafka": jar_cache.kafka_version(),
        "spark": spark.version,
        "connector": jar_cache.connector_version(spark.version),
        "python": spark.python_version,
    }


def planned(
    spec: StackSpec,
    supplies: Supplies,
    digest: str,
    spark_conf: Mapping[str, str] | None = None,
    **ports: object,
) -> StackRecord:
    """The record of a stack, before it is ready."""
    return StackRecord(
        digest=digest,
        backend=spec.backend,
        python=str(spec.python),
        workers=spec.workers,
        asked_kafka_port=spec.kafka_port,
        spark_conf=dict(spark_conf or {}),
        external=spec.external,
        **msgspec.structs.asdict(supplies),
        **ports,  # type: ignore[arg-type]
    )
