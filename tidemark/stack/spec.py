"""The spec of a stack: backend, interpreter, number of workers and brokers, or the addresses of an external stack.

Free of processes. Two stacks are the same if their specs, their versions and the launch specs of their components are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.connect_url import check_url

BACKENDS = ("local", "compose", "external")
OTHER_KAFKAS = ("3.9.2", "4.1.1")
"""Versions of Kafka that a stack of local processes may be asked for, besides its own (``install/brokers.lock``)."""
KAFKA_SECURITY = ("sasl-plain", "sasl-scram", "mtls")
"""The logins that the brokers of a stack may want, all over TLS: user and password (PLAIN, or SCRAM-SHA-512), or a
certificate of the client.
"""


@dataclass(frozen=True)
class External:
    """A cluster that somebody else operates: its addresses, and a folder that it and this machine share.

    ``bootstrap_inside`` is Kafka's address as the cluster sees it, where it differs from this machine's.
    ``kafka_conf`` is a file with the login of this machine's Kafka clients, ``kafka_conf_inside`` one with that of
    Spark's, as driver and executors see it.
    """

    bootstrap_servers: str
    remote: str
    shared_dir: str
    bootstrap_inside: str = ""
    kafka_conf: str = ""
    kafka_conf_inside: str = ""

    def __post_init__(self) -> None:
        check_url(self.remote)
        if not self.bootstrap_servers:
            raise UsageError("no broker address for the external stack", hint="set --bootstrap host:9092")
        if self.kafka_conf_inside and not self.kafka_conf:
            raise UsageError(
                f"Spark has a login ({self.kafka_conf_inside!r}), and this machine has none",
                hint="name a file for this machine's clients, too: --kafka-conf FILE",
            )
        if not Path(self.shared_dir).is_dir():
            raise UsageError(
                f"there is no folder {self.shared_dir!r}",
                hint="--shared-dir takes a folder that Spark's driver, its executors and this machine share",
            )


@dataclass(frozen=True)
class StackSpec:
    """``python`` is the interpreter whose PySpark runs; ``kafka_port=None`` takes a free port.

    ``registry`` asks for a schema registry; a running stack without one is given one. ``kafka_security`` is the login
    that the brokers want (:data:`KAFKA_SECURITY`), empty for none.

    ``kafka`` is another version of Kafka than the stack's own (:data:`OTHER_KAFKAS`), empty for its own.

    ``external`` is set if and only if ``backend`` is ``external``, which ignores the other fields.
    """

    backend: str = "local"
    python: Path = Path(sys.executable)
    workers: int = 2
    kafka_port: int | None = None
    brokers: int = 1
    external: External | None = None
    registry: bool = False
    kafka: str = ""
    kafka_security: str = ""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(
                f"there is no backend {self.backend!r}", hint=f"a backend is one of {', '.join(BACKENDS)}"
            )
        if not 1 <= self.workers <= 8:
            raise UsageError(f"a stack cannot have {self.workers} workers", hint="choose 1 to 8 workers")
        if self.brokers not in (1, 3):
            raise UsageError(
                f"a stack cannot have {self.brokers} brokers",
                hint="choose 1, or 3 for topics that survive the loss of a broker",
            )
        if self.kafka_port is not None and not 1024 <= self.kafka_port <= 65535:
            raise UsageError(
                f"Kafka cannot use port {self.kafka_port}", hint="choose a port from 1024 to 65535"
            )
        if (self.external is None) == (self.backend == "external"):
            raise UsageError(
                f"backend {self.backend!r} {'without' if self.external is None else 'with'} external addresses",
                hint="`tidemark up --backend external` takes --bootstrap, --remote and --shared-dir",
            )
        if self.registry and self.backend != "local":
            raise no_registry(self.backend)
        self._must_have_brokers()
        self._must_be_securable()

    def _must_have_brokers(self) -> None:
        if self.kafka and self.kafka not in OTHER_KAFKAS:
            raise UsageError(
                f"there is no Kafka {self.kafka!r} for a stack",
                hint=f"choose one of {', '.join(OTHER_KAFKAS)}, or leave --kafka out: `tidemark up` says its version",
            )
        if self.kafka and self.backend != "local":
            raise UsageError(
                f"the brokers of the backend {self.backend} have a version of their own",
                detail="containers have that of their image; an external Kafka is operated by somebody else",
                hint=f"take local processes: `tidemark up --backend local --kafka {self.kafka}`",
            )

    def _must_be_securable(self) -> None:
        if self.kafka_security and self.kafka_security not in KAFKA_SECURITY:
            raise UsageError(
                f"there is no login {self.kafka_security!r}",
                hint=f"choose one of {', '.join(KAFKA_SECURITY)}",
            )
        if self.kafka_security and self.backend == "external":
            raise UsageError(
                "the brokers of an external stack cannot be made to want a login",
                detail="their operator chose the login that they have",
                hint="name it: --kafka-conf FILE; or start a stack of your own: `tidemark up --backend local"
                f" --kafka-security {self.kafka_security}`",
            )


def no_proxy(backend: str) -> UsageError:
    """The error of a network proxy that is asked for on a backend that has none."""
    return UsageError(
        f"there is no network proxy on the backend {backend}",
        detail="its brokers do not advertise the address of one, which is in their settings",
        hint="take a stack of your own: `tidemark up --backend local` or `--backend compose`",
    )


def no_packets(backend: str) -> UsageError:
    """The error of links that are asked for on a backend that cannot tell their packets apart."""
    return UsageError(
        f"the network of the backend {backend} cannot be disturbed",
        detail="its processes belong to somebody else",
        hint="take a stack of your own: `tidemark up --backend local`, or TIDEMARK_BACKEND=local",
    )


def no_registry(backend: str) -> UsageError:
    """The error of a schema registry that is asked for on a backend that has none."""
    return UsageError(
        f"there is no schema registry on the backend {backend}",
        detail="it is a process of this machine, which containers and other machines do not reach",
        hint="take local processes: `tidemark up --backend local --registry`, or TIDEMARK_BACKEND=local",
    )
