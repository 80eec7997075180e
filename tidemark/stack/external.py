"""A stack that somebody else runs: used as it is, never started, ended or harmed.

Known are Kafka's address, that of a Spark Connect server, and a folder that both sides see. Whatever needs a process
of it is refused with a clear error; everything else works. A driver cannot be held while a slice is published, so a
``stepped`` slice may fall into two batches, which the run notes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlparse
from uuid import uuid4

from tidemark.errors import DeadlineExceeded, TestbedError, UsageError
from tidemark.stack import readiness
from tidemark.stack.api import DRIVER, ComponentKind, ComponentState, ComponentStatus, Driver, Executor
from tidemark.stack.components.plan import planned
from tidemark.stack.components.ports import answers
from tidemark.stack.managed import noted_session
from tidemark.stack.registry import StackRecord, StateFolder, Supplies
from tidemark.stack.spec import External, StackSpec

_COMPONENTS = ("broker", DRIVER)


class ExternalStack:
    """An external stack; see :class:`tidemark.stack.api.Stack` for what each method promises."""

    def __init__(self, state: StateFolder, record: StackRecord) -> None:
        assert record.external is not None, "its spec has made sure"
        self._state = state
        self._record = record
        self._external: External = record.external

    @property
    def spec(self) -> StackSpec:
        """What was asked for."""
        return self._record.spec

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address for this machine."""
        return self._external.bootstrap_servers

    @property
    def bootstrap_inside(self) -> str:
        """Kafka's address for driver and executors."""
        return self._external.bootstrap_inside or self._external.bootstrap_servers

    @property
    def state_dir(self) -> Path:
        """What is noted of the stack; its own data are elsewhere."""
        return self._state.path

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs."""
        return dict(self._record.versions)

    def components(self, kind: ComponentKind | None = None) -> list[str]:
        """What is known of it: one component of each of two kinds, called as its kind is."""
        return [name for name in _COMPONENTS if kind in (None, name)]

    def status(self) -> list[ComponentStatus]:
        """Whether something listens at its addresses."""
        return [
            _status(name, address)
            for name, address in zip(_COMPONENTS, _addresses(self._external), strict=True)
        ]

    def start(self, component: str, *, warm: bool = True) -> None:  # noqa: ARG002 (the protocol's)
        """Refused."""
        self._refuse("start", component)

    def stop(self, component: str) -> None:
        """Refused."""
        self._refuse("stop", component)

    def kill(self, component: str) -> None:
        """Refused."""
        self._refuse("kill", component)

    def pause(self, component: str) -> None:
        """Refused."""
        self._refuse("pause", component)

    def resume(self, component: str) -> None:
        """Refused."""
        self._refuse("resume", component)

    def partition_network(self, component: str) -> None:
        """Refused."""
        self._refuse("cut off", component)

    def heal_network(self, component: str) -> None:
        """Refused."""
        self._refuse("reconnect", component)

    def logs(self, component: str, lines: int | None = 50) -> str:  # noqa: ARG002 (the protocol's)
        """Nothing: its logs are where it runs."""
        self._known(component)
        return ""

    def driver(self, name: str = DRIVER) -> Driver:
        """Its driver, without an event log if this machine cannot see one."""
        if name != DRIVER:
            self._known(name)
            raise UsageError(
                f"{name!r} is not a driver", hint="of an external stack `driver` is the only one"
            )
        folder, app_id = self._record.spark_conf.get("event-logs", ""), self._record.spark_conf["app-id"]
        found = sorted(Path(folder).glob(f"{app_id}*")) if folder else []
        return Driver(name, self._external.remote, app_id, found[-1] if found else None)

    def start_driver(self, name: str, conf: Mapping[str, str] | None = None) -> Driver:  # noqa: ARG002 (the protocol's)
        """Refused."""
        self._refuse("start", name)

    def executors(self, driver: str) -> list[Executor]:
        """Refused: its processes are not to be seen from here."""
        self._refuse("look at the executors of", driver)

    def kill_executor(self, driver: str, executor: Executor | str) -> Executor:
        """Refused."""
        self._refuse("kill", f"executor {executor} of {driver}")

    def pause_executor(self, driver: str, executor: Executor | str) -> Executor:
        """Refused."""
        self._refuse("pause", f"executor {executor} of {driver}")

    def resume_executor(self, driver: str, executor: Executor | str) -> Executor:
        """Refused."""
        self._refuse("resume", f"executor {executor} of {driver}")

    def suspended(self, driver: str) -> AbstractContextManager[None]:
        """Holds nothing: a slice that is published meanwhile may be torn."""
        self._known(driver)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def register_session(self, session_id: str, driver: str, *, user_id: str | None = None) -> Iterator[None]:
        """Note a Connect session for the length of the block."""
        self._known(driver)
        with noted_session(self._state, session_id, self._external.remote, user_id):
            yield

    def work_dir(self, name: str) -> Path:
        """A folder below the shared one."""
        path = Path(self._external.shared_dir, name)
        try:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)  # the cluster may run as somebody else
        except OSError as error:
            raise TestbedError(
                f"{str(path)!r} cannot be made",
                detail=str(error),
                hint="--shared-dir has to be writable for you and for the cluster",
            ) from error
        return path

    def repair(self) -> list[str]:
        """Nothing is mended; raises ``TestbedError`` if it does not answer."""
        gone = [component for component in self.status() if component.state is not ComponentState.RUNNING]
        if gone:
            raise TestbedError(
                f"the {gone[0].name} of the external stack does not answer",
                detail=f"nothing listens at {gone[0].address}",
                hint="start it where it belongs, or forget it: `tidemark down`",
            )
        return []

    def clean_up_orphans(self) -> None:
        """Nothing was done to it."""

    def _known(self, component: str) -> None:
        if component not in _COMPONENTS:
            raise UsageError(
                f"the stack has no part {component!r}",
                detail=f"of an external stack are known: {', '.join(_COMPONENTS)}",
                hint="`tidemark status` shows them",
            )

    def _refuse(self, what: str, component: str) -> NoReturn:
        raise UsageError(
            f"cannot {what} {component}: the stack is external",
            detail=f"{self._external.remote} belongs to somebody else, and its processes are not ours to touch",
            hint="faults need a stack of one's own: `tidemark up --backend local` or `--backend compose`",
        )


def noted(state: StateFolder, spec: StackSpec, digest: str) -> StackRecord:
    """The record of an external stack that was seen to work: a record goes through, a job runs, the folder is shared.

    Raises ``TestbedError`` if it does not.
    """
    external = spec.external
    assert external is not None, "its spec has made sure"
    for name, address in zip(_COMPONENTS, _addresses(external), strict=True):
        if _status(name, address).state is not ComponentState.RUNNING:
            raise TestbedError(
                f"no {name} answers at {address}",
                detail="nothing takes connections there",
                hint="--bootstrap takes HOST:PORT of a broker, --remote sc://HOST:PORT of a Spark Connect server",
            )
    readiness.round_trip(external.bootstrap_servers, lambda: None)
    answer = _examine(state, spec, external)
    conf = dict(answer["conf"])
    spark_conf = {"app-id": conf["spark.app.id"], "event-logs": event_log_folder(conf)}
    return planned(spec, Supplies(versions=answer["versions"]), digest, spark_conf)


def _examine(state: StateFolder, spec: StackSpec, external: External) -> dict[str, Any]:
    folder = Path(external.shared_dir) / f"tidemark-{uuid4().hex[:8]}"
    question = {
        "do": "examine",
        "remote": external.remote,
        "bootstrap": external.bootstrap_inside or external.bootstrap_servers,
        "folder": str(folder),
    }
    try:
        with readiness.open_probe(state, str(spec.python)) as probe:
            answer = probe.ask(question, readiness.PLACE_S)
    except DeadlineExceeded as error:
        raise TestbedError(
            f"no Spark Connect server answers at {external.remote}",
            detail=error.detail,
            hint="--remote takes sc://host:port of a Spark Connect server",
        ) from error
    finally:
        written = list(folder.glob("part-*")) if folder.is_dir() else []
        shutil.rmtree(folder, ignore_errors=True)
    if "error" in answer or not written:
        raise TestbedError(
            f"the external stack at {external.remote} will not do",
            detail=str(answer.get("error", f"what it wrote to {external.shared_dir} is not to be seen here")),
            hint="it needs the Kafka connector, Python workers of this minor version, Kafka's address as it sees it "
            "(--bootstrap-inside), and to see --shared-dir under the same path",
        )
    return answer


def event_log_folder(conf: Mapping[str, str]) -> str:
    """Where a Spark application with these settings writes its event log, if this machine can see that."""
    if conf.get("spark.eventLog.enabled") != "true" or conf.get("spark.eventLog.compress") == "true":
        return ""
    address = urlparse(conf.get("spark.eventLog.dir", ""))
    path = unquote(address.path)
    return path if address.scheme in ("", "file") and Path(path).is_dir() else ""


def _addresses(external: External) -> tuple[str, str]:
    return external.bootstrap_servers.split(",")[0], external.remote


def _status(name: str, address: str) -> ComponentStatus:
    host, _, port = address.removeprefix("sc://").split("/")[0].rpartition(":")
    there = port.isdigit() and answers(host, int(port))
    return ComponentStatus(
        name, ComponentState.RUNNING if there else ComponentState.STOPPED, None, address, 0
    )
