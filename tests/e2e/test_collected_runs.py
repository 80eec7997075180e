"""``pytest --tidemark-report`` in a folder of its own, with two workers on one stack."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import tidemark

TESTS = """
def test_inner(run_pipeline):
    run_pipeline("inner", impressions=400).assert_valid()

def test_semi(run_pipeline):
    result = run_pipeline("left_semi", pace="backlog", seed=5, impressions=750)
    result.assert_valid()
"""


@pytest.mark.long
def test_each_worker_collects_evidence_that_is_judged_again_and_the_failure_names_its_page(stack, tmp_path):
    (tmp_path / "test_joins.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    folder = tmp_path / "report"

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "--tidemark-report", "report"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    tests = {
        one["test"]: (one["outcome"], path.parent / "run-1")
        for path in folder.glob("*/tidemark-test.json")
        if (one := json.loads(path.read_text()))
    }
    assert {name: outcome for name, (outcome, _) in tests.items()} == {
        "test_joins.py::test_inner": "passed",
        "test_joins.py::test_semi": "failed",
    }
    lost = tests["test_joins.py::test_semi"][1]
    assert f"INVALID  {lost / 'report.html'}" in done.stdout
    assert tidemark.check(lost).defects_total == {"left-semi-loses-same-batch-rows": 4}
    assert f"tidemark report: {folder / 'index.html'}" in done.stdout
    assert (folder / "index.html").read_text().count("/run-1/report.html") == 4
