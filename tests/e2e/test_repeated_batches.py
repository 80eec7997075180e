"""A run at the pace ``timed``, cut by its own batches: at the pace ``stepped`` each reads and joins the same again."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from tidemark.cli import app
from tidemark.formats.evidence import RunDirectory

IDS = ("impression_id", "click_id")


def of_batches(run: RunDirectory) -> tuple[list[Counter[tuple[str, ...]]], Counter[str]]:
    """The pairs of each batch with data, and all rows with NULLs; without those of sentinels.

    A row with NULLs may come a batch earlier where ``stepped`` has a batch without data between two others.
    """
    ends = [batch.end_offsets for batch in run.batches()]
    with_data = [at for at, end in enumerate(ends) if end != (ends[at - 1] if at else None)]
    pairs = {at: Counter[tuple[str, ...]]() for at in with_data}
    nulls = Counter[str]()
    for record in run.output():
        row = json.loads(record.value)
        ids = [row[name] for name in IDS]
        if any(str(one).startswith("sentinel") for one in ids):
            continue
        if None in ids:
            nulls[row[IDS[0]]] += 1
        else:
            pairs[int(dict(record.headers)["batch"])][tuple(ids)] += 1
    return [pairs[at] for at in with_data if pairs[at]], nulls


@pytest.mark.long
def test_a_timed_run_is_repeated_batch_by_batch(run_pipeline, tmp_path):
    on_time = ("--lateness", "on_time", "--edges", "0")  # what is late depends on batches without data
    first = run_pipeline(
        "left_outer", pace="timed", speed=3.0, seed=6, impressions=400, generator=on_time, run_dir=tmp_path / "first",
    )  # fmt: skip
    done = CliRunner().invoke(
        app, ["record", "--run", str(first.run_dir), "--out", str(tmp_path / "again.jsonl")]
    )
    again = run_pipeline("left_outer", trace=tmp_path / "again.jsonl", run_dir=tmp_path / "again")

    assert done.exit_code == 0, done.output
    assert again.verdict.findings == []
    (pairs, nulls), (pairs_again, nulls_again) = (
        of_batches(RunDirectory(one.run_dir)) for one in (first, again)
    )
    assert len(pairs) > 3
    assert pairs_again == pairs
    assert nulls
    assert nulls_again == nulls
