"""A driver killed when its batch is committed, and with the commit removed before it is started again."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_right
from tidemark.formats.evidence import RunDirectory
from tidemark.runner.run_options import SINKS

pytestmark = [pytest.mark.chaos, pytest.mark.long]


def killed(run_on_own, sink, point):
    """The evidence of a run whose driver was killed at this point, and the fault."""
    result = run_on_own("left_outer", sink=sink, seed=3, impressions=750, faults=f"driver@{point}")
    must_be_right("left_outer", result.verdict)
    evidence = RunDirectory(result.run_dir)
    [fault] = evidence.faults()
    assert (fault.injected, fault.proof["planned"], fault.proof["committed"]) == (True, True, True)
    return result.verdict, evidence, fault


@pytest.mark.parametrize("sink", SINKS)
def test_a_driver_killed_after_the_commit_repeats_nothing(sink, run_on_own):
    _, evidence, fault = killed(run_on_own, sink, "committed")

    assert not copies(evidence)
    batches = {batch.batch: batch for batch in evidence.batches()}
    assert [batch.runs for batch in batches.values()] == [1] * len(batches)
    assert [number for number, batch in batches.items() if batch.restarted] == [fault.batch + 1]


@pytest.mark.parametrize("sink", SINKS)
def test_a_batch_whose_commit_was_removed_is_run_again_and_doubles_as_its_sink_promises(sink, run_on_own):
    verdict, evidence, fault = killed(run_on_own, sink, "deleted-commit")

    assert [batch.batch for batch in evidence.batches() if batch.runs > 1] == [fault.batch]
    assert set(copies(evidence)) == ({fault.batch} if sink == SPARK else set())
    rows = sum(fault.proof.get("rows", {}).values())
    written = sum(dict(record.headers)["batch"] == str(fault.batch) for record in evidence.output())
    assert (rows > 0, written == 2 * rows) == (sink == SPARK, sink == SPARK)
    assert ("written_kills_doubled" in verdict.asked) is (sink == SPARK)
    assert sink == SPARK or set(fault.proof["ledger"].values()) == {fault.batch + 1}
    assert verdict.delivery == ("exactly-once" if sink == EXACTLY_ONCE else "at-least-once")
