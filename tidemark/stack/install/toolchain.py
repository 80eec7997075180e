"""Finds Java, and the PySpark of a Python interpreter.

Starts nothing heavy, because a warm ``tidemark up`` calls it. Java's version is determined only before a component is
started with it (:func:`check_java`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from tidemark.errors import JavaError, TestbedError, UsageError

OLDEST_JAVA = 17
NEWEST_JAVA = {"3.5": 17}
"""Spark's version -> the newest Java that it runs with, where that is not the newest there is."""
_VERSION_S = 30
"""Calibration: ``java -version`` and a bare interpreter take under 0.3 s; more only on a machine in trouble."""
_VERSIONS_PROGRAM = """
import importlib.metadata as m, importlib.util as u, sys
try:
    spark = m.version("pyspark")
    home = u.find_spec("pyspark").submodule_search_locations[0]
except Exception:
    spark = home = ""
missing = [n for n in ("grpc", "grpc_status", "pandas", "pyarrow") if not u.find_spec(n)]
print("%d.%d.%d" % sys.version_info[:3], spark, ",".join(missing) or "-", home, sep="\\n")
"""


@dataclass(frozen=True)
class Spark:
    """The PySpark of an interpreter: ``home`` is the package's folder, which is also ``SPARK_HOME``."""

    python: Path
    python_version: str
    version: str
    home: Path

    @property
    def jars(self) -> Path:
        """The folder of the jars in the wheel."""
        return self.home / "jars"


def find_java() -> Path:
    """The ``java`` of ``JAVA_HOME`` or else of ``PATH``; raises ``JavaError``."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
        raise JavaError(
            f"JAVA_HOME is {home!r}, which has no bin/java",
            hint=f"set JAVA_HOME to a Java {OLDEST_JAVA} or 21, or unset it to use the java on PATH",
        )
    found = shutil.which("java")
    if found is None:
        raise JavaError(
            "no Java was found",
            detail="JAVA_HOME is not set and no `java` is on PATH",
            hint=f"install Java {OLDEST_JAVA} or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; "
            "macOS: `brew install openjdk@17`)",
        )
    return Path(found)


def check_java(java: Path, spark: str = "") -> str:
    """The version of ``java``; raises ``JavaError`` if Spark, or the version ``spark`` of it, cannot run with it."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(
            f"{str(java)!r} cannot be run", detail=str(error), hint="`java -version` must print a version"
        ) from error
    text = done.stderr + done.stdout
    match = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', text)
    if done.returncode != 0 or match is None:
        raise JavaError(
            f"{str(java)!r} does not report its version", detail=text, hint="`java -version` must print one"
        )
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if major < OLDEST_JAVA:
        raise JavaError(
            f"Java {major} is too old",
            detail=f"{java} is version {match[0].split()[1]}; Spark needs {OLDEST_JAVA} or later",
            hint=f"install Java {OLDEST_JAVA} or 21 and set JAVA_HOME to it",
        )
    newest = NEWEST_JAVA.get(spark.rpartition(".")[0], major)
    if major > newest:
        raise JavaError(
            f"Java {major} is too new",
            detail=f"{java} is version {match[0].split()[1]}; Spark {spark} needs {newest}",
            hint=f"install Java {newest} and set JAVA_HOME to it",
        )
    return match[0].split()[1].strip('"')


def find_spark(python: Path) -> Spark:
    """The PySpark of ``python``; raises ``UsageError`` or ``TestbedError`` if a stack cannot run with it."""
    own = python == Path(sys.executable)
    version, spark, home = _own_pyspark() if own else _pyspark_of(python)
    if not spark:
        raise TestbedError(
            f"{str(python)!r} has no PySpark",
            hint=f"`{python} -m pip install 'pyspark[connect]'`",
        )
    if not spark.startswith("3.") and not any(Path(home, "jars").glob("spark-connect_*.jar")):
        raise TestbedError(
            f"PySpark {spark} of {str(python)!r} has no Spark Connect",
            detail=f"there is no spark-connect jar in {home}/jars",
            hint="install PySpark from PyPI (not pyspark-client)",
        )
    # Programs of a stack are started in folders of their own. A symbolic link stays: a venv's is one.
    return Spark(python.absolute(), version, spark, Path(home))


def _own_pyspark() -> tuple[str, str, str]:
    version = ".".join(map(str, sys.version_info[:3]))
    found = util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return version, "", ""
    return version, metadata.version("pyspark"), next(iter(found.submodule_search_locations))


def _pyspark_of(python: Path) -> tuple[str, str, str]:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _VERSIONS_PROGRAM],
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{str(python)!r} cannot be run as a Python interpreter",
            detail=str(error),
            hint="--spark takes the path of a Python interpreter, such as other-venv/bin/python",
        ) from error
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3:
        raise UsageError(
            f"{str(python)!r} is not a Python interpreter",
            detail=done.stderr or done.stdout,
            hint="--spark takes the path of a Python interpreter, such as other-venv/bin/python",
        )
    version, spark, missing = lines[:3]
    if spark and missing != "-":
        raise TestbedError(
            f"PySpark {spark} of {str(python)!r} lacks packages that Spark Connect needs: {missing}",
            hint=f"`{python} -m pip install 'pyspark[connect]=={spark}'`",
        )
    return version, spark, lines[3] if len(lines) > 3 else ""
