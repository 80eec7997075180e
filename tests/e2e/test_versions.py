"""``tidemark versions``: the known defects on a stack of its own, for the Spark of this environment and for others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.oracle.defects import DEFECTS, FULL_OUTER_JOINS_NULL_KEYS, LEFT_SEMI_LOSES_SAME_BATCH_ROWS
from tidemark.runner.environments import RELEASES

pytestmark = [pytest.mark.e2e]

COMMAND_S = 600.0
ALL_S = 7200.0


def versions(*arguments: object, timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tidemark", "versions", *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.long
def test_the_defects_of_the_spark_that_is_here_are_seen_and_named(tmp_path: Path):
    document = tmp_path / "defects.md"
    chosen = ("same_batch_inner", "same_batch_left_semi", "null_keys")
    done = versions(
        "--spark", sys.executable, "--json", "--markdown", document, *[f"--case={name}" for name in chosen]
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    [spark] = told["versions"]
    assert [(cell["case"], cell["answer"], cell["verdict"]) for cell in told["cells"]] == [
        ("same_batch_inner", "right", "VALID"),
        ("same_batch_left_semi", "wrong", "INVALID"),
        ("null_keys", "wrong", "INVALID"),
    ]
    assert [cell["defect"] for cell in told["cells"][1:]] == [
        LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
        FULL_OUTER_JOINS_NULL_KEYS,
    ]
    text = document.read_text()
    assert f"| case | {spark} |" in text
    assert "| left semi gives L50 | **no, wrong** |" in text


def test_an_interpreter_without_pyspark_ends_it_before_anything_is_run(tmp_path: Path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = versions("--spark", bare)

    assert done.returncode == 4
    assert "has no PySpark" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_every_defect_is_in_the_versions_that_are_known_to_have_it():
    """Environments are made through pip; nothing is asked of this one but its tidemark."""
    done = versions("--json", timeout_s=ALL_S)

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert list(told["versions"]) == list(RELEASES)
    answers = {(cell["case"], cell["spark"]): cell["answer"] for cell in told["cells"]}
    assert answers == {
        (case.name, spark): "wrong" if not case.control and defect.affects(spark) else "right"
        for defect in DEFECTS
        for case in defect.cases
        for spark in RELEASES
    }
