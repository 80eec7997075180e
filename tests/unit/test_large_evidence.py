"""Evidence that is made set by set for measurements is what a judge finds right, whatever its size and its batches."""

from __future__ import annotations

import pytest

import tidemark
from bench._large_evidence import make_large_run
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_run


@pytest.mark.parametrize(("events", "batches"), [(10, 1), (999, 7), (20_000, 40)])
def test_large_evidence_is_valid(tmp_path, events, batches):
    run = make_large_run(tmp_path / "run", events, batches)

    verdict = tidemark.check(run.path)

    assert (verdict.verdict, verdict.findings) == ("VALID", [])
    assert run.manifest.records["output"] == round(events * 0.7 + 0.49)
    assert abs(run.manifest.records["trace"] - events) <= max(5, events / 50)


def test_a_change_of_large_evidence_is_found(tmp_path):
    run = make_large_run(tmp_path / "run", 5_000, 10)
    seal(run.path)
    store_run(run.path, "jsonl")
    (run.path / "seal.json").unlink()
    path = run.path / "output.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"click_id\\": null' in line)
    path.write_text("".join([*lines[:at], lines[at].replace("i-0", "i-9", 1), *lines[at + 1 :]]))

    assert tidemark.check(run.path).verdict == "INVALID"
