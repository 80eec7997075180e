"""``tidemark audit`` of the program of ``test_audit``, run by other versions of Spark: one kill, few slices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.foreign_query import ForeignQuery, ForeignSpark
from tidemark.oracle.spark.known_defects import ROCKSDB
from tidemark.runner.pyspark_environments import folder, provide

OLDEST, NEWEST = "4.0.5", "4.3.0"
"""Of the releases of Spark that a stack runs with; ``test_audit`` has the installed one."""
NEWEST_LOGS = {
    "spark__sql__streaming__offsetLog__formatVersion": 2,
    "spark__sql__streaming__stateStore__checkpointFormatVersion": 2,
    "spark__sql__streaming__stateStore__providerClass": ROCKSDB,
    "spark__sql__streaming__queryEvolution__enableSourceEvolution": "true",
    "spark__sql__streaming__queryEvolution__enableSinkEvolution": "true",
}
"""Settings with which Spark 4.3 writes the newest versions of its logs."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "conf", "logs"),
    [(OLDEST, {}, ("v1", "v1")), (NEWEST, {}, ("v1", "v1")), (NEWEST, NEWEST_LOGS, ("v2", "v3"))],
    ids=[OLDEST, NEWEST, f"{NEWEST}-newest-logs"],
)
def test_the_rows_that_came_again_are_found_and_nothing_else(stack, tmp_path, release, conf, logs):
    spark = ForeignSpark.of(provide(release, folder(), print))
    query = ForeignQuery(stack.bootstrap_servers, tmp_path, seed=7, spark=spark)
    query.run_with_a_kill(**conf)
    assert versions_of(query.checkpoint.path) == logs
    assert query.repeats() > 0

    asked = {"delivery": "exactly-once", "spark_version": release}
    verdict = query.audit(tmp_path / "audit", **asked).verdict

    repeats = query.repeats()
    assert verdict.findings_total == {"duplicate_rows": repeats}
    assert (verdict.verdict, verdict.inconclusive) == ("INVALID", [])
    assert {finding.defect for finding in verdict.findings} == {None}
    counts = verdict.counts
    assert counts["undetermined"] == counts["undetermined_absent"] == 0
    assert counts["late"] > 0
    assert counts["joined_rows"] > 0 < counts["null_rows"]
    assert counts["joined_rows"] + counts["null_rows"] == counts["expected_rows"] == query.written() - repeats
    manifest = json.loads((tmp_path / "audit" / "manifest.json").read_text())
    assert manifest["versions"] == {"spark": release}
    query.drop()


def versions_of(checkpoint: Path) -> tuple[str, str]:
    """The versions of the logs of offsets and of commits."""
    offsets, commits = (
        (checkpoint / name / "0").read_text().splitlines()[0] for name in ("offsets", "commits")
    )
    return offsets, commits
