"""Each known defect of Spark on a real stack: the verdict is ``INVALID``, and every finding names the defect."""

from __future__ import annotations

import json

import pytest

from tests.bundled import case_of
from tidemark import project
from tidemark.cases.states import STATES
from tidemark.evidence import RunDirectory
from tidemark.oracle.defects import DEFECTS
from tidemark.trace import TraceReader

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
    "null_keys": {"missing_nulls": 2, "phantom_rows": 1},
    "one_sided_range": {"missing_nulls": 1},
    "one_sided_equal": {"lost_rows": 1, "nulls_for_matched_rows": 1},
    "timeless": {"missing_nulls": 1},
    "condition_bound": {"missing_nulls": 1},
}
"""What the judge finds in the run of each case, and nothing else."""


@pytest.fixture
def shown(warm, tmp_path):
    """A function that runs a case, and returns its verdict and the ids of the rows that came."""

    def run(case):
        folder, evidence = project.defects_dir(), RunDirectory(tmp_path / "run")
        verdict = warm.run(case_of(folder / case.pipeline, folder / case.trace, sink="spark"), evidence.path)
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
    assert verdict.doubts == []
    assert (case.row in rows) != case.is_right


@pytest.mark.long
@pytest.mark.parametrize("case", CONTROLS)
def test_another_join_of_the_same_trace_has_no_defect(case, shown):
    verdict, rows = shown(case)

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.doubts
    assert (case.row in rows) == case.is_right


def test_in_state_format_4_the_null_row_of_a_row_without_a_time_comes(warm, tmp_path):
    conf = [f"{name}={value}" for name, value in STATES["RocksDB, 4"].items()]
    folder = project.defects_dir()
    case = case_of(folder / "timeless.py", folder / "timeless.jsonl", sink="spark", conf=conf)

    verdict = warm.run(case, tmp_path / "run")

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.doubts
    assert verdict.engine.format == 4
    values = [json.loads(record.value) for record in RunDirectory(tmp_path / "run").output()]
    assert [value["right_id"] for value in values if value["left_id"] == "L1"] == [None]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_its_files_are_there(defect):
    for case in defect.cases:
        assert (project.defects_dir() / case.pipeline).is_file()
        with TraceReader(project.defects_dir() / case.trace) as trace:
            assert list(trace)
