"""Keeps the evidence of every mutant: runs their tests, and copies what each of them has judged.

A test leaves the folder of its evidence in its report (``tests.mutants.score.EVIDENCE``). What is kept lies in
``build/diagnoses``, a folder for each place, mutant and join, and is not in git: real runs of a real Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutants.score import EVIDENCE
from tidemark import paths

FOLDER = paths.root() / "build" / "diagnoses"
UNASKED = ("logs", "code.zip", "pipeline.py", "project", "verdict.json", "report.html", "seal.json")
"""What of a run directory no judgement reads."""
PLUGIN_IS_IMPORTED = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"


class Recorder:
    """A plugin that copies the evidence of each test that passed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or not report.passed:
            return
        for name, value in report.user_properties:
            if name == EVIDENCE:
                *place, folder = value
                keep(Path(folder), folder_of(*place))


def keep(run: Path, folder: Path) -> None:
    """Copy what a judgement reads, in the place of what was kept before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns(*UNASKED))


def folder_of(place: str, name: str, join: str) -> Path:
    """Where the evidence of a mutant on a join is kept."""
    return FOLDER / place / name.replace("/", "_") / join


def kept() -> Iterator[tuple[tuple[str, str, str], Path]]:
    """Place, name and join of every mutant whose evidence is kept, and the folder."""
    for path in sorted(FOLDER.glob("*/*/*/manifest.json")):
        join, name, place = (folder.name for folder in list(path.parents)[:3])
        yield (place, name, join), path.parent


def record(arguments: Sequence[str]) -> int:
    """Run the tests of the mutants; ``arguments`` are pytest's. The exit code of pytest."""
    tests = [
        "tests/mutants", "tests/regressions/test_historic.py", "tests/diagnoses/test_held_out.py",
        "--ignore=tests/mutants/test_score.py",
    ]  # fmt: skip
    chosen = [] if any(word.startswith("tests/") for word in arguments) else tests
    return int(
        pytest.main(
            [PLUGIN_IS_IMPORTED, "-m", "mutants or regressions", *chosen, *arguments, "-n0"],
            plugins=[Recorder()],
        )
    )
