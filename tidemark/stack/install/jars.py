"""The jars of a stack that are not in the PySpark wheel: locked by SHA-256, fetched once into a per-user cache.

The Ivy of the PySpark wheel fetches them, from Maven Central or as ``TIDEMARK_IVY_SETTINGS`` (an Ivy settings file, as
for ``spark.jars.ivySettings``) configures. Only jars in ``jars.lock`` are fetched, and none with another checksum is
used.
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
BROKERS_LOCK = Path(__file__).with_name("brokers.lock")
"""Jars of the versions of Kafka that a stack may be asked for besides its own: a group ``kafka-VERSION`` each."""
CONNECTORS = {(3, 5): "3.5.7", (4, 0): "4.0.4", (4, 1): "4.1.3", (4, 2): "4.2.0", (4, 3): "4.2.0"}
"""Spark's (major, minor) -> version of the Kafka connector. 4.3 has no connector of its own and runs with 4.2.0."""
SELF_CONTAINED = ("3.5.7",)
"""Connectors whose group has all that they need: they are built with Scala 2.12."""
_FETCH_TIMEOUT_S = 600
"""Calibration: 50 jars, 54 MB, take 2 to 10 s; ten minutes allows for a very slow connection."""
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers>
</ivysettings>
"""
"""Without POMs (the lock lists every jar) and Ivy's checksums (the lock has better ones): 2 s instead of 45 s."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock. ``ending`` is what follows the version in its file's name."""

    group: str
    organisation: str
    name: str
    version: str
    sha256: str
    ending: str = ".jar"

    @property
    def path(self) -> Path:
        """Its path in the cache."""
        return cache_folder() / self.organisation / f"{self.name}-{self.version}{self.ending}"


def cache_folder() -> Path:
    """The folder of the jars in the user's cache."""
    return paths.cache_dir() / "jars"


def connector_version(spark_version: str) -> str:
    """The connector version for a version of Spark; raises ``TestbedError`` if none is known."""
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
    """The groups of the lock that a stack with this Spark needs: of the broker, for local files, of the connector."""
    version = connector_version(spark_version)
    shared = () if version in SELF_CONTAINED else ("connector",)
    return "broker", "files", *shared, f"spark-{version}"


def locked(*groups: str, lock: Path = LOCK) -> list[Jar]:
    """The locked jars of these groups, in the order of the lock."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    jars = [Jar(*line.split()) for line in lines if line and not line.startswith("#")]
    return [jar for jar in jars if jar.group in groups]


def kafka_version() -> str:
    """The broker's version."""
    return next(jar.version for jar in locked("broker") if jar.name.startswith("kafka_"))


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """The jars that are not in the cache."""
    return [jar for jar in jars if not jar.path.is_file()]


