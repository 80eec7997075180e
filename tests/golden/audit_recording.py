"""``python -m tests.golden.audit_recording``: record a query of Spark 3.5.7, and what an audit finds of it.

The program is the one of ``tests/e2e/test_audit.py``, killed in the middle of a batch and started again. PySpark 3.5.7
is installed by pip, once, beside the environments of ``tidemark versions``; the jars of its connector are locked with
those of a stack. No stack runs with it: the broker is that of the usual one, and the program has a session of its own.

It needs Java 17, the newest that Spark 3.5 runs with. What was recorded before is overwritten; judgements that are not
what they were are shown, and ``python -m tests.golden --accept-facts`` takes them over.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.foreign_query import ForeignQuery, ForeignSpark
from tests.golden.__main__ import main as judge_all
from tests.golden.judging import EVIDENCE, HERE
from tidemark.errors import JavaError
from tidemark.runner.pyspark_environments import folder
from tidemark.stack import StackSpec, lease
from tidemark.stack.install.toolchain import check_java, find_java

RELEASE = "3.5.7"
NAME = "audit_spark_3_5"
CHECKPOINT = HERE / "checkpoints" / NAME
"""The checkpoint of the query, as far as an audit reads it."""
FOLDERS = ("offsets", "commits", "sources")
JAVA = "17"
INSTALL_S = 3600.0
"""Calibration: downloading 320 MB and building takes 1 to 3 minutes; an hour allows for a slow network."""


def main() -> int:
    """Record it, and judge all goldens again; the exit code is that of ``python -m tests.golden``."""
    must_be_java_17()
    spark = ForeignSpark(installed(folder() / f"pyspark-{RELEASE}"), (f"spark-{RELEASE}",))
    with tempfile.TemporaryDirectory() as place, lease(StackSpec(backend="local")) as stack:
        query = ForeignQuery(stack.bootstrap_servers, Path(place), seed=7, spark=spark)
        query.run_with_a_kill()
        run = Path(place) / "audit"
        found = query.audit(run, delivery="exactly-once", spark_version=RELEASE).verdict
        print(f"{found.verdict}: {found.findings_total}; rows that came again: {query.repeats()}")
        query.drop()
        keep_checkpoint(query.checkpoint.path)
        shutil.rmtree(EVIDENCE / NAME, ignore_errors=True)
        return judge_all(["--add", str(run), NAME])


def must_be_java_17() -> None:
    """Raise ``JavaError`` for another Java."""
    java = find_java()
    version = check_java(java)
    if version.split(".")[0] != JAVA:
        raise JavaError(
            f"Java {version} does not run Spark {RELEASE}",
            detail=f"{java} is version {version}",
            hint=f"set JAVA_HOME to a Java {JAVA}",
        )


def installed(home: Path) -> Path:
    """The interpreter of an environment with this PySpark, which is created if it is missing.

    ``tidemark.runner.pyspark_environments`` makes those of a stack: they have Spark Connect, which this one has not.
    """
    python = home / "bin" / "python"
    if not python.exists() or version_of(python) != RELEASE:
        print(f"installing PySpark {RELEASE} (320 MB)")
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        subprocess.run([*pip, f"pyspark=={RELEASE}"], check=True, timeout=INSTALL_S)
    return python


def version_of(python: Path) -> str:
    """The version of an interpreter's PySpark; empty if it has none."""
    program = "import importlib.metadata as m; print(m.version('pyspark'))"
    return subprocess.run([python, "-c", program], capture_output=True, text=True).stdout.strip()


def keep_checkpoint(checkpoint: Path) -> None:
    """Copy what an audit reads, without Hadoop's checksums."""
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    CHECKPOINT.mkdir(parents=True)
    shutil.copyfile(checkpoint / "metadata", CHECKPOINT / "metadata")
    for part in FOLDERS:
        shutil.copytree(checkpoint / part, CHECKPOINT / part, ignore=shutil.ignore_patterns(".*"))


if __name__ == "__main__":
    sys.exit(main())
