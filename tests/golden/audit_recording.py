"""``python -m tests.golden.audit_recording``: record a query of Spark 3.5.7, and what an audit finds of it.

The program is the one of ``tests/e2e/test_audit.py``, killed in the middle of a batch and started again. PySpark 3.5.7
is that of ``tidemark versions``. The broker is that of the usual stack, and the program has a session of its own.

It needs Java 17, the newest that Spark 3.5 runs with. What was recorded before is overwritten; judgements that are not
what they were are shown, and ``python -m tests.golden --accept-facts`` takes them over.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.e2e.foreign_query import ForeignQuery, ForeignSpark
from tests.golden.__main__ import main as judge_all
from tests.golden.judging import EVIDENCE, HERE
from tidemark.runner.pyspark_environments import folder, provide
from tidemark.stack import StackSpec, lease
from tidemark.stack.install.toolchain import check_java, find_java

RELEASE = "3.5.7"
NAME = "audit_spark_3_5"
CHECKPOINT = HERE / "checkpoints" / NAME
"""The checkpoint of the query, as far as an audit reads it."""
FOLDERS = ("offsets", "commits", "sources")


def main() -> int:
    """Record it, and judge all goldens again; the exit code is that of ``python -m tests.golden``."""
    check_java(find_java(), RELEASE)
    spark = ForeignSpark.of(provide(RELEASE, folder(), print))
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


def keep_checkpoint(checkpoint: Path) -> None:
    """Copy what an audit reads, without Hadoop's checksums."""
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    CHECKPOINT.mkdir(parents=True)
    shutil.copyfile(checkpoint / "metadata", CHECKPOINT / "metadata")
    for part in FOLDERS:
        shutil.copytree(checkpoint / part, CHECKPOINT / part, ignore=shutil.ignore_patterns(".*"))


if __name__ == "__main__":
    sys.exit(main())
