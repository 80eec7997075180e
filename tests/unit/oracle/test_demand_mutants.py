"""Mutants of what a run has to do in time, on evidence written by hand: each breaks its demand by one step.

``tests/mutants/test_evidence.py`` has them on the evidence of a real run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mutants.demand_evidence import DEMAND_EVIDENCE, problems
from tidemark.formats.evidence import RunDirectory

TYPED = Path(__file__).parents[2] / "golden" / "evidence" / "typed_demands_broken"
FROM, TO = "00:26:55.000", "00:27:19.500"
"""The end of the broker's pause, before and after the commit of the batch that it hit."""


@pytest.fixture
def kept(tmp_path):
    """A run in which a batch is committed while the broker is paused."""
    folder = Path(shutil.copytree(TYPED, tmp_path / "kept"))
    journal = folder / "faults.jsonl"
    text = journal.read_text()
    assert text.count(FROM) == 1
    journal.write_text(text.replace(FROM, TO))
    return RunDirectory(folder)


@pytest.mark.parametrize("name", DEMAND_EVIDENCE)
def test_a_demand_is_met_to_the_hair_and_broken_by_one_step_and_not_met_if_nothing_shows_it(
    name, kept, tmp_path
):
    _, found = problems(kept, name, tmp_path / "mutants")

    assert found == []
