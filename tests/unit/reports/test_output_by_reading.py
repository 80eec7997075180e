"""Output that names no batch: its rows, and findings of them, are in the batch that read the last of their records."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.reports.small_run import small_run, small_verdict
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.oracle import judge
from tidemark.reports.output_by_reading import batch_that_read
from tidemark.reports.viewed_run import run_view


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    """Batch 0 reads l1 and r1, batch 1 l2 and r2, batch 2 r3, batch 3 l3."""
    return small_run(tmp_path)


def write(run: RunDirectory, *rows: tuple[str, str | None]) -> None:
    run.write_lines("output", [
        OutputRecord(partition=0, offset=at, value=msgspec.json.encode({"l": left, "r": right}).decode())
        for at, (left, right) in enumerate(rows)
    ])  # fmt: skip


def test_a_row_is_in_the_batch_that_read_the_last_of_its_records(run):
    write(run, ("l1", "r3"), ("l1", "r1"), ("l2", None), ("l2", None), ("l9", None))

    view = run_view(run, small_verdict())

    assert view.is_by_reading
    assert [batch.joined for batch in view.batches] == [1, 0, 1, 0]
    assert [batch.nulls for batch in view.batches] == [0, 2, 0, 0]
    assert [batch.repeated for batch in view.batches] == [0, 1, 0, 0]
    assert view.notes[0] == "1 output records name no batch, or cannot be read: they are not drawn"


def test_output_of_which_a_record_names_its_batch_is_counted_by_the_batches_that_are_named(run):
    assert not run_view(run, small_verdict()).is_by_reading


def test_an_audit_shows_where_its_duplicates_were_read(golden):
    run = RunDirectory(golden / "audit_spark_3_5")

    view = run_view(run, judge(run))

    assert {batch.batch: (batch.repeated, batch.findings) for batch in view.batches if batch.findings} == {
        4: (14, {"duplicate_rows": 14})
    }
    assert sum(batch.repeated or 0 for batch in view.batches) == 14


def test_the_batch_that_read_the_last_record_is_found_by_its_offsets(run):
    ends = {("a", 0): [1, 2, 2], ("b", 1): [0, 1, 3]}
    batches = run.batches()[:3]

    assert batch_that_read(["a/0/0", "b/1/2"], ends, batches) == 2
    assert batch_that_read(["a/0/1"], ends, batches) == 1
    assert batch_that_read(["a/0/2"], ends, batches) is None  # no batch has read it
    assert batch_that_read(["r3"], ends, batches) is None
