"""What pytest says of the runs of a test, and what ``pytest --tidemark-report`` collects; no stack is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import shutil
from pathlib import Path

import pytest

from tidemark import paths, runner
from tidemark.formats.evidence import RunDirectory
from tidemark.reports.html_report import report_beside
from tidemark.runner.one_run import RunResult, seal_and_judge


@pytest.fixture(scope="session")
def stack():
    "None is needed: runs are recorded ones."


@pytest.fixture(autouse=True)
def recorded(monkeypatch, tmp_path):
    "A run has the evidence of a recorded one, which is judged, and has a page."

    def run(asked):
        evidence = Path({golden!r}) / asked.pipeline
        if not evidence.is_dir():
            asked.run_dir.mkdir(parents=True)
            raise RuntimeError("the run did not end")
        shutil.copytree(evidence, asked.run_dir)
        directory = RunDirectory(asked.run_dir)
        verdict = seal_and_judge(directory)
        report_beside(directory, verdict)
        return RunResult(verdict, asked.run_dir, "", "")

    monkeypatch.setattr(runner, "run_pipeline", run)
    monkeypatch.setattr(paths, "runs_dir", lambda: Path({runs!r}))
"""
TESTS = """
import pytest

def test_valid(run_pipeline):
    run_pipeline("typed_valid").assert_valid()

def test_lost(run_pipeline):
    run_pipeline("typed_valid")
    assert run_pipeline("typed_missing_null").verdict.counts["late"] == 77

@pytest.mark.parametrize("at", ["a/b"])
def test_named(run_pipeline, tmp_path, at):
    run_pipeline("typed_valid", run_dir=tmp_path / "mine")

def test_that_does_not_end(run_pipeline):
    run_pipeline("nothing")

def test_without_a_run():
    assert True
"""


@pytest.fixture
def session(pytester, golden, tmp_path):
    """A function that runs pytest with these options on a small suite."""
    runs = tmp_path / "runs"
    pytester.makeconftest(
        CONFTEST.replace("{golden!r}", repr(str(golden))).replace("{runs!r}", repr(str(runs)))
    )
    pytester.makepyfile(test_joins=TESTS)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def collected(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Outcome, and the run directories, of each test."""
    found = {}
    for path in folder.glob("*/tidemark-test.json"):
        test = json.loads(path.read_text())
        runs = sorted(one.name for one in path.parent.iterdir() if one.is_dir())
        found[test["test"].removeprefix("test_joins.py::")] = (test["outcome"], runs)
    return found


def test_a_failure_has_a_section_that_names_the_page_of_each_run(session, tmp_path):
    done = session("-k", "lost or does_not_end")

    done.assert_outcomes(failed=2)
    sections = done.stdout.str().split(" tidemark report -")[1:]
    first, second = sections[0].splitlines()[1:3]
    assert first.startswith(f"VALID  {tmp_path}/runs/tests/test-lost-")
    assert second.startswith(f"INVALID  {tmp_path}/runs/tests/test-lost-")
    assert Path(second.split()[1]).is_file()
    assert (
        sections[1]
        .splitlines()[1]
        .endswith("(no report.html: the run did not end, or its page cannot be made)")
    )


def test_what_is_collected_has_an_index_of_all_tests_and_only_what_the_last_session_ran(session, pytester):
    folder = pytester.path / "out" / "report"
    done = session("--tidemark-report", "out/report")

    done.stdout.fnmatch_lines([f"tidemark report: {folder}/index.html"])
    assert collected(folder) == {
        "test_valid": ("passed", ["run-1"]),
        "test_lost": ("failed", ["run-1", "run-2"]),
        "test_named[a/b]": ("passed", ["run-1"]),
        "test_that_does_not_end": ("failed", ["run-1"]),
    }
    page = (folder / "index.html").read_text()
    assert page.index("test_joins.py::test_lost") < page.index("test_joins.py::test_valid")
    assert page.count("/run-2/report.html") == 2
    (folder / "mine.txt").write_text("kept")
    session("--tidemark-report", "out/report", "-k", "valid")
    assert collected(folder) == {"test_valid": ("passed", ["run-1"])}
    assert (folder / "mine.txt").read_text() == "kept"


def test_a_session_without_a_run_says_so_and_a_folder_that_cannot_be_made_is_refused(session, pytester):
    session("--tidemark-report", "out", "-k", "without").stdout.fnmatch_lines(
        ["tidemark report: no test ran a pipeline"]
    )
    (pytester.path / "file").touch()

    refused = session("--tidemark-report", "file/out", "-k", "without")

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "file/out' cannot be written" in refused.stdout.str() + refused.stderr.str()


@pytest.mark.long
def test_workers_of_xdist_collect_into_one_folder(session, pytester):
    done = session("-n", "2", "--tidemark-report", "out")

    done.assert_outcomes(passed=3, failed=2)
    assert sorted(collected(pytester.path / "out")) == [
        "test_lost", "test_named[a/b]", "test_that_does_not_end", "test_valid",
    ]  # fmt: skip
    assert done.stdout.str().count("tidemark report: ") == 1
    assert "test_joins.py::test_lost" in (pytester.path / "out" / "index.html").read_text()
