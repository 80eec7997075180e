"""The records of a stack on disk, from which any process can use, repair or end it.

Below ``PROJECT/.tidemark``: ``lock`` (held by the process that starts or ends a stack) and ``stack/``::

    token                 the mark of its processes
    backend               the backend that runs it
    stack.json            the stack: spec, digest, ports, versions, ready, kept
    components/NAME.json  a component: how it is started (argv, environment), and its current process
    leases/*.json         the processes that use the stack
    stopped/*.json        suspended targets with their owners: resumed when the owner has died
    killed/NAME.json      the owner that has killed a component: void once that is started again, or without a lease
    sessions/*.json       Connect sessions with their owners: released when the owner has died
    logs/ event-logs/ work/ broker/ worker-1/ … driver/

Every process of a stack and every descendant carries its token in the environment (``TIDEMARK_STACK``), every container
as a label; the stack's end finds them by it. Records are written atomically; the record of a process that has died is
void.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from tidemark import __version__
from tidemark.atomic_files import write_atomically
from tidemark.errors import DeadlineExceeded, TestbedError, UnknownStack
from tidemark.processes import ProcessId, end, marked
from tidemark.stack.api import ComponentKind, Say, ignored
from tidemark.stack.spec import External, StackSpec
from tidemark.waiting import wait_until

TOKEN_VARIABLE = "TIDEMARK_STACK"
LOCK_S = 7200.0
"""Calibration: the lock is held for a whole cold start; the system frees that of a process that dies. The longest steps
have limits of their own: 10 minutes for jars, 10 for a schema registry, 15 for each of three steps of an image."""
END_S = 4.0
"""Calibration: the daemons end within 2 s of SIGTERM; the data of a stack that ends are not needed any more."""

LAYOUT = 9
"""The version of the records. It must change when a field is added, changed or removed."""

R = TypeVar("R", bound=msgspec.Struct)


class Supplies(msgspec.Struct, kw_only=True):
    """What was fetched or built for a stack: paths as its components see them. An external stack has versions only.

    ``spark_jars`` come before Spark's own jars on the class path; ``spark_class_path`` has both.
    """

    versions: dict[str, str]
    java: str = ""
    java_home: str = ""
    spark_home: str = ""
    spark_class_path: str = ""
    worker_python: str = ""
    broker_jars: list[str] = []
    spark_jars: list[str] = []
    image: str = ""


class StackRecord(Supplies, kw_only=True):
    """``stack.json``. ``digest`` is the fingerprint of the stack (:mod:`tidemark.stack.fingerprint`).

    ``layout`` and ``tidemark`` (the version) keep their names in all versions: they tell which version can read the
    record. ``python`` is the interpreter of the clients. ``spark_conf`` has settings of an external driver.
    ``kafka`` is the version of Kafka that was asked for, empty for the stack's own.
    ``admin_ports`` are those of the brokers' listener for each other, where clients have to log in.
    ``proxy_ports`` are those at which the network proxy listens, one for each broker, ``proxied_ports`` those to which
    it passes on; both are empty where there can be none. ``registry_ports`` are that of the proxy for the schema
    registry, and the registry's own.
    """

    layout: int = LAYOUT
    tidemark: str = __version__
    digest: str
    backend: str
    python: str
    workers: int
    asked_kafka_port: int | None
    kafka_ports: list[int] = []
    controller_ports: list[int] = []
    master_port: int = 0
    worker_ports: list[int] = []
    spark_conf: dict[str, str] = {}
    external: External | None = None
    kafka: str = ""
    kafka_security: str = ""
    admin_ports: list[int] = []
    proxy_ports: list[int] = []
    proxied_ports: list[int] = []
    registry_ports: list[int] = []
    ready: bool = False
    kept: bool = False

    @property
    def spec(self) -> StackSpec:
        """The spec that the stack was started with."""
        return StackSpec(
            self.backend,
            Path(self.python),
            self.workers,
            self.asked_kafka_port,
            max(1, len(self.kafka_ports)),
            self.external,
            kafka=self.kafka,
            kafka_security=self.kafka_security,
        )


class ComponentRecord(msgspec.Struct, kw_only=True):
    """``components/NAME.json``. ``owner`` is set for a private driver, which ends with its owner.

    ``before`` is a command that runs once, before the first start. ``process`` and ``log`` belong to a process of this
    machine; a component in a container does not use them.
    """

    name: str
    kind: ComponentKind
    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: str
    address: str
    before: list[str] = []
    process: ProcessId | None = None
    log_start: int = 0
    owner: ProcessId | None = None

    @property
    def port(self) -> int:
        """The port of its address."""
        return int(self.address.rsplit(":", 1)[1].partition("/")[0])


class _Origin(msgspec.Struct):
    """The fields of ``stack.json`` that every version has; the defaults are those of the first, which had none."""

    layout: int = 1
    tidemark: str = "0.1.0 or earlier"


class Lease(msgspec.Struct):
    """``leases/*.json``."""

    owner: ProcessId


class Target(msgspec.Struct, frozen=True):
    """What can be suspended: a process of this machine, a container, or a process inside a container.

    With ``container``, ``process`` is one inside it, and ``None`` means the whole container. ``network``: disconnect
    instead of suspend. ``family``: the process and all its descendants. ``link`` is a broker whose link through the
    network proxy is disturbed, or a worker or ``BROKER-packets`` whose packets are watched; then there is nothing else.
    """

    process: ProcessId | None = None
    container: str = ""
    network: bool = False
    family: bool = False
    link: str = ""


class Stopped(msgspec.Struct):
    """``stopped/*.json``: ``owner`` has suspended ``target``."""

    target: Target
    owner: ProcessId


class Session(msgspec.Struct):
    """``sessions/*.json``."""

    session_id: str
    user_id: str
    remote: str
    owner: ProcessId


class StateFolder:
    """The state of one project's stack. ``home`` is ``PROJECT/.tidemark``."""

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.path = self.home / "stack"

    @contextmanager
    def lock(self, timeout_s: float = LOCK_S, *, say: Say = ignored) -> Iterator[None]:
        """Only one process at a time starts or ends the stack; the system frees the lock of a dead process. Not
        reentrant.

        Raises ``DeadlineExceeded`` if another process holds it for longer; ``timeout_s=0`` does not wait.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            file = (self.home / "lock").open("a+")
        except OSError as error:
            raise TestbedError(
                f"{str(self.home)!r} cannot be written",
                detail=str(error),
                hint="run tidemark in a writable folder",
            ) from error
        with file:

            def taken() -> bool:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

            if not taken():
                say(f"waiting for process {self._holder()}, which is starting or ending the stack")
            try:
                wait_until(
                    taken,
                    timeout_s,
                    lambda: f"the lock {self.home / 'lock'}, held by process {self._holder()}",
                )
            except DeadlineExceeded as error:
                error.hint = "that process is starting or ending the stack: wait for it, or end it"
                raise
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def read(self) -> StackRecord | None:
        """The stack's record, or ``None`` if there is no stack.

        Raises ``UnknownStack`` if another version has started it, or its record is damaged. Its processes can still be
        ended: they carry the token.
        """
        try:
            content = (self.path / "stack.json").read_bytes()
            origin = msgspec.json.decode(content, type=_Origin)
            if origin.layout == LAYOUT:
                return msgspec.json.decode(content, type=StackRecord)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise self._unknown("has a record that cannot be read", str(error)) from error
        written = (
            f"its records have layout {origin.layout}, this version ({__version__}) reads layout {LAYOUT}"
        )
        raise self._unknown(f"was started by another version of tidemark ({origin.tidemark})", written)

    def _unknown(self, what: str, why: str) -> UnknownStack:
        token = self.token()
        count = len(marked(TOKEN_VARIABLE, token)) if token else 0
        return UnknownStack(
            f"the stack in {self.path} {what}",
            detail=f"{why}; {count} of its processes run on this machine",
            hint="`tidemark down` ends it and removes its data; to use it, run the version of tidemark that started it",
        )

    def is_kept(self) -> bool:
        """Whether the stack lives until :func:`tidemark.stack.down`, as one whose record cannot be read does."""
        try:
            record = self.read()
        except UnknownStack:
            return True
        return record is not None and record.kept

    def write(self, record: StackRecord) -> None:
        """Write ``stack.json``."""
        _write(self.path / "stack.json", record)

    def token(self) -> str | None:
        """The mark of the stack's processes, or ``None`` if there is no stack."""
        try:
            return (self.path / "token").read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def backend(self) -> str:
        """The backend of the stack, or of its remains."""
        try:
            return (self.path / "backend").read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return "local"

    def make(self, backend: str = "local") -> str:
        """Create the folder of a new stack; returns its token."""
        token = secrets.token_hex(16)
        try:
            self.path.mkdir(parents=True)
            (self.path / "backend").write_text(backend, encoding="utf-8")
            (self.path / "token").write_text(token, encoding="utf-8")
        except OSError as error:
            raise TestbedError(
                f"{str(self.path)!r} cannot be created",
                detail=str(error),
                hint="the stack's data are stored in the project folder: it must be writable and have some GB free",
            ) from error
        return token

    @contextmanager
    def component_lock(self, name: str) -> Iterator[None]:
        """Only one process at a time does ``name`` (``start-driver``, ``suspend-driver`` …); the others wait."""
        folder = self.path / "locks"
        folder.mkdir(exist_ok=True)
        with (folder / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def component(self, name: str) -> ComponentRecord | None:
        """The record of a component, if there is one."""
        return _read(self.path / "components" / f"{name}.json", ComponentRecord)

    def components(self) -> list[ComponentRecord]:
        """All components: brokers, master, workers, driver, private drivers."""
        found = [_read(path, ComponentRecord) for path in self._files("components")]
        order = list(ComponentKind)
        return sorted(
            (component for component in found if component is not None),
            key=lambda component: (order.index(component.kind), component.owner is not None, component.name),
        )

    def write_component(self, record: ComponentRecord) -> None:
        """Write ``components/NAME.json``."""
        _write(self.path / "components" / f"{record.name}.json", record)

    def forget_component(self, name: str) -> None:
        """Remove ``components/NAME.json``."""
        (self.path / "components" / f"{name}.json").unlink(missing_ok=True)

    def add(self, folder: str, record: msgspec.Struct, name: str) -> None:
        """Write a record of ``leases``, ``stopped``, ``killed`` or ``sessions``."""
        _write(self.path / folder / f"{name}.json", record)

    def discard(self, folder: str, name: str) -> None:
        """Remove such a record, if it exists."""
        (self.path / folder / f"{name}.json").unlink(missing_ok=True)

    def records(self, folder: str, kind: type[R]) -> list[tuple[Path, R]]:
        """The records of ``leases``, ``stopped``, ``killed`` or ``sessions``."""
        found = [(path, _read(path, kind)) for path in self._files(folder)]
        return [(path, record) for path, record in found if record is not None]

    def lease_owners(self) -> list[ProcessId]:
        """The living processes that hold a lease; removes the leases of processes that have died."""
        owners = []
        for path, lease in self.records("leases", Lease):
            if lease.owner.alive:
                owners.append(lease.owner)
            else:
                path.unlink(missing_ok=True)
        return owners

    def _files(self, folder: str) -> list[Path]:
        return sorted((self.path / folder).glob("*.json"))

    def _holder(self) -> str:
        try:
            return (self.home / "lock").read_text().strip() or "unknown"
        except OSError:
            return "unknown"


def _read(path: Path, kind: type[R]) -> R | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.DecodeError, OSError):
        return None  # written by another version: the stack is ended by its token


def _write(path: Path, record: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.encode(record))


def end_processes(state: StateFolder) -> None:
    """End every process of a stack on this machine, found by its records and by its token."""
    token = state.token()
    recorded = [component.process for component in state.components() if component.process is not None]
    end([*recorded, *(marked(TOKEN_VARIABLE, token) if token else [])], ask_s=END_S)
    if token:
        end(marked(TOKEN_VARIABLE, token), ask_s=0)
