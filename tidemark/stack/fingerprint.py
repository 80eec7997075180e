"""The fingerprint of a stack: a running stack is reused only if it has the fingerprint of the requested one.

It covers everything that shapes a stack: its spec (but not whether it has a schema registry, which a running stack is
given when it is asked for one), the versions (of tidemark, PySpark, Java, the image), the jars, and
the launch spec of each component with every setting. The launch specs are generated in a temporary folder and hashed,
so any code change that affects a launch changes the fingerprint, and any other change does not.

Not covered: ports and paths, which are chosen for each stack; the variables inherited from the shell; and whether a
class archive exists yet. The code that starts processes (``spawn``, Compose) counts through tidemark's version.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidemark import __version__
from tidemark.processes import INHERITED
from tidemark.stack.api import DRIVER
from tidemark.stack.backends import Backend
from tidemark.stack.components import cds, launch_specs
from tidemark.stack.components.plan import planned_record
from tidemark.stack.install.spark_install import spark_class_path, versions_of
from tidemark.stack.registry import ComponentRecord, StackRecord, StateFolder, Supplies
from tidemark.stack.spec import StackSpec

_STAND_IN = "stand-in"
"""Replaces the paths of what was provided for a stack; :meth:`Backend.identity` covers those."""


def digest_of(spec: StackSpec, backend: Backend | None) -> str:
    """The SHA-256 fingerprint of a stack. An external one has no backend; its fingerprint covers the spec only.

    Raises what :meth:`Backend.identity` raises.
    """
    digest = hashlib.sha256()
    for value in (__version__, *(backend.identity() if backend is not None else [spec])):
        digest.update(f"{value}\n".encode())
    if backend is not None:
        for content in _launch_specs(backend):
            digest.update(f"{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _launch_specs(backend: Backend) -> Iterator[bytes]:
    """The launch spec of every component, and the files that it reads."""
    with tempfile.TemporaryDirectory(prefix="tidemark-specs-") as name:
        state = StateFolder(Path(name))
        state.path.mkdir()
        record = _stand_in(backend)
        for component in _components(state, record):
            yield _without_path(msgspec.json.encode(_own(component, record)), name)
        for path in sorted(path for path in state.path.rglob("*") if path.is_file()):
            yield str(path.relative_to(state.path)).encode()
            yield _without_path(path.read_bytes(), name)
    yield " ".join(cds.MAPPED).encode()


def _stand_in(backend: Backend) -> StackRecord:
    """The record of a stack of this spec, with fixed ports.

    It names an image for every backend, so that no class archive is found: archives must not affect the fingerprint.
    """
    spec, spark = backend.spec, backend.spark
    supplies = Supplies(
        java=f"{_STAND_IN}/bin/java",
        java_home=_STAND_IN,
        spark_home=_STAND_IN,
        spark_class_path=spark_class_path(spark, _STAND_IN, [_STAND_IN]),
        worker_python=_STAND_IN,
        broker_jars=[_STAND_IN],
        spark_jars=[_STAND_IN],
        versions=versions_of(spark, spec.kafka),
        image=_STAND_IN,
    )
    ports = {"kafka_ports": spec.brokers, "controller_ports": spec.brokers, "worker_ports": spec.workers}
    ports |= {"proxy_ports": spec.brokers, "proxied_ports": spec.brokers}
    if spec.backend == "local":
        ports |= {"registry_ports": 2}
    if spec.kafka_security:
        ports["admin_ports"] = spec.brokers
    numbers = {name: [1 + number for number in range(count)] for name, count in ports.items()}
    return planned_record(spec, supplies, "", None, **numbers, master_port=1)


def _components(state: StateFolder, record: StackRecord) -> Iterator[ComponentRecord]:
    """All components, as a cold start plans them."""
    yield from (launch_specs.broker(state, record, 1 + node) for node in range(len(record.kafka_ports)))
    yield launch_specs.master(state, record)
    yield from (launch_specs.worker(state, record, 1 + number) for number in range(record.workers))
    yield launch_specs.driver(state, record, DRIVER, 1, {})
    if record.registry_ports:
        yield launch_specs.registry(state, record, Path(_STAND_IN))  # a stack is given one later, too


def _own(component: ComponentRecord, record: StackRecord) -> ComponentRecord:
    """A component without inherited variables; for a container also writes its start script."""
    if record.backend == "compose":
        from tidemark.stack.compose.container_runtime import write_script

        write_script(component)
        return component
    own = {name: value for name, value in component.env.items() if name not in INHERITED}
    return msgspec.structs.replace(component, env=own)


def _without_path(content: bytes, folder: str) -> bytes:
    return content.replace(folder.encode(), b"HOME")
