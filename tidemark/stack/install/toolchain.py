"""What a stack is run with: Java, and the PySpark of one interpreter.

Free of processes that stay. Both are found without starting anything heavy, because a warm ``tidemark up`` passes
through here; Java is asked for its version only before something is started with it (:func:`check_java`).
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
_ASK_TIMEOUT_S = 30
"""Calibration: ``java -version`` and a bare interpreter answer in under 0.3 s; more only on a machine in trouble."""
_ASK_PYTHON = """
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
        """The folder of the jars that come with the wheel."""
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
            hint=f"point JAVA_HOME at a Java {OLDEST_JAVA} or 21, or unset it to use the java on PATH",
        )
    found = shutil.which("java")
    if found is None:
        raise JavaError(
            "there is no Java",
            detail="JAVA_HOME is not set and no `java` is on PATH",
            hint=f"install Java {OLDEST_JAVA} or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; "
            "macOS: `brew install openjdk@17`)",
        )
    return Path(found)


def check_java(java: Path) -> str:
    """The version of ``java``; raises ``JavaError`` if Spark cannot run with it."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(
            f"{str(java)!r} does not run", detail=str(error), hint="`java -version` should print a version"
        ) from error
    text = asked.stderr + asked.stdout
    match = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', text)
    if asked.returncode != 0 or match is None:
        raise JavaError(
            f"{str(java)!r} does not say its version", detail=text, hint="`java -version` should print one"
        )
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if major < OLDEST_JAVA:
        raise JavaError(
            f"Java {major} is too old",
            detail=f"{java} is version {match[0].split()[1]}; Spark needs {OLDEST_JAVA} or later",
            hint=f"install Java {OLDEST_JAVA} or 21 and set JAVA_HOME to it",
        )
    return match[0].split()[1].strip('"')


def find_spark(python: Path) -> Spark:
    """The PySpark of ``python``; raises ``UsageError`` or ``TestbedError`` if it cannot serve a stack."""
    own = python == Path(sys.executable)
    version, spark, home = _ask_self() if own else _ask(python)
    if not spark:
        raise TestbedError(
            f"{str(python)!r} has no PySpark",
            hint=f"`{python} -m pip install 'pyspark[connect]'`",
        )
    if not any(Path(home, "jars").glob("spark-connect_*.jar")):
        raise TestbedError(
            f"PySpark {spark} of {str(python)!r} has no Spark Connect",
            detail=f"there is no spark-connect jar in {home}/jars",
            hint="use PySpark 4.0 or later, installed from PyPI (not pyspark-client)",
        )
    return Spark(python, version, spark, Path(home))


def _ask_self() -> tuple[str, str, str]:
    version = ".".join(map(str, sys.version_info[:3]))
    found = util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return version, "", ""
    return version, metadata.version("pyspark"), next(iter(found.submodule_search_locations))


def _ask(python: Path) -> tuple[str, str, str]:
    try:
        asked = subprocess.run(
            [python, "-I", "-c", _ASK_PYTHON],
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{str(python)!r} is not a Python that runs",
            detail=str(error),
            hint="`--spark` takes the path of an interpreter, such as other-venv/bin/python",
        ) from error
    lines = asked.stdout.splitlines()
    if asked.returncode != 0 or len(lines) < 3:
        raise UsageError(
            f"{str(python)!r} does not answer as a Python does",
            detail=asked.stderr or asked.stdout,
            hint="`--spark` takes the path of an interpreter, such as other-venv/bin/python",
        )
    version, spark, missing = lines[:3]
    if spark and missing != "-":
        raise TestbedError(
            f"PySpark {spark} of {str(python)!r} lacks what Spark Connect needs: {missing}",
            hint=f"`{python} -m pip install 'pyspark[connect]=={spark}'`",
        )
    return version, spark, lines[3] if len(lines) > 3 else ""
