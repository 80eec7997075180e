"""The Spark session that a large run is judged on.

A master URL says which: ``local[N]``, ``spark://…``, ``yarn``, ``k8s://…`` (the driver is a JVM of this process),
or ``sc://…`` (a Spark Connect server). Without one it is the driver of the stack that is up, if it runs this PySpark
and sees this machine's files, else ``local[*]``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.errors import TestbedError, UsageError
from tidemark.formats.connect_url import SCHEME, check_url, host_and_port, with_token
from tidemark.stack import current
from tidemark.stack.components.ports import LOOPBACK, accepts_connections
from tidemark.stack.install.toolchain import check_java, find_java

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a session raises, of either kind."""
LOCAL = "local[*]"
_STANDALONE = "spark://"
_STANDALONE_PORT = 7077
_OWN = {
    "spark.app.name": "tidemark check",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Rows of tables are stored in their own form; Java's serialization takes three times as long.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
_OF_THIS_MACHINE = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # The one JVM is driver and executor. Calibration: ten million events are judged with it on two cores.
    "spark.driver.memory": "2g",
}


@contextmanager
def open_session(master: str | None, conf: Sequence[str] = ()) -> Iterator[SparkSession]:
    """A session for the length of the block; ``conf`` has settings, ``NAME=VALUE``.

    Raises ``UsageError`` for other settings, ``JavaError`` where a driver of this process has no Java, and
    ``TestbedError`` where nobody answers.
    """
    settings = _parsed(conf)
    master = master or _driver_of_the_stack() or LOCAL
    addresses = _addresses(master)
    if addresses and not any(accepts_connections(*where) for where in addresses):
        host, port = addresses[0]
        raise TestbedError(
            f"no Spark answers at {host}:{port}",
            detail=f"the master is {master!r}",
            hint="start it, or name another with --spark-master; `local[*]` is this machine",
        )
    try:
        session, is_own = (
            _connected(master, settings) if master.startswith(SCHEME) else _classic(master, settings)
        )
    except SPARK_ERRORS as error:
        raise TestbedError(
            f"no Spark session could be opened on {master!r}",
            detail=first_lines(error),
            hint="the PySpark of this process must be of the version that the cluster runs:"
            f" it is {pyspark.__version__}",
        ) from error
    try:
        yield session
    finally:
        if is_own:
            session.stop()


def first_lines(error: BaseException) -> str:
    """What a Spark error says, without the stacks of the JVM."""
    lines = [line.strip() for line in str(error).splitlines() if not line.lstrip().startswith(("at ", "..."))]
    return "\n".join([line for line in lines if line][:3])[:600] or type(error).__name__


def _parsed(conf: Sequence[str]) -> dict[str, str]:
    settings = {}
    for one in conf:
        name, equals, value = one.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f"{one!r} is no setting of Spark", hint="write --spark-conf spark.NAME=VALUE")
        settings[name] = value
    return settings


def _driver_of_the_stack() -> str | None:
    """The address of the driver of the stack that is up; ``None`` if it is none that can be used."""
    stack = current()
    if stack is None or stack.spec.backend == "compose" or stack.versions.get("spark") != pyspark.__version__:
        return None
    return stack.driver().remote


def _addresses(master: str) -> list[tuple[str, int]]:
    """Where a server must answer; a cluster manager is left to Spark's own client."""
    if master.startswith(SCHEME):
        return [host_and_port(check_url(master))]
    if not master.startswith(_STANDALONE):
        return []
    places = master.removeprefix(_STANDALONE).partition("/")[0].split(",")
    found = [urlsplit(f"//{place}") for place in places]
    try:
        return [(one.hostname or "", one.port or _STANDALONE_PORT) for one in found]
    except ValueError as error:
        raise UsageError(f"{master!r} is no master URL: {error}", hint="write spark://HOST:PORT") from error


def _connected(master: str, settings: Mapping[str, str]) -> tuple[SparkSession, bool]:
    session = SparkSession.builder.remote(with_token(master)).create()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session, True


def _classic(master: str, settings: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """A session whose driver is of this process: the one that is there, else a new one, which is stopped in the end."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active.newSession(), False
    check_java(find_java())
    builder, own = SparkSession.builder.master(master), dict(_OWN)
    if master.startswith("local"):
        own |= {**_OF_THIS_MACHINE, "spark.local.dir": tempfile.gettempdir()}
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (own | dict(settings)).items():
        builder = builder.config(name, value)
    return builder.getOrCreate(), True
