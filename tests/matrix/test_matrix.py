"""Every join under every bound, on every state: a choice of what ``make matrix`` runs, and some seeds.

Each join, bound, store, format and setting is in a cell of every day; each two of them meet in a cell of
``python -m tests.matrix --pairwise``.
"""

from __future__ import annotations

import pytest

from tests.matrix.cells import each_value
from tests.matrix.running import run_cell
from tidemark.campaigns.fuzz import run_seed

pytestmark = [pytest.mark.e2e]

FUZZED = 1
"""Of the thousand seeds of ``make fuzz``."""


@pytest.mark.parametrize("cell", each_value(), ids=str)
def test_a_join_is_right_or_its_defect_is_known(cell, warm, tmp_path):
    outcome = run_cell(cell, warm, tmp_path)
    assert outcome.said != "FAILED", outcome.why


@pytest.mark.parametrize("seed", range(FUZZED))
def test_a_random_join_is_judged_as_spark_does_it(seed, warm, tmp_path):
    outcome = run_seed(seed, warm, tmp_path)
    again = f"reproduce: tidemark fuzz --first {seed} --seeds 1; evidence: {outcome.run_dir}"
    assert outcome.holds, f"{outcome.problem}\n{again}"
