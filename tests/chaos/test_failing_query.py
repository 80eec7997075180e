"""Under faults a query that fails by itself is started again, and so is one whose program dies; every row is right."""

from __future__ import annotations

import os

import psutil
import pytest

from tests.chaos.copies import copies
from tests.e2e.conftest import shown
from tests.mutants.mutants import PIPELINES
from tidemark.errors import PipelineFailed
from tidemark.formats.evidence import RunDirectory
from tidemark.runner import RunOptions, describe, new_run_directory, run

pytestmark = [pytest.mark.chaos, pytest.mark.long]

FAILS = """

sound = build


def build(left, right):
    import pathlib, sys
    [checkpoint] = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--checkpoint=")]
    joined = sound(left, right)
    if {well}:
        return joined
    fails = "IF(impression_offset > 150, raise_error('it was to fail'), impression_offset)"
    return joined.selectExpr("* EXCEPT (impression_offset)", fails + " AS impression_offset")
"""
ONCE = "list((pathlib.Path(checkpoint) / 'commits').glob('[0-9]*'))"
"""Well is what goes on with batches that were committed."""


@pytest.fixture
def go(stack, tmp_path):
    """A function that runs a pipeline's source under a fault."""

    def go(source, **options):
        (tmp_path / "pipeline.py").write_text(source)
        asked = RunOptions(
            str(tmp_path / "pipeline.py"), seed=5, impressions=1500, faults="executor@planned",
            run_dir=tmp_path / "run", **options,
        )  # fmt: skip
        contract = describe(asked.pipeline)
        verdict = run(asked, contract, new_run_directory(asked, contract), stack=stack).verdict
        return verdict, RunDirectory(asked.run_dir)

    return go


def must_be_right(verdict, evidence, batches_again):
    assert verdict.verdict == "VALID", shown(verdict)
    assert not copies(evidence)
    batches = evidence.batches()
    assert [batch.batch for batch in batches] == list(range(len(batches)))
    assert sum(batch.restarted for batch in batches) == 1
    assert sum(batch.runs > 1 for batch in batches) in batches_again
    assert len({report["runId"] for report in evidence.progress()}) == 2
    [note] = [note for note in evidence.manifest.notes if "started again" in note]
    return note


def test_a_query_that_fails_once_goes_on_where_it_was(go):
    verdict, evidence = go((PIPELINES / "left_outer.py").read_text() + FAILS.format(well=ONCE))
    note = must_be_right(verdict, evidence, {1})

    assert "it was to fail" in note


def test_a_query_that_fails_each_time_at_the_same_batch_is_given_up(go, tmp_path):
    with pytest.raises(PipelineFailed, match="it was to fail"):
        go((PIPELINES / "left_outer.py").read_text() + FAILS.format(well="False"))

    assert len(RunDirectory(tmp_path / "run").batches()) > 1


def test_a_program_that_is_killed_is_started_again_and_its_query_goes_on(go):
    killed = []

    def kill_at_slice_three(what, done, _total):
        if (what, done) == ("publish", 3) and not killed:
            children = psutil.Process(os.getpid()).children()
            [program] = [child for child in children if "pipelines" in child.cmdline()]
            program.kill()
            killed.append(program.pid)

    verdict, evidence = go((PIPELINES / "left_outer.py").read_text(), report=kill_at_slice_three)
    note = must_be_right(verdict, evidence, {0, 1})

    assert killed
    assert "pipelines" in note
