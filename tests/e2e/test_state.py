"""The join's state on a real stack: read back from every format, judged, and seen when it is not as it should be."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from tidemark.errors import PipelineFailed
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

pytestmark = [pytest.mark.e2e]

ENGINE = {"lost_state", "leaked_state", "wrong_flags", "wrong_counts", "wrong_metrics"}
STORE = "spark.sql.streaming.stateStore"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
GATE = "spark.sql.streaming.join.stateFormatV4.enabled=true"
ROCKS = f"{STORE}.providerClass=org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = f"{STORE}.rocksdb.changelogCheckpointing.enabled=true"


@pytest.mark.long  # every day: each cell of tests/matrix, whose state is read and compared
@pytest.mark.parametrize(
    ("join", "pace", "form", "changelog"),
    [
        ("full_outer", "stepped", 2, False),
        ("left_semi", "backlog", 3, True),
        ("left_outer", "stepped", 4, False),
        ("right_outer", "backlog", 4, True),
        ("inner", "stepped", 4, False),
        ("left_semi", "backlog", 4, True),
        ("full_outer", "backlog", 3, False),
        ("left_outer", "backlog", 2, True),
    ],
)
def test_the_state_of_each_format_is_what_the_rules_give(join, pace, form, changelog, run_pipeline):
    conf = (ROCKS, GATE, f"{FORMAT}={form}", *([CHANGELOG] if changelog else []))

    verdict = run_pipeline(join, pace=pace, seed=form, impressions=300, conf=conf).verdict

    assert not ENGINE & set(verdict.findings_total), verdict.findings
    spark_account = verdict.spark_account
    ran = spark_account.format, spark_account.provider, spark_account.changelog
    assert ran == (form, "RocksDBStateStoreProvider", changelog)
    assert len(spark_account.state_batches) == 4
    assert spark_account.count_batches == spark_account.state_batches
    assert spark_account.metric_batches == verdict.counts["batches"]
    assert spark_account.locality.stayed + spark_account.locality.moved > 0
    assert set(spark_account.times_ms) == {"updates", "removals", "commits"}
    assert (spark_account.notes, verdict.inconclusive) == ([], [])


@pytest.mark.long  # every day: the state of left_outer, on time, in tests/mutants/test_evidence.py
def test_damaged_state_is_found_by_its_name(run_pipeline, tmp_path):
    run = RunDirectory(run_pipeline("left_outer", seed=2, impressions=300).run_dir)
    rows = list(run.state())
    marked = next(at for at, row in enumerate(rows) if row.side == "left" and row.matched)
    flipped = [*rows]
    flipped[marked] = msgspec.structs.replace(rows[marked], matched=False)
    stale = msgspec.structs.replace(rows[0], batch=rows[-1].batch)
    reports = run.progress()
    reports[0]["stateOperators"][0]["numRowsTotal"] += 1

    def judged(name, lines):
        twin = RunDirectory(tmp_path / f"{name}-{len(lines)}-{id(lines)}")
        shutil.copytree(run.path, twin.path)
        twin.write_lines(name, lines)
        twin.write_json("manifest", msgspec.structs.replace(run.manifest, records={}))
        return judge(twin).findings_total

    assert judge(run).findings_total == {}
    assert judged("state", rows[1:]) == {"lost_state": 1}
    assert judged("state", [*rows, stale]) == {"leaked_state": 1}
    assert judged("state", flipped) == {"wrong_flags": 1}
    assert judged("state_keys", list(run.state_keys())[1:]) == {"wrong_counts": 1}
    assert judged("progress", reports) == {"wrong_metrics": 1}


def test_a_format_that_spark_refuses_fails_by_its_own_reason(run_pipeline):
    with pytest.raises(PipelineFailed, match=r"STATE_STORE_MULTIPLE_COLUMN_FAMILIES.*HDFSBacked"):
        run_pipeline("inner", seed=2, impressions=300, conf=(GATE, f"{FORMAT}=4"))
