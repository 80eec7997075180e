"""The bundled chains on a real stack: aggregations, deduplications and joins around a join, or alone."""

from __future__ import annotations

import itertools

import pytest

pytestmark = [pytest.mark.e2e]

CHAINS = (
    "clicks_per_window", "impressions_once", "first_impressions", "windows_joined", "clicked_per_window",
    "once_then_joined", "shown_again",
)  # fmt: skip
EVERY_DAY = {("shown_again", "stepped")}
CASES = [
    pytest.param(*case, marks=[] if case in EVERY_DAY else pytest.mark.long, id="-".join(case))
    for case in itertools.product(CHAINS, ("stepped", "backlog"))
]


@pytest.mark.parametrize(("name", "pace"), CASES)
def test_a_sound_chain_raises_no_alarm(name, pace, run_pipeline):
    verdict = run_pipeline(name, pace=pace, seed=CHAINS.index(name) + 1, impressions=300).verdict

    assert verdict.findings == []
    assert verdict.verdict == "VALID", verdict.inconclusive
    assert verdict.kind == "chain"
    assert {"flushed", "rows_came"} <= set(verdict.asked)
    assert all(verdict.goals[goal] for goal in verdict.asked), verdict.goals
    assert len(verdict.spark_account.state_batches) > 1
    assert verdict.spark_account.notes == []
