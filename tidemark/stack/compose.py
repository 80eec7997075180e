"""How a stack in containers is made ready: the image, the variables of ``compose/compose.yaml``, Compose itself."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark import project
from tidemark.errors import DaemonDied, DeadlineExceeded, EngineError, JavaError
from tidemark.stack import archives, backends, engine, image
from tidemark.stack.backends import Say
from tidemark.stack.protocol import DRIVER
from tidemark.stack.spec import StackSpec
from tidemark.stack.state import StackRecord, StateFolder, Supplies
from tidemark.stack.toolchain import find_java, find_spark

if TYPE_CHECKING:
    from testcontainers.compose import DockerCompose

STACK_LABEL, HOME_LABEL, PART_LABEL = "tidemark.stack", "tidemark.home", "tidemark.part"
UP_S = 180
"""Calibration: Compose makes and starts five containers in 1 to 2 s, ten times that on a busy machine."""
_RUN_S = 60
"""Calibration: half a second; the first container of a fresh engine takes two."""
_UNUSED_PORT = 15002
"""Stands for the driver's, while there is none: Compose reads the whole file whatever it starts."""
_CONTROLLER_PORT, _MASTER_PORT, _WORKER_PORT = 9093, 7077, 7078


class ComposeBackend:
    """Containers of this machine's engine."""

    def __init__(self, spec: StackSpec, home: Path) -> None:
        self.spec = spec
        self._home = home
        self.spark = find_spark(spec.python)
        if why := image.refuses(self.spark.python_version, self.spark.version):
            raise EngineError(
                f"{str(spec.python)!r} does not fit the containers",
                detail=why,
                hint="take local processes: `make up BACKEND=local`, or --backend local",
            )

    def identity(self) -> Iterable[object]:
        """The spec, PySpark, the image, and how Compose is told to run it."""
        files = sorted(project.compose_dir().glob("*.yaml"))
        return self.spec, self.spark, image.tag_of(), *(file.read_text(encoding="utf-8") for file in files)

    def provide(self, say: Say) -> Supplies:
        """Look at the engine and at Compose, have the image."""
        engine.connect()
        engine.check_compose()
        self._remove_the_forgotten(say)
        tag = image.provide(self.spark, _java(), say)
        spark_jars = [*image.jar_paths("files"), *image.jar_paths("connector")]
        return Supplies(
            java=image.JAVA,
            java_home=image.JAVA_HOME,
            spark_home=image.SPARK_HOME,
            spark_class_path=backends.spark_class_path(self.spark, image.SPARK_HOME, spark_jars),
            worker_python=image.VENV_PYTHON,
            broker_jars=image.jar_paths("broker"),
            spark_jars=spark_jars,
            versions={"java": _java_version(tag), **backends.versions_of(self.spark)},
            image=tag,
        )

    def _remove_the_forgotten(self, say: Say) -> None:
        """What earlier stacks of this project have left, whose keeper was killed, or the engine."""
        from tidemark.stack.containers import remove_the_forgotten

        if removed := remove_the_forgotten(StateFolder(self._home)):
            say(f"removed what was left of an earlier stack: {', '.join(removed)}")

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """Free ports for what is published; the others are those that everybody uses."""
        spec = self.spec
        kafka, _ = backends.published_ports(spec)
        return backends.planned(
            spec,
            supplies,
            digest,
            kafka_ports=kafka,
            controller_ports=[_CONTROLLER_PORT] * spec.brokers,
            master_port=_MASTER_PORT,
            worker_ports=[_WORKER_PORT] * spec.workers,
        )


def project_of(state: StateFolder) -> str:
    """The name of a stack's containers and network, before that of the part."""
    return f"tidemark-{(state.token() or 'none')[:8]}"


