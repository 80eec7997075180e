"""Records that tidemark did not invent, as they are: nested JSON, times that are numbers, decimals, and binary ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.repository import tree
from tests.support.document_blocks import blocks
from tidemark.errors import UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.runner import describe

pytestmark = [pytest.mark.e2e]

DOCUMENT = tree.ROOT / "docs" / "howto" / "read-my-records.md"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of the document."""
    for block in blocks(DOCUMENT.read_text(encoding="utf-8")):
        if block.mark == "file":
            (tmp_path / block.told).write_text(block.code)
    return tmp_path


def changed(path: Path, old: str, new: str) -> Path:
    """The file with another text in one place."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return path


def test_nested_records_are_judged_as_they_are(files, run_pipeline):
    result = run_pipeline(
        files / "nested_orders.py", trace=files / "nested_orders.jsonl", run_dir=files / "run"
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert RunDirectory(files / "run").manifest.plan_differs == []
    assert result.verdict.counts["late"] == result.verdict.counts["unreadable"] == 1


def test_the_contract_of_nested_records_alone_is_a_pipeline(files, run_pipeline):
    contract = describe(str(files / "nested_orders.py"))
    (files / "alone.json").write_text(json.dumps(contract.to_json()))

    result = run_pipeline(files / "alone.json", trace=files / "nested_orders.jsonl")

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total >= paid AND", ""),
        pytest.param(
            'timestamp_millis("o.meta.created_at")',
            'timestamp_millis(expr("o.meta.created_at div 1000"))',
            id="seconds",
        ),
        pytest.param("AND total >= 0.50", "AND total >= 5.01", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_query_that_reads_them_otherwise_is_invalid(old, new, files, run_pipeline):
    pipeline = changed(files / "nested_orders.py", old, new)

    verdict = run_pipeline(pipeline, trace=files / "nested_orders.jsonl").verdict

    assert verdict.verdict == "INVALID", (verdict.findings, verdict.inconclusive)
    assert set(verdict.findings_total) - {"plan_differs"}


def test_records_that_functions_decode_are_judged_and_flushed_and_judged_again_without_them(
    files, run_pipeline
):
    result = run_pipeline(
        files / "binary_orders.py", trace=files / "binary_orders.jsonl", run_dir=files / "run"
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert result.verdict.counts["unreadable"] == 1
    (files / "binary_orders.py").unlink()
    (files / "run" / "pipeline.py").unlink()
    assert judge(RunDirectory(files / "run")).verdict == "VALID"


def test_functions_that_are_no_pair_are_refused_before_the_run(files, run_pipeline):
    pipeline = changed(
        files / "binary_orders.py", 'ORDER.pack(b"\\x01", at_ms,', 'ORDER.pack(b"\\x01", at_ms + 1,'
    )

    with pytest.raises(UsageError, match="encode_order is not the inverse of decode_order") as caught:
        run_pipeline(pipeline, trace=files / "binary_orders.jsonl")

    assert "the sentinel Event(" in caught.value.detail
