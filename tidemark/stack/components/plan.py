"""The record of a stack before anything of it is started, with its free ports chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tidemark.stack.components.ports import free_ports, requested_port
from tidemark.stack.registry import StackRecord, Supplies
from tidemark.stack.spec import StackSpec


def published_ports(spec: StackSpec, others: int = 0) -> tuple[list[int], Iterator[int]]:
    """The brokers' ports, the first as requested, and an iterator over ``others`` more free ports."""
    requested = None if spec.kafka_port is None else requested_port(spec.kafka_port)
    ports = iter([port for port in free_ports(1 + spec.brokers + others) if port != requested])
    return [requested or next(ports), *(next(ports) for _ in range(spec.brokers - 1))], ports


def planned_record(
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
        kafka=spec.kafka,
        kafka_security=spec.kafka_security,
        **msgspec.structs.asdict(supplies),
        **ports,  # type: ignore[arg-type]
    )