def up(state: StateFolder, services: Sequence[str]) -> None:
    """Make and start containers; raises ``DaemonDied`` if Compose cannot. Does not wait for them to be up."""
    record = state.read()
    assert record is not None, "the record is written before anything is started"
    variables = state.path / "compose.env"
    variables.write_text("".join(_variables(state, record)), encoding="utf-8")
    (state.path / "passwd").write_text(image.passwd(os.getuid(), os.getgid()), encoding="utf-8")
    files = ["compose.yaml"]
    files += ["three-brokers.yaml"] if len(record.kafka_ports) > 1 else []
    files += ["more-workers.yaml"] if record.workers > 2 else []
    compose = _compose_of(
        project.compose_dir(),
        compose_file_name=files,
        env_file=str(variables),
        wait=False,  # until a part has its port; tidemark waits until it does its work
        services=list(services),
    )
    try:
        compose.start()
    except subprocess.CalledProcessError as error:
        raise DaemonDied(
            f"Compose could not start {', '.join(services)}",
            detail=error.stderr.decode(errors="replace").strip()[-2000:],
            hint="`tidemark doctor` looks at the engine, memory, disk and ports",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DeadlineExceeded(
            f"waited {UP_S} s for Compose to start {', '.join(services)}",
            detail=(error.stderr or b"").decode(errors="replace")[-2000:],
            hint="`docker ps` should answer at once: start the engine anew if it does not",
        ) from error


def run_in_image(state: StateFolder, image_name: str, argv: Sequence[str], folder: Path) -> list[str]:
    """The command that runs another in a container of its own; it sees this folder, and goes with the stack."""
    labels = {STACK_LABEL: state.token(), HOME_LABEL: state.home}
    run = ["docker", "run", "--rm", "--network", "none", "--user", f"{os.getuid()}:{os.getgid()}"]
    run += [f"--label={name}={value}" for name, value in labels.items()]
    return [*run, "--volume", f"{folder}:{folder}", image_name, *argv]


def _compose_of(folder: Path, **options: Any) -> DockerCompose:
    """testcontainers' Compose, but with a deadline, and silent: what went wrong is in the error."""
    from testcontainers.compose import DockerCompose

    class Compose(DockerCompose):
        def _run_command(
            self, cmd: str | list[str], context: str | None = None
        ) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                cmd, capture_output=True, check=True, cwd=context or str(self.context), timeout=UP_S
            )

    return Compose(folder, **options)


def _variables(state: StateFolder, record: StackRecord) -> Iterator[str]:
    """The lines of an env file; in single quotes a value is taken as it is."""
    driver = state.part(DRIVER)
    ports = {f"TIDEMARK_KAFKA_PORT_{node}": port for node, port in enumerate(record.kafka_ports, 1)}
    known = {
        "TIDEMARK_PROJECT": project_of(state),
        "TIDEMARK_STACK": state.token() or "",
        "TIDEMARK_HOME": str(state.home),
        "TIDEMARK_STATE": str(state.path),
        "TIDEMARK_IMAGE": record.image,
        "TIDEMARK_CLASSES": str(archives.folder()),
        "TIDEMARK_USER": f"{os.getuid()}:{os.getgid()}",
        "TIDEMARK_MTU": engine.network_mtu(),
        "TIDEMARK_KAFKA_PORT": record.kafka_ports[0],
        "TIDEMARK_DRIVER_PORT": driver.port if driver is not None else _UNUSED_PORT,
        **ports,
    }
    for name, value in known.items():
        quoted = str(value).replace("\\", "\\\\").replace("'", "\\'")
        yield f"{name}='{quoted}'\n"


def _java() -> Path | None:
    """Java of this machine, if there is one: only to fetch jars with."""
    try:
        return find_java()
    except JavaError:
        return None


def _java_version(tag: str) -> str:
    """The version of Java in the image."""
    asked = ["docker", "run", "--rm", "--network", "none", tag, image.JAVA, "-version"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_RUN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"a container of {tag} does not start", detail=str(error), hint="start the engine anew"
        ) from error
    found = re.search(r'version "([^"]+)"', done.stderr)
    if found is None:
        raise EngineError(
            f"a container of {tag} does not run",
            detail=(done.stderr + done.stdout)[-2000:],
            hint="`docker run` has to work on this machine; or take local processes: `make up BACKEND=local`",
        )
    return found[1]
