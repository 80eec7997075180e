"""Evidence that is counted by DuckDB has the numbers of evidence that is read record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.reports.small_run import small_run
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_run
from tidemark.reports.batch_counts import count_inputs, count_output
from tidemark.reports.large_counts import count_large_inputs, count_large_output

RECORDED = Path(__file__).parents[2] / "evidence" / "runs"


@pytest.mark.parametrize("name", ["left_outer_faults", "full_outer_spark", "left_semi"])
@pytest.mark.parametrize("storage", ["jsonl", "parquet"])
def test_the_counts_are_the_same(name, storage, tmp_path):
    run = RunDirectory(RECORDED / name)
    if storage == "parquet":
        store_run(run.path, storage, tmp_path / name)
        run = RunDirectory(tmp_path / name)
    contract, batches = run.contract, run.batches()

    large, small = (count(run, contract, batches) for count in (count_large_inputs, count_inputs))
    assert [(one.latest_ms, one.last_ms) for one in large] == [(one.latest_ms, one.last_ms) for one in small]
    large, small = (count(run, contract, batches) for count in (count_large_output, count_output))
    assert (large.joined, large.nulls, large.unplaced) == (small.joined, small.nulls, small.unplaced)
    assert sum(large.joined) > 0


def test_evidence_that_is_not_plain_or_not_sealed_is_not_counted(tmp_path):
    run = small_run(tmp_path)
    contract, batches = run.contract, run.batches()
    assert count_large_inputs(run, contract, batches) is None  # it has no seal

    trace = tmp_path / "trace.jsonl"
    trace.write_text(trace.read_text().replace("2026-01-01T00:00:30Z", "2026-1-1"))
    seal(tmp_path)

    assert count_large_inputs(run, contract, batches) is None  # a time that is not written in full
    assert count_large_output(run, contract, batches) is None  # nothing says which query is the run's
    chain = RunDirectory(RECORDED / "chain")
    assert (
        count_large_inputs(chain, chain.contract, []) is count_large_output(chain, chain.contract, []) is None
    )
