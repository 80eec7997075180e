"""The preparation of a stack in containers: the engine, the image, the published ports."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tidemark import paths
from tidemark.errors import ContainerEngineError, JavaError
from tidemark.stack.api import Say
from tidemark.stack.components.plan import planned_record, published_ports
from tidemark.stack.compose import docker_engine, image
from tidemark.stack.compose.orphans import remove_orphans
from tidemark.stack.install.spark_install import spark_class_path, versions_of
from tidemark.stack.install.toolchain import find_java, find_spark
from tidemark.stack.registry import StackRecord, StateFolder, Supplies
from tidemark.stack.spec import StackSpec

_RUN_S = 60
"""Calibration: half a second; two for the first container of a fresh engine."""
_CONTROLLER_PORT, _PROXIED_PORT, _MASTER_PORT, _WORKER_PORT = 9093, 9095, 7077, 7078
_FIRST_PROXY_PORT = 9192
"""Of the network proxy: it has a port for each broker."""


class ComposeBackend:
    """Containers of this machine's engine. See ``backends.Backend``."""

    def __init__(self, spec: StackSpec, home: Path) -> None:
        self.spec = spec
        self._home = home
        self.spark = find_spark(spec.python)
        if reason := image.mismatch(self.spark.python_version, self.spark.version):
            raise ContainerEngineError(
                f"{str(spec.python)!r} does not match the Python and PySpark of the containers",
                detail=reason,
                hint="use local processes: `make up BACKEND=local`, or --backend local",
            )

    def identity(self) -> Iterable[object]:
        """The spec, PySpark, the image and the Compose files."""
        files = sorted(paths.compose_dir().glob("*.yaml"))
        return self.spec, self.spark, image.tag_of(), *(file.read_text(encoding="utf-8") for file in files)

    def provide(self, say: Say) -> Supplies:
        """Check the engine and Compose; provide the image."""
        docker_engine.connect()
        docker_engine.check_compose()
        self._remove_orphans(say)
        tag = image.provide(self.spark, _java(), say)
        spark_jars = [*image.jar_paths("files"), *image.jar_paths("connector")]
        return Supplies(
            java=image.JAVA,
            java_home=image.JAVA_HOME,
            spark_home=image.SPARK_HOME,
            spark_class_path=spark_class_path(self.spark, image.SPARK_HOME, spark_jars),
            worker_python=image.VENV_PYTHON,
            broker_jars=image.jar_paths("broker"),
            spark_jars=spark_jars,
            versions={"java": _java_version(tag), **versions_of(self.spark)},
            image=tag,
        )

    def _remove_orphans(self, say: Say) -> None:
        """Remove containers of earlier stacks of this project, whose reaper or engine was killed."""
        if removed := remove_orphans(StateFolder(self._home)):
            say(f"removed containers of an earlier stack: {', '.join(removed)}")

    def plan(self, supplies: Supplies, digest: str) -> StackRecord:
        """A record with free ports for the published ones, and the usual ports inside the containers."""
        spec = self.spec
        admins = spec.brokers if spec.kafka_security else 0
        kafka, ports = published_ports(spec, admins)
        return planned_record(
            spec,
            supplies,
            digest,
            kafka_ports=kafka,
            controller_ports=[_CONTROLLER_PORT] * spec.brokers,
            master_port=_MASTER_PORT,
            worker_ports=[_WORKER_PORT] * spec.workers,
            proxy_ports=[_FIRST_PROXY_PORT + node for node in range(spec.brokers)],
            proxied_ports=[_PROXIED_PORT] * spec.brokers,
            admin_ports=[next(ports) for _ in range(admins)],
        )


def _java() -> Path | None:
    """This machine's Java, if there is one; only used to fetch jars."""
    try:
        return find_java()
    except JavaError:
        return None


def _java_version(tag: str) -> str:
    """The version of Java in the image."""
    argv = ["docker", "run", "--rm", "--network", "none", tag, image.JAVA, "-version"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_RUN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ContainerEngineError(
            f"a container of {tag} did not start", detail=str(error), hint="restart the container engine"
        ) from error
    found = re.search(r'version "([^"]+)"', done.stderr)
    if found is None:
        raise ContainerEngineError(
            f"a container of {tag} cannot be run",
            detail=(done.stderr + done.stdout)[-2000:],
            hint="`docker run` must work on this machine; or use local processes: `make up BACKEND=local`",
        )
    return found[1]
