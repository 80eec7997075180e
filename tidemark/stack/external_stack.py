"""A stack that somebody else operates: tidemark uses it as it is, and never starts, ends or disturbs it.

tidemark knows the address of Kafka, the address of a Spark Connect server, and a folder that both sides see. Operations
on its processes raise ``UsageError``; everything else works. Its driver cannot be suspended while a slice is published,
so the rows of a ``stepped`` slice may be read in two batches; the run notes that.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlparse
from uuid import uuid4

from tidemark.errors import DeadlineExceeded, TestbedError, UsageError
from tidemark.formats.client_settings import broker_settings, write_for_spark
from tidemark.formats.connect_url import (
    SCHEME,
    host_and_port,
    is_refusal,
    user_of,
    with_token,
    without_token,
)
from tidemark.stack import readiness
from tidemark.stack.api import (
    DRIVER,
    ComponentKind,
    ComponentState,
    ComponentStatus,
    Driver,
    Executor,
    LinkTraffic,
    Say,
    Toxic,
    ignored,
)
from tidemark.stack.components.plan import planned_record
from tidemark.stack.components.ports import accepts_connections
from tidemark.stack.registry import StackRecord, StateFolder, Supplies
from tidemark.stack.running_stack import recorded_session
from tidemark.stack.spec import External, StackSpec, no_packets, no_proxy, no_registry

_COMPONENTS = ("broker", DRIVER)
_NAMES = "kafka-conf-names"


class ExternalStack:
    """An external stack; see :class:`tidemark.stack.api.Stack` for what each method promises."""

    def __init__(self, state: StateFolder, record: StackRecord) -> None:
        assert record.external is not None, "StackSpec requires it for this backend"
        self._state = state
        self._record = record
        self._external: External = record.external

    @property
    def spec(self) -> StackSpec:
        """The spec that the stack was recorded with."""
        return self._record.spec

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address as this machine sees it."""
        return self._external.bootstrap_servers

    @property
    def bootstrap_inside(self) -> str:
        """Kafka's address as driver and executors see it."""
        return self._external.bootstrap_inside or self._external.bootstrap_servers

    @property
    def kafka_conf(self) -> Path | None:
        """The file that it was recorded with."""
        return Path(self._external.kafka_conf) if self._external.kafka_conf else None

    @property
    def kafka_conf_inside(self) -> tuple[str, list[str]] | None:
        """The file that driver and executors see, with the names of its settings as they were at `tidemark up`."""
        names = self._record.spark_conf.get(_NAMES, "")
        return (self._external.kafka_conf_inside, names.split(",")) if names else None

    @property
    def registry(self) -> str:
        """Empty: what somebody else operates is not known."""
        return ""

    @property
    def proxied_registry(self) -> str:
        """Empty, too."""
        return ""

    def start_registry(self, progress: Say = ignored) -> str:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_registry(self.spec.backend)

    def start_proxy(self, progress: Say = ignored) -> str:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_proxy(self._record.backend)

    def watch_links(self, driver: str) -> list[str]:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    def watch_broker_link(self, broker: str, kind: str) -> str:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    def unwatch_links(self) -> None:
        """Nothing to do: nothing is watched."""

    def disturb_link(self, link: str, toxics: Sequence[Toxic]) -> None:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    def heal_link(self, link: str) -> None:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    def link_is_disturbed(self, link: str) -> bool:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    def link_traffic(self, link: str) -> LinkTraffic:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        raise no_packets(self._record.backend)

    @property
    def state_dir(self) -> Path:
        """The folder with tidemark's record of the stack; the stack's own data are elsewhere."""
        return self._state.path

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the stack runs."""
        return dict(self._record.versions)

    def components(self, kind: ComponentKind | None = None) -> list[str]:
        """The known components: one broker and one driver, named after their kind."""
        return [name for name in _COMPONENTS if kind in (None, name)]

    def status(self) -> list[ComponentStatus]:
        """Whether its addresses accept connections."""
        return [
            _status(name, address)
            for name, address in zip(_COMPONENTS, _addresses(self._external), strict=True)
        ]

    def start(self, component: str, *, warm: bool = True) -> None:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        self._refuse("start", component)

    def stop(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("stop", component)

    def kill(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("kill", component)

    def pause(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("pause", component)

    def resume(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("resume", component)

    def partition_network(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("disconnect", component)

    def heal_network(self, component: str) -> None:
        """Raises ``UsageError``."""
        self._refuse("reconnect", component)

    def logs(self, component: str, lines: int | None = 50) -> str:  # noqa: ARG002 (the protocol's)
        """Empty: the logs are on the machines of the stack."""
        self._known(component)
        return ""

    def thread_stacks(self, driver: str) -> Mapping[str, str]:  # noqa: ARG002 (the protocol's)
        """Nothing: its processes belong to somebody else."""
        return {}

    def driver(self, name: str = DRIVER) -> Driver:
        """Its driver, without an event log if this machine cannot see one."""
        if name != DRIVER:
            self._known(name)
            raise UsageError(
                f"{name!r} is not a driver", hint="the only driver of an external stack is `driver`"
            )
        folder, app_id = self._record.spark_conf.get("event-logs", ""), self._record.spark_conf["app-id"]
        found = sorted(Path(folder).glob(f"{app_id}*")) if folder else []
        return Driver(name, self._external.remote, app_id, found[-1] if found else None)

    def note_application(self, driver: str, app_id: str) -> None:
        """The id is kept by this process only; another run is told it by its own query."""
        self._known(driver)
        self._record.spark_conf["app-id"] = app_id

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:  # noqa: ARG002 (the protocol's)
        """Raises ``UsageError``."""
        self._refuse("start", name)

    def start_app(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Driver:  # noqa: ARG002
        """Raises ``UsageError``."""
        self._refuse("start", name)

    def executors(self, driver: str) -> list[Executor]:
        """Raises ``UsageError``: its processes cannot be seen from this machine."""
        self._refuse("list the executors of", driver)

    def kill_executor(
        self,
        driver: str,
        executor: Executor | str,
        *,
        with_workers: bool = False,  # noqa: ARG002
    ) -> Executor:
        """Raises ``UsageError``."""
        self._refuse("kill", f"executor {executor} of {driver}")

    def pause_executor(self, driver: str, executor: Executor | str) -> Executor:
        """Raises ``UsageError``."""
        self._refuse("pause", f"executor {executor} of {driver}")

    def resume_executor(self, driver: str, executor: Executor | str) -> Executor:
        """Raises ``UsageError``."""
        self._refuse("resume", f"executor {executor} of {driver}")

    def executor_state(self, executor: Executor) -> ComponentState:
        """Raises ``UsageError``: its processes cannot be seen from this machine."""
        self._refuse("see", f"executor {executor.executor_id}")

    def suspended(self, driver: str) -> AbstractContextManager[None]:
        """Does not suspend the driver: a slice published meanwhile may be read in two batches."""
        self._known(driver)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def register_session(self, session_id: str, driver: str, *, user_id: str | None = None) -> Iterator[None]:
        """Record a Connect session for the length of the block."""
        self._known(driver)
        remote = self._external.remote
        with recorded_session(self._state, session_id, remote, user_id or user_of(remote)):
            yield

    def work_dir(self, name: str) -> Path:
        """A folder below the shared one."""
        path = Path(self._external.shared_dir, name)
        try:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)  # the cluster may run as another user
        except OSError as error:
            raise TestbedError(
                f"{str(path)!r} cannot be made",
                detail=str(error),
                hint="--shared-dir has to be writable for you and for the cluster",
            ) from error
        return path

    def repair(self) -> list[str]:
        """Repairs nothing; raises ``TestbedError`` if a component cannot be reached."""
        gone = [component for component in self.status() if component.state is not ComponentState.RUNNING]
        if gone:
            raise TestbedError(
                f"the {gone[0].name} of the external stack cannot be reached",
                detail=f"nothing listens at {gone[0].address}",
                hint="start it, or remove the record of this stack: `tidemark down`",
            )
        return []

    def clean_up_orphans(self) -> None:
        """Nothing to do: tidemark starts and suspends nothing of it."""

    def _known(self, component: str) -> None:
        if component not in _COMPONENTS:
            raise UsageError(
                f"the stack has no component {component!r}",
                detail=f"the components of an external stack are {', '.join(_COMPONENTS)}",
                hint="`tidemark status` shows them",
            )

    def _refuse(self, action: str, component: str) -> NoReturn:
        raise UsageError(
            f"cannot {action} {component}: the stack is external",
            detail=f"tidemark does not operate the stack at {self._external.remote}",
            hint="fault injection needs a stack that tidemark runs: `tidemark up --backend local` or "
            "`--backend compose`",
        )


def check_and_describe(state: StateFolder, spec: StackSpec, digest: str) -> StackRecord:
    """Check an external stack and return its record: Kafka passes a test record, a job runs, the folder is shared.

    Raises ``TestbedError`` if a check fails.
    """
    external = spec.external
    assert external is not None, "StackSpec requires it for this backend"
    for name, address in zip(_COMPONENTS, _addresses(external), strict=True):
        if _status(name, address).state is not ComponentState.RUNNING:
            raise TestbedError(
                f"no {name} can be reached at {address}",
                detail="nothing listens there",
                hint="--bootstrap takes HOST:PORT of a broker, --remote sc://HOST:PORT of a Spark Connect server",
            )
    conf = Path(external.kafka_conf) if external.kafka_conf else None
    broker = broker_settings(external.bootstrap_servers, conf)
    readiness.round_trip(broker, lambda: None)
    with _login_for_spark(external, broker) as kafka:
        answer = _examine(state, spec, external, kafka)
    settings = dict(answer["conf"])
    spark_conf = {"app-id": settings["spark.app.id"], "event-logs": event_log_folder(settings)}
    spark_conf |= {_NAMES: ",".join(answer["names"])} if external.kafka_conf_inside else {}
    return planned_record(spec, Supplies(versions=answer["versions"]), digest, spark_conf)


@contextlib.contextmanager
def _login_for_spark(external: External, broker: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What the check of Spark needs of Kafka: ``bootstrap``, the address as Spark sees it, and ``file``, the login.

    ``file`` is the path as driver and executors see it, empty without a login. ``names`` are the settings in that file;
    ``None``: they are read on the cluster.
    """
    bootstrap = external.bootstrap_inside or external.bootstrap_servers
    if external.kafka_conf_inside or not external.kafka_conf:
        yield {"bootstrap": bootstrap, "file": external.kafka_conf_inside, "names": None}
        return
    folder = Path(external.shared_dir) / f"tidemark-login-{uuid4().hex[:8]}"
    folder.mkdir()
    try:
        file = folder / "kafka.properties"
        yield {"bootstrap": bootstrap, "file": str(file), "names": write_for_spark(broker, file)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _examine(
    state: StateFolder, spec: StackSpec, external: External, kafka: dict[str, Any]
) -> dict[str, Any]:
    folder = Path(external.shared_dir) / f"tidemark-{uuid4().hex[:8]}"
    remote = with_token(external.remote)
    request = {
        "do": "examine",
        "remote": remote,
        "kafka": kafka,
        "folder": str(folder),
    }
    try:
        with readiness.open_probe(state, str(spec.python)) as probe:
            answer = probe.ask(request, readiness.ANSWER_S)
    except DeadlineExceeded as error:
        raise TestbedError(
            f"no Spark Connect server can be reached at {external.remote}",
            detail=error.detail,
            hint="--remote takes sc://host:port of a Spark Connect server",
        ) from error
    finally:
        written = list(folder.glob("part-*")) if folder.is_dir() else []
        shutil.rmtree(folder, ignore_errors=True)
    if "error" in answer or not written:
        not_visible = f"its files in {external.shared_dir} are not visible on this machine"
        detail = without_token(str(answer.get("error", not_visible)), remote)
        if is_refusal(detail):
            raise TestbedError(
                f"the Spark Connect server at {external.remote} does not let this client in",
                detail=detail,
                hint="name a file with a token that is valid in the address: sc://host:443/;use_ssl=true;token=@FILE",
            )
        raise TestbedError(
            f"the external stack at {external.remote} cannot be used",
            detail=detail,
            hint="it needs the Kafka connector, Python workers of this minor version, Kafka's address as Spark sees it "
            "(--bootstrap-inside), --shared-dir under the same path, and with a login the right to read its file "
            "(--kafka-conf-inside, where the cluster runs as another user)",
        )
    return answer


def event_log_folder(conf: Mapping[str, str]) -> str:
    """The folder of a Spark application's event log, or an empty string if this machine cannot read it."""
    if conf.get("spark.eventLog.enabled") != "true" or conf.get("spark.eventLog.compress") == "true":
        return ""
    address = urlparse(conf.get("spark.eventLog.dir", ""))
    path = unquote(address.path)
    return path if address.scheme in ("", "file") and Path(path).is_dir() else ""


def _addresses(external: External) -> tuple[str, str]:
    return external.bootstrap_servers.split(",")[0], external.remote


def _status(name: str, address: str) -> ComponentStatus:
    host, port = host_and_port(address) if address.startswith(SCHEME) else _broker(address)
    listening = port > 0 and accepts_connections(host, port)
    return ComponentStatus(
        name, ComponentState.RUNNING if listening else ComponentState.STOPPED, None, address, 0
    )


def _broker(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0
