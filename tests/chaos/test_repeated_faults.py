"""A fault that is repeated until something holds: in one batch after the other, each proved, and every row right."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_right
from tidemark.formats.evidence import RunDirectory

pytestmark = [pytest.mark.chaos, pytest.mark.long]

BATCHES, SECONDS = 4, 8
GENERATOR = ("--slices", "30")
"""More than are hit before either holds."""


def hit_again_and_again(run_on_own, join, sink, faults):
    """The lines of a fault in a run that is right, in the order in which it was injected."""
    result = run_on_own(join, sink=sink, seed=3, impressions=1500, faults=faults, generator=GENERATOR)
    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    lines = evidence.faults()
    assert len(lines) > 1
    assert all(line.injected and line.proof["planned"] and not line.proof["committed"] for line in lines)
    hit = [line.batch for line in lines]
    assert hit == sorted(set(hit))
    assert hit[-1] < max(batch.batch for batch in evidence.batches())
    assert sink == SPARK or not copies(evidence)
    return lines


def test_an_executor_is_killed_until_so_many_batches_are_committed(run_on_own):
    faults = f"executor@planned*until={BATCHES}batches"

    lines = hit_again_and_again(run_on_own, "left_outer", EXACTLY_ONCE, faults)

    assert lines[-2].batch < lines[0].batch + BATCHES <= lines[-1].batch
    assert len({(line.proof["executor_id"], line.proof["pid"]) for line in lines}) == len(lines)


def test_a_broker_is_paused_until_so_many_seconds_are_over(run_on_own):
    faults = f"broker:pause@planned~0.5*until={SECONDS}s"

    lines = hit_again_and_again(run_on_own, "inner", SPARK, faults)

    begun_s = [datetime.fromisoformat(line.at_utc).timestamp() for line in lines]
    first_ended_s, last_ended_s = begun_s[0] + lines[0].recovery_s, begun_s[-1] + lines[-1].recovery_s
    assert begun_s[-2] - first_ended_s < SECONDS
    assert last_ended_s - first_ended_s > SECONDS - 1
