"""The commands of the campaigns that ``make`` calls start: no test of every day runs one to its end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidemark import paths

STARTS_S = 120
"""Calibration: 1 to 2 s, and 6 s where pytest collects."""


@pytest.mark.parametrize(
    ("module", "asked", "answer"),
    [
        ("tests.mutants", "--collect-only", "test_a_mutant_is_caught_by_name"),
        ("tests.matrix", "--help", "usage: python -m tests.matrix"),
        ("tests.other_sparks", "--help", "usage: python -m tests.other_sparks"),
        ("tests.spark_tickets", "--help", "usage: python -m tests.spark_tickets"),
        ("tests.upgrades", "--help", "usage: python -m tests.upgrades"),
        ("tests.evidence", "--help", "usage: python -m tests.evidence"),
        ("tests.shrunk", "--help", "usage: python -m tests.shrunk"),
        ("tests.chaos", "--help", "usage: python -m tests.chaos"),
        ("tests.long", "--help", "usage: python -m tests.long"),
        ("bench", "--help", "usage: python -m bench"),
    ],
)
def test_a_campaign_starts(module, asked, answer):
    started = subprocess.run(
        [sys.executable, "-m", module, asked],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        timeout=STARTS_S,
        check=False,
    )

    assert started.returncode == 0, started.stdout + started.stderr
    assert answer in started.stdout
