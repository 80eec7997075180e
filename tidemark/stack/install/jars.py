"""The jars of a stack besides those in the PySpark wheel: locked by SHA-256, fetched once, kept in a per-user cache.

They are fetched by the Ivy that is in the PySpark wheel, from Maven Central or from where ``TIDEMARK_IVY_SETTINGS``
(an Ivy settings file, as for ``spark.jars.ivySettings``) says. Only what ``jars.lock`` lists is fetched, and nothing is
used whose checksum differs, wherever it came from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidemark import paths
from tidemark.errors import FetchError, TestbedError
from tidemark.stack.install.toolchain import Spark

IVY_SETTINGS_VARIABLE = "TIDEMARK_IVY_SETTINGS"
LOCK = Path(__file__).with_name("jars.lock")
CONNECTORS = {(4, 0): "4.0.4", (4, 1): "4.1.3", (4, 2): "4.2.0", (4, 3): "4.2.0"}
"""Spark's (major, minor) -> version of the Kafka connector. 4.3 has none of its own; it runs with 4.2.0."""
_FETCH_TIMEOUT_S = 600
"""Calibration: 50 jars, 54 MB, come in 2 to 10 s; ten minutes is a very slow line."""
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers>
</ivysettings>
"""
"""Without POMs (the lock lists all) and Ivy's own checksums (the lock's are better) it takes 2 s, not 45."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock."""

    group: str
    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where it lies in the cache."""
        return cache_folder() / self.organisation / f"{self.name}-{self.version}.jar"


def cache_folder() -> Path:
    """The part of the user's cache that holds the jars."""
    return paths.cache_dir() / "jars"


def connector_version(spark_version: str) -> str:
    """The connector for a Spark; raises ``TestbedError`` for one that no connector is known for."""
    major, minor = spark_version.split(".")[:2]
    found = CONNECTORS.get((int(major), int(minor)))
    if found is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in CONNECTORS)
        raise TestbedError(
            f"no Kafka connector is known for Spark {spark_version}",
            hint=f"use a PySpark of one of these versions: {known}",
        )
    return found


def groups_of(spark_version: str) -> tuple[str, ...]:
    """The lock's groups that a stack with this Spark needs: the broker's, that for files, and the connector's."""
    return "broker", "files", "connector", f"spark-{connector_version(spark_version)}"


def locked(*groups: str, lock: Path = LOCK) -> list[Jar]:
    """The lock's jars of some groups, in its order."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    jars = [Jar(*line.split()) for line in lines if line and not line.startswith("#")]
    return [jar for jar in jars if jar.group in groups]


def kafka_version() -> str:
    """The broker's version."""
    return next(jar.version for jar in locked("broker") if jar.name.startswith("kafka_"))


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """Those that are not in the cache."""
    return [jar for jar in jars if not jar.path.is_file()]


def provide(
    java: Path, spark: Spark, groups: Iterable[str], say: Callable[[str], None], lock: Path = LOCK
) -> dict[str, list[Path]]:
    """The paths of the jars of each group of a lock, fetched if need be, every one verified.

    Raises ``FetchError`` if a jar cannot be had or has another checksum than the lock says; that jar is deleted.
    """
    wanted = {group: locked(group, lock=lock) for group in groups}
    jars = [jar for group in wanted.values() for jar in group]
    if missing(jars):
        with _cache_lock():
            absent = missing(jars)
            if absent:
                say(f"fetching {len(absent)} jars")
                _fetch(java, spark, absent)
    verify(jars)
    return {group: [jar.path for jar in group_jars] for group, group_jars in wanted.items()}


def spoilt(jars: Iterable[Jar]) -> list[tuple[Jar, str]]:
    """The jars in the cache whose SHA-256 is not the locked one, with the one they have."""
    jars = list(jars)
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda jar: _sha256(jar.path), jars))
    return [(jar, digest) for jar, digest in zip(jars, digests, strict=True) if digest != jar.sha256]


