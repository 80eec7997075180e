"""A program of plain PySpark, or of Kafka alone, under an interpreter: whether it shows its bug.

It prints what is right, after ``expected``, and ends with 1 if something else came, else with 0.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RED, GREEN, FAILED = "red", "green", "failed"


class ProgramAnswer(NamedTuple):
    """``answer`` is red, green or failed, ``said`` what the program printed, ``end`` how one ended that failed."""

    answer: str
    said: str
    end: str = ""


def answer_of(program: Path, python: Path, timeout_s: float, more: Sequence[str] = ()) -> ProgramAnswer:
    """Run a program with ``more`` as its arguments, without what this process has set for Spark and for imports."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment = {**plain, "PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    argv = [str(python), str(program), *more]
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return ProgramAnswer(FAILED, "", f"did not end within {timeout_s:g} s")
    end = "\n".join(done.stderr.splitlines()[-5:])
    if "expected" not in done.stdout or done.returncode not in (0, 1):
        return ProgramAnswer(FAILED, done.stdout, end)
    return ProgramAnswer(RED if done.returncode else GREEN, done.stdout)
