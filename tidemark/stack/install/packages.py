"""Packages that a user's job needs on driver and executors, by their Maven coordinates, as ``spark-submit`` has them.

The Ivy of the PySpark wheel resolves them with what they depend on, but for what is in the wheel already, from Maven
Central or as ``TIDEMARK_IVY_SETTINGS`` configures. What came of a list of coordinates is kept in the user's cache, and
not looked for again: a version that is published does not change.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidemark import paths
from tidemark.errors import FetchError, UsageError
from tidemark.stack.install.jars import IVY_SETTINGS_VARIABLE, Ivy, end_of_output
from tidemark.stack.install.toolchain import Spark

COORDINATE = re.compile(r"(?P<group>[\w.-]+):(?P<name>[\w.-]+):(?P<version>[\w.+-]+)")
IN_THE_WHEEL = (
    "catalyst|core|graphx|hive|kvstore|launcher|mllib|mllib-local|network-common|network-shuffle|repl|sketch|sql|sql-api"
    "|streaming|tags|unsafe|variant|common-utils|connect.*"
)
"""Modules of Spark that a package may depend on, and that are there."""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def resolve_packages(java: Path, spark: Spark, coordinates: Sequence[str]) -> list[Path]:
    """The jars of these packages and of all that they need.

    Raises ``UsageError`` if a name is not a Maven coordinate (``GROUP:ARTIFACT:VERSION``), and ``FetchError`` if a
    package cannot be downloaded.
    """
    for package in coordinates:
        if COORDINATE.fullmatch(package) is None:
            raise UsageError(
                f"{package!r} is no package",
                hint="write GROUP:ARTIFACT:VERSION, for example org.apache.spark:spark-avro_2.13:4.2.0",
            )
    digest = hashlib.sha256("\n".join(sorted(coordinates)).encode()).hexdigest()[:16]
    folder = paths.cache_dir() / "packages" / digest
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            _resolve(java, spark, coordinates, Path(temporary))
            if not folder.is_dir():
                (Path(temporary) / "lib").rename(folder)
    there = {_artifact(jar) for jar in spark.jars.glob("*.jar")}
    return sorted(jar for jar in folder.glob("*.jar") if _artifact(jar) not in there)


def _artifact(jar: Path) -> str:
    """The name of a jar without its version."""
    return re.sub(r"-\d[\w.+-]*$", "", jar.stem)


def _resolve(java: Path, spark: Spark, coordinates: Sequence[str], folder: Path) -> None:
    (folder / "lib").mkdir()
    retrieved = ("-types", "jar", "bundle", "-retrieve", f"{folder}/lib/[artifact]-[revision].[ext]")
    output, failed = Ivy(java, spark).run(folder, _ivy_file(coordinates), _SETTINGS, *retrieved)
    if failed or not any((folder / "lib").iterdir()):
        raise FetchError(
            f"the packages {', '.join(coordinates)} could not be resolved",
            detail=end_of_output(output),
            hint=f"check the coordinates; with a mirror, set {IVY_SETTINGS_VARIABLE} to an Ivy settings file; a jar"
            " that you have is taken by --jars",
        )


def _ivy_file(coordinates: Sequence[str]) -> str:
    found = [match.groupdict() for package in coordinates if (match := COORDINATE.fullmatch(package))]
    lines = [
        f"<dependency org={quoteattr(one['group'])} name={quoteattr(one['name'])} rev={quoteattr(one['version'])}"
        ' conf="default->default(compile),master"/>'
        for one in found
    ]
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="packages"/>'
        '<configurations><conf name="default"/></configurations>\n<dependencies>\n'
        + "\n".join(lines)
        + f'\n<exclude org="org.apache.spark" module="spark-({IN_THE_WHEEL})_.*" matcher="regexp"/>'
        '\n<exclude org="org.scala-lang" matcher="exact"/>\n</dependencies></ivy-module>\n'
    )