def provide(
    java: Path, spark: Spark, groups: Iterable[str], say: Callable[[str], None], lock: Path = LOCK
) -> dict[str, list[Path]]:
    """The paths of the jars of each group, fetched if missing, all verified.

    Raises ``FetchError`` if a jar cannot be fetched or does not have the locked checksum; that jar is deleted.
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


def wrong_checksums(jars: Iterable[Jar]) -> list[tuple[Jar, str]]:
    """The jars in the cache whose SHA-256 differs from the locked one, with their actual one."""
    jars = list(jars)
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda jar: _sha256(jar.path), jars))
    return [(jar, digest) for jar, digest in zip(jars, digests, strict=True) if digest != jar.sha256]


def verify(jars: Iterable[Jar]) -> None:
    """Verify the checksums; deletes jars with a wrong one and raises ``FetchError``."""
    wrong = wrong_checksums(jars)
    if not wrong:
        return
    for jar, _ in wrong:
        jar.path.unlink(missing_ok=True)
    jar, digest = wrong[0]
    names = ", ".join(jar.path.name for jar, _ in wrong)
    raise FetchError(
        f"wrong checksum: {names}",
        detail=f"{jar.path}\nhas SHA-256 {digest},\nthe lock has {jar.sha256}; deleted",
        hint="try again: the deleted jars are fetched again. If that fails too, the repository or proxy does not serve "
        f"the published file; set {IVY_SETTINGS_VARIABLE} to use another source",
    )


def _fetch(java: Path, spark: Spark, jars: list[Jar]) -> None:
    ivy = Ivy(java, spark)
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            _run_ivy(ivy, Path(folder), jars)
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


class Ivy:
    """The Ivy of a PySpark wheel. Raises ``FetchError`` if there is none."""

    def __init__(self, java: Path, spark: Spark) -> None:
        found = sorted(spark.jars.glob("ivy-*.jar"))
        if not found:
            raise FetchError(
                f"PySpark {spark.version} has no Ivy, which is needed to fetch jars",
                detail=f"there is no ivy-*.jar in {spark.jars}",
                hint="reinstall PySpark from PyPI",
            )
        self._start = [str(java), "-jar", str(found[0])]

    def run(self, folder: Path, ivy_file: str, settings: str, *more: str) -> tuple[str, bool]:
        """Let it do what an Ivy file says; returns its output, and whether it failed.

        ``settings`` is the text of a settings file, for where ``TIDEMARK_IVY_SETTINGS`` names none.
        """
        (folder / "ivy.xml").write_text(ivy_file, encoding="utf-8")
        path = os.environ.get(IVY_SETTINGS_VARIABLE)
        if path is None:
            path = str(folder / "settings.xml")
            Path(path).write_text(settings, encoding="utf-8")
        elif not Path(path).is_file():
            raise FetchError(
                f"{IVY_SETTINGS_VARIABLE} is {path!r}, which is not a file",
                hint="set it to an Ivy settings file",
            )
        files = ["-settings", path, "-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "cache")]
        try:
            done = subprocess.run(
                [*self._start, *files, *more, "-warn"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace")
            return f"{said}\nIvy did not end within {_FETCH_TIMEOUT_S} s", True
        return done.stdout, done.returncode != 0


def end_of_output(output: str) -> str:
    """The last lines that Ivy printed, for an error."""
    last = [line.strip() for line in output.splitlines() if line.strip(":\t ")][-12:]
    return "\n".join(["the end of Ivy's output:", *last])


def _run_ivy(ivy: Ivy, folder: Path, jars: list[Jar]) -> None:
    pattern = f"{folder}/lib/[organisation]/[artifact]-[revision](-[classifier]).[ext]"
    output, failed = ivy.run(folder, _ivy_file(jars), _IVY_SETTINGS, "-retrieve", pattern)
    absent = [jar for jar in jars if not Path(folder, "lib", jar.organisation, jar.path.name).is_file()]
    if failed or absent:
        raise FetchError(
            f"{len(absent)} of {len(jars)} jars could not be fetched",
            detail=end_of_output(output),
            hint="the first start needs the network (Maven Central). With a mirror, set "
            f"{IVY_SETTINGS_VARIABLE} to an Ivy settings file; with a proxy, set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…",
        )


def _ivy_file(jars: list[Jar]) -> str:
    """An Ivy configuration per group, because two groups need different versions of the same module."""
    lines = [
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)}"
        f' conf="{jar.group}->default" transitive="false">{_artifact(jar)}</dependency>'
        for jar in jars
    ]
    configurations = "".join(f'<conf name="{name}"/>' for name in sorted({jar.group for jar in jars}))
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidemark" module="jars"/>'
        f"<configurations>{configurations}</configurations>\n"
        "<dependencies>\n" + "\n".join(lines) + "\n</dependencies></ivy-module>\n"
    )


def _artifact(jar: Jar) -> str:
    """What Ivy has to be told of a file that is not the jar of its module."""
    classifier, _, kind = jar.ending.lstrip("-").partition(".")
    if not classifier:
        return ""
    return f'<artifact name={quoteattr(jar.name)} type="{kind}" ext="{kind}" m:classifier="{classifier}"/>'


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"(unreadable: {error})"


@contextmanager
def _cache_lock() -> Iterator[None]:
    """Only one process on this machine fetches at a time."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
