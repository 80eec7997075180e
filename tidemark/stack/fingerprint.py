"""What a stack is made of, as one number: a running stack with another one is another stack.

It counts what shapes a stack: its spec, the versions (of tidemark, PySpark, Java, the image), the jars, and what each
component is launched with, down to every setting. For the last the launch specs of a stack of this spec are made, in a
folder that is thrown away, and read: whatever decides how a component is launched shows in them, whichever module it is
in, and an edit that changes none of them leaves a running stack the one that was asked for.

Not counted: ports and paths, which are chosen anew for every stack; the variables that are handed down from a shell;
and whether there is a class archive yet. The mechanics of starting (``spawn``, Compose) count by tidemark's version.
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
"""In place of what was provided for a stack, which :meth:`Backend.identity` names."""


def digest_of(spec: StackSpec, backend: Backend | None) -> str:
    """The SHA-256 of what a stack is made of; without a backend it is an external one, and its spec is all there is.

    Raises what :meth:`Backend.identity` does.
    """
    digest = hashlib.sha256()
    for component in (__version__, *(backend.identity() if backend is not None else [spec])):
        digest.update(f"{component}\n".encode())
    if backend is not None:
        for content in _launch_specs(backend):
            digest.update(f"{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _launch_specs(backend: Backend) -> Iterator[bytes]:
    """What every component would be launched with, and the files that it would read."""
    with tempfile.TemporaryDirectory(prefix="tidemark-specs-") as name:
        state = StateFolder(Path(name))
        state.path.mkdir()
        record = _stand_in(backend)
        for component in _components(state, record):
            yield _without_place(msgspec.json.encode(_own(component, record)), name)
        for path in sorted(path for path in state.path.rglob("*") if path.is_file()):
            yield str(path.relative_to(state.path)).encode()
            yield _without_place(path.read_bytes(), name)
    yield " ".join(cds.MAPPED).encode()


def _stand_in(backend: Backend) -> StackRecord:
    """The record of a stack of this spec, as if it was planned: with ports that are always the same.

    It has an image, whatever the backend, so that it has no class archive: which there is says nothing of the stack.
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
        versions=versions_of(spark),
        image=_STAND_IN,
    )
    ports = {"kafka_ports": spec.brokers, "controller_ports": spec.brokers, "worker_ports": spec.workers}
    numbers = {name: [1 + number for number in range(count)] for name, count in ports.items()}
    return planned_record(spec, supplies, "", None, **numbers, master_port=1)


def _components(state: StateFolder, record: StackRecord) -> Iterator[ComponentRecord]:
    """All components, as a cold start would plan them."""
    yield from (launch_specs.broker(state, record, 1 + node) for node in range(len(record.kafka_ports)))
    yield launch_specs.master(state, record)
    yield from (launch_specs.worker(state, record, 1 + number) for number in range(record.workers))
    yield launch_specs.driver(state, record, DRIVER, 1, {})


def _own(component: ComponentRecord, record: StackRecord) -> ComponentRecord:
    """A component without the variables that it is handed down; one in a container has its script beside it."""
    if record.backend == "compose":
        from tidemark.stack.compose.container_runtime import write_script

        write_script(component)
        return component
    own = {name: value for name, value in component.env.items() if name not in INHERITED}
    return msgspec.structs.replace(component, env=own)


def _without_place(content: bytes, folder: str) -> bytes:
    return content.replace(folder.encode(), b"HOME")
