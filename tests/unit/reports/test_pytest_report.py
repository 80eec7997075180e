"""What pytest says of the runs of a test, and what ``pytest --tidemark-report`` collects; no stack is started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.errors import TestbedError, UsageError
from tidemark.pytest_plugin import _collecting, _on_stack
from tidemark.runner.cleanup import first_error_kept
from tidemark.runner.run_options import options_of
from tidemark.stack import StackSpec

pytest_plugins = ["pytester"]

CONFTEST = """
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark import paths, runner
from tidemark.formats.evidence import RunDirectory
from tidemark.reports.html_report import report_beside
from tidemark.runner.one_run import RunResult, _must_be_free, seal_and_judge
from tidemark.stack import StackSpec


@pytest.fixture(scope="session")
def stack():
    "None runs: runs are recorded ones."
    return SimpleNamespace(spec=StackSpec())


@pytest.fixture(autouse=True)
def recorded(monkeypatch, tmp_path):
    "A run has the evidence of a recorded one, which is judged, and has a page."

    def run(asked, *, made):
        _must_be_free(asked.run_dir)
        asked.run_dir.mkdir(parents=True, exist_ok=True)
        made(asked.run_dir)
        evidence = Path({golden!r}) / asked.pipeline
        if not evidence.is_dir():
            raise RuntimeError("the run did not end")
        shutil.copytree(evidence, asked.run_dir, dirs_exist_ok=True)
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


def test_a_run_that_is_refused_is_not_collected_and_says_why(session, pytester, tmp_path):
    pytester.makepyfile(
        test_joins="""
def test_twice(run_pipeline, tmp_path):
    run_pipeline("typed_valid", run_dir=tmp_path / "mine")
    run_pipeline("typed_valid", run_dir=tmp_path / "mine")

def test_here(run_pipeline):
    run_pipeline("typed_valid", run_dir=".")
"""
    )

    done = session("--tidemark-report", "out")

    done.assert_outcomes(failed=2)
    assert done.stdout.str().count("is not empty") >= 2
    assert "cannot be collected" not in done.stdout.str()
    assert collected(pytester.path / "out") == {
        "test_twice": ("failed", ["run-1"]),
        "test_here": ("failed", []),
    }


def test_what_cannot_be_collected_is_a_note_of_the_error_of_its_run(tmp_path):
    for name in ("made", "taken"):
        (tmp_path / name).mkdir()
    collecting = lambda: first_error_kept(_collecting([tmp_path / "made"], tmp_path / "taken"))  # noqa: E731

    with pytest.raises(UsageError, match="refused") as error, collecting():
        raise UsageError("refused")
    with pytest.raises(TestbedError, match="cannot be collected"), collecting():
        pass

    assert "cannot be collected" in str(error.value)


def test_an_interpreter_that_the_stack_does_not_run_is_refused():
    other, own = Path("/opt/spark/bin/python"), Path(sys.executable)
    stack = SimpleNamespace(spec=StackSpec())
    with pytest.raises(UsageError, match="asks for another") as error:
        _on_stack(options_of("join", {"python": other}), stack)

    assert f"lease(spec_to_lease(Path('{other}')))" in error.value.hint
    assert _on_stack(options_of("join", {}), stack).python is None
    assert _on_stack(options_of("join", {"python": os.path.relpath(own)}), stack).python == own


def test_a_run_has_the_interpreter_of_a_stack_that_a_conftest_leases():
    other = Path("/opt/spark/bin/python")
    stack = SimpleNamespace(spec=StackSpec(python=other))

    assert _on_stack(options_of("join", {}), stack).python == other
    assert _on_stack(options_of("join", {"python": other}), stack).python == other
    with pytest.raises(UsageError, match="asks for another"):
        _on_stack(options_of("join", {"python": sys.executable}), stack)


@pytest.mark.long
def test_workers_of_xdist_collect_into_one_folder(session, pytester):
    done = session("-n", "2", "--tidemark-report", "out")

    done.assert_outcomes(passed=3, failed=2)
    assert sorted(collected(pytester.path / "out")) == [
        "test_lost", "test_named[a/b]", "test_that_does_not_end", "test_valid",
    ]  # fmt: skip
    assert done.stdout.str().count("tidemark report: ") == 1
    assert "test_joins.py::test_lost" in (pytester.path / "out" / "index.html").read_text()
