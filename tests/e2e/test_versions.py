"""``tidemark versions`` for the installed Spark. ``make versions`` runs it for every supported version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.oracle.spark.known_defects import FULL_OUTER_JOINS_NULL_KEYS, LEFT_SEMI_LOSES_SAME_BATCH_ROWS

pytestmark = [pytest.mark.e2e]

COMMAND_S = 600.0


def versions(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tidemark", "versions", *map(str, arguments)],
        capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.long
def test_the_defects_of_the_installed_spark_are_found_and_named(tmp_path: Path):
    document = tmp_path / "defects.md"
    chosen = ("same_batch_inner", "same_batch_left_semi", "null_keys")
    done = versions(
        "--spark", sys.executable, "--json", "--markdown", document, *[f"--case={name}" for name in chosen]
    )

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    [spark] = report["versions"]
    assert [(cell["case"], cell["answer"], cell["verdict"]) for cell in report["cells"]] == [
        ("same_batch_inner", "right", "VALID"),
        ("same_batch_left_semi", "wrong", "INVALID"),
        ("null_keys", "wrong", "INVALID"),
    ]
    assert [cell["defect"] for cell in report["cells"][1:]] == [
        LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
        FULL_OUTER_JOINS_NULL_KEYS,
    ]
    text = document.read_text()
    assert f"| case | {spark} |" in text
    assert "| left semi gives L50 | **no, wrong** |" in text


def test_an_interpreter_without_pyspark_is_an_error_before_any_case_runs(tmp_path: Path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = versions("--spark", bare)

    assert done.returncode == 4
    assert "has no PySpark" in done.stderr
    assert "Traceback" not in done.stderr
