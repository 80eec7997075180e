"""Each known defect of Spark on a real stack: the verdict is ``INVALID``, and every finding names the defect."""

from __future__ import annotations

import json

import pytest

from pipelines.pipeline_loader import load
from tests.support.bundled import case_of
from tidemark import paths
from tidemark.campaigns.state_stores import STATES
from tidemark.formats.chain import Chain
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import TraceReader
from tidemark.oracle.spark.known_defects import DEFECTS

pytestmark = [pytest.mark.e2e]

EVERY_DAY = {"same_batch_left_semi", "null_keys", "condition_bound"}
CASES = [
    pytest.param(defect, case, id=case.name, marks=[] if case.name in EVERY_DAY else pytest.mark.long)
    for defect in DEFECTS
    for case in defect.cases
    if not case.control
]
CONTROLS = [pytest.param(case, id=case.name) for defect in DEFECTS for case in defect.cases if case.control]
PROPERTIES = {
    "same_batch_left_semi": {"lost_rows": 1},
    "same_window_left_semi": {"lost_rows": 3},
    "null_keys": {"missing_nulls": 2, "phantom_rows": 1},
    "one_sided_range": {"missing_nulls": 1},
    "one_sided_equal": {"lost_rows": 1, "nulls_for_matched_rows": 1},
    "null_event_time": {"missing_nulls": 1},
    "condition_bound": {"missing_nulls": 1},
    "condition_range": {"lost_rows": 2},
    "evicted_early": {"missing_nulls": 1},
    "unused_side": {"lost_rows": 4},  # the fifth is due in a batch that never was
}
"""What the judge finds in the run of each case, and nothing else."""
INCONCLUSIVE = {"same_window_left_semi": ["rows_came"], "unused_side": ["flushed", "rows_came"]}
"""The coverage goals that are not met where Spark emits nothing at all."""


@pytest.fixture
def shown(warm, run_pipeline, tmp_path):
    """A function that runs a case, and returns its verdict and the ids of the rows that came."""

    def run(case):
        folder, evidence = paths.spark_bugs_dir(), RunDirectory(tmp_path / "run")
        pipeline, trace = folder / case.pipeline, folder / case.trace
        if isinstance(load(str(pipeline)).CONTRACT, Chain):  # none is a case of a warm driver
            verdict = run_pipeline(str(pipeline), trace=trace, sink="spark", run_dir=evidence.path).verdict
        else:
            verdict = warm.run(case_of(pipeline, trace, sink="spark", conf=case.conf), evidence.path)
        values = [json.loads(record.value) for record in evidence.output()]
        return verdict, {(value.get("left_id"), value.get("right_id")) for value in values}

    return run


@pytest.mark.parametrize(("defect", "case"), CASES)
def test_the_defect_is_found_and_named(defect, case, shown):
    verdict, rows = shown(case)

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == PROPERTIES[case.name]
    assert {finding.defect for finding in verdict.findings} == {defect.name}
    assert verdict.known_defects == {defect.name: defect.text}
    assert [name for name in verdict.asked if not verdict.goals[name]] == INCONCLUSIVE.get(case.name, [])
    assert len(verdict.inconclusive) == len(INCONCLUSIVE.get(case.name, []))
    assert (case.row in rows) != case.is_right


@pytest.mark.long
@pytest.mark.parametrize("case", CONTROLS)
def test_another_join_of_the_same_trace_has_no_defect(case, shown):
    verdict, rows = shown(case)

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.inconclusive
    assert (case.row in rows) == case.is_right


def test_in_state_format_4_the_null_row_of_a_row_without_a_time_comes(warm, tmp_path):
    conf = [f"{name}={value}" for name, value in STATES["RocksDB, 4"].items()]
    folder = paths.spark_bugs_dir()
    case = case_of(folder / "null_event_time.py", folder / "null_event_time.jsonl", sink="spark", conf=conf)

    verdict = warm.run(case, tmp_path / "run")

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.inconclusive
    assert verdict.spark_account.format == 4
    values = [json.loads(record.value) for record in RunDirectory(tmp_path / "run").output()]
    assert [value["right_id"] for value in values if value["left_id"] == "L1"] == [None]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_its_files_are_there(defect):
    for case in defect.cases:
        assert (paths.spark_bugs_dir() / case.pipeline).is_file()
        with TraceReader(paths.spark_bugs_dir() / case.trace) as trace:
            assert list(trace)