def verify(jars: Iterable[Jar]) -> None:
    """Compare checksums; deletes the jars that are wrong and raises ``FetchError`` for them."""
    wrong = spoilt(jars)
    if not wrong:
        return
    for jar, _ in wrong:
        jar.path.unlink(missing_ok=True)
    jar, digest = wrong[0]
    names = ", ".join(jar.path.name for jar, _ in wrong)
    raise FetchError(
        f"wrong checksum: {names}",
        detail=f"{jar.path}\nhas SHA-256 {digest},\nthe lock says {jar.sha256}; deleted",
        hint="try again: what was deleted is fetched anew. If that fails too, what your network gives you under this "
        f"name is not what was published; {IVY_SETTINGS_VARIABLE} names another source",
    )


def _fetch(java: Path, spark: Spark, jars: list[Jar]) -> None:
    ivy = next(iter(sorted(spark.jars.glob("ivy-*.jar"))), None)
    if ivy is None:
        raise FetchError(
            f"PySpark {spark.version} has no Ivy to fetch jars with",
            detail=f"there is no ivy-*.jar in {spark.jars}",
            hint="install PySpark anew from PyPI",
        )
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            _run_ivy(java, ivy, Path(folder), jars)
            for jar in jars:
                fetched = Path(folder, "lib", jar.organisation, jar.path.name)
                jar.path.parent.mkdir(exist_ok=True)
                shutil.move(fetched, jar.path)
    except OSError as error:
        raise FetchError(
            "the jars could not be stored",
            detail=str(error),
            hint=f"{cache_folder()} must be writable and have 150 MB free; XDG_CACHE_HOME moves it",
        ) from error


def _run_ivy(java: Path, ivy: Path, folder: Path, jars: list[Jar]) -> None:
    (folder / "ivy.xml").write_text(_ivy_file(jars), encoding="utf-8")
    settings = os.environ.get(IVY_SETTINGS_VARIABLE)
    if settings is None:
        settings = str(folder / "settings.xml")
        Path(settings).write_text(_IVY_SETTINGS, encoding="utf-8")
    elif not Path(settings).is_file():
        raise FetchError(
            f"{IVY_SETTINGS_VARIABLE} is {settings!r}, which is no file", hint="name an Ivy settings file"
        )
    pattern = f"{folder}/lib/[organisation]/[artifact]-[revision].[ext]"
    argv = [str(java), "-jar", str(ivy), "-settings", settings, "-ivy", str(folder / "ivy.xml")]
    try:
        done = subprocess.run(
            [*argv, "-cache", str(folder / "cache"), "-retrieve", pattern, "-warn"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
        output, failed = done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired as error:
        output = f"{(error.stdout or b'').decode(errors='replace')}\nno end after {_FETCH_TIMEOUT_S} s"
        failed = True
    absent = [jar for jar in jars if not Path(folder, "lib", jar.organisation, jar.path.name).is_file()]
    if failed or absent:
        last = "\n".join([line.strip() for line in output.splitlines() if line.strip(":\t ")][-12:])
        raise FetchError(
            f"{len(absent)} of {len(jars)} jars could not be fetched",
            detail=f"the end of what Ivy said:\n{last}",
            hint="the first start needs the network (Maven Central). Behind a mirror, name an Ivy settings file in "
            f"{IVY_SETTINGS_VARIABLE}; behind a proxy, set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…",
        )


def _ivy_file(jars: list[Jar]) -> str:
    """A configuration for each group: two of them need different versions of one module."""
    lines = [
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)}"
        f' conf="{jar.group}->default" transitive="false"/>'
        for jar in jars
    ]
    configurations = "".join(f'<conf name="{name}"/>' for name in sorted({jar.group for jar in jars}))
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="jars"/>'
        f"<configurations>{configurations}</configurations>\n"
        "<dependencies>\n" + "\n".join(lines) + "\n</dependencies></ivy-module>\n"
    )


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"(unreadable: {error})"


@contextmanager
def _cache_lock() -> Iterator[None]:
    """One fetch at a time on this machine."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
