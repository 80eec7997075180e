"""A table in the place of a topic: whether it is the output, when it is complete, what the evidence has of it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.unit.auditor.test_delta_tables import QUERY, commit
from tests.unit.auditor.test_output_tables import sink
from tests.unit.runner.test_evidence_collector import Run, unreachable
from tidemark.errors import BrokenTable, DeadlineExceeded, DrainHung, PipelineFailed, QueryHung
from tidemark.formats.contract import Delivery
from tidemark.runner import table_output
from tidemark.runner.table_output import TableFolder
from tidemark.sparkfiles.checkpoint import Checkpoint


def checkpoint(folder, *, planned=2, committed=2):
    """A checkpoint with so many batches."""
    for name, batches in (("offsets", planned), ("commits", committed)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for batch in range(batches):
            (folder / name / str(batch)).touch()
    return Checkpoint(folder)


@pytest.fixture
def table(tmp_path):
    """The folder of a table, which is not there yet, of a query with two batches."""
    return TableFolder(tmp_path / "table", checkpoint(tmp_path / "checkpoint"))


def test_a_folder_is_the_output_if_something_was_written_to_it(table):
    assert not table.is_written(0)
    table.path.mkdir()
    assert not table.is_written(7)
    sink(table.path, 1)
    assert table.is_written(0)


def test_a_delta_table_without_a_commit_is_no_output_yet(table):
    (table.path / "_delta_log").mkdir(parents=True)
    (table.path / "_delta_log" / ".tmp").touch()
    (table.path / "part-0.parquet").touch()
    assert not table.is_written(7)
    commit(table.path, 0, "a")
    assert table.is_written(0)


def test_a_query_that_wrote_to_its_topic_and_to_its_table_has_failed(table):
    table.path.mkdir()
    sink(table.path, 1)

    with pytest.raises(PipelineFailed, match="wrote both to its topic and to its table") as failed:
        table.is_written(7)

    assert failed.value.detail == "the topic has 7 records; the folder has _spark_metadata, part-0-0.parquet"


def never():
    """What is called only while a table is not complete."""


@pytest.mark.parametrize(
    ("planned", "committed", "logged", "said"),
    [
        (3, 2, 2, "is 2, committed 1, the table's log 1"),
        (2, 2, 1, "is 1, committed 1, the table's log 0"),
        (0, 0, 1, "is none, committed none, the table's log 0"),
    ],
)
def test_a_table_is_not_complete_while_a_batch_is_not_committed_or_not_in_its_log(
    tmp_path, monkeypatch, planned, committed, logged, said
):
    monkeypatch.setattr(table_output, "COMPLETE_S", 0.0)
    table = TableFolder(
        tmp_path / "table", checkpoint(tmp_path / "checkpoint", planned=planned, committed=committed)
    )
    table.path.mkdir()
    sink(table.path, logged)

    with pytest.raises(DeadlineExceeded, match="waiting for the table to be complete") as late:
        table.await_complete(never)

    assert late.value.message.endswith(said)


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_table_that_does_not_become_complete_is_that_of_a_query_that_hung(tmp_path, monkeypatch, is_silent):
    def status(_command, timeout_s):
        if is_silent:
            raise QueryHung("an answer of the driver", timeout_s, hint="none")

    monkeypatch.setattr(table_output, "COMPLETE_S", 0.0)
    run = Run(tmp_path, monkeypatch)
    run.answers["end_offsets"] = lambda _broker, topics: {name: {0: 0} for name in topics}
    folder = tmp_path / "table"
    folder.mkdir()
    sink(folder, 1)  # of two batches
    run.places.query.ask = status
    run.with_a_table(folder)

    with pytest.raises(DrainHung) as raised:
        run.collector.drain()

    assert raised.value.waited_for == ("an answer of the driver" if is_silent else "its table to be complete")


def test_the_wait_for_a_table_ends_once_its_last_batch_is_committed(table):
    table.path.mkdir()
    sink(table.path, 1)

    table.await_complete(lambda: sink(table.path, 2))

    assert [file.batch for file in table.read("q").files] == [0, 1]


def test_a_compacted_log_has_its_last_batch(table):
    table.path.mkdir()
    sink(table.path, 2, compact=2)

    table.await_complete(never)


def test_a_query_that_has_ended_ends_the_wait(table):
    table.path.mkdir()
    sink(table.path, 1)

    def ended():
        raise PipelineFailed("the job ended")

    with pytest.raises(PipelineFailed, match="the job ended"):
        table.await_complete(ended)


def test_files_without_a_log_are_no_table(table):
    table.path.mkdir()
    (table.path / "part-0.parquet").touch()

    with pytest.raises(BrokenTable, match="was not written by a streaming file sink, nor by Delta"):
        table.await_complete(never)


def test_a_delta_table_of_the_query_keeps_its_batches(table):
    commit(table.path, 0, "a")
    commit(table.path, 1, "b", query="another")

    assert [(file.query, file.batch) for file in table.read(QUERY).files] == [(QUERY, 0), ("another", 1)]
    assert table.read(QUERY).notes == ()


def test_the_only_txn_app_id_of_a_delta_table_is_taken_for_the_query(table):
    commit(table.path, 0, "a", query="orders")
    commit(table.path, 1, "b", query="orders")

    found = table.read(QUERY)

    assert [(file.query, file.batch) for file in found.files] == [(QUERY, 0), (QUERY, 1)]
    [note] = found.notes
    assert note.startswith(
        "its log names 'orders' (txnAppId), and not the query: no other query has this folder"
    )
    assert found.delivery is Delivery.EXACTLY_ONCE


@pytest.mark.parametrize("second", [{"batch": 1, "query": "payments"}, {"batch": 7, "query": "orders"}])
def test_a_delta_table_with_several_names_or_with_other_numbers_is_judged_without_batches(table, second):
    commit(table.path, 0, "a", query="orders")
    commit(table.path, second["batch"], "b", query=second["query"])

    found = table.read(QUERY)

    assert {(file.query, file.batch) for file in found.files} == {(None, None)}
    assert found.notes[-1].endswith("and not the batches of one: it is judged without batches")
    assert found.delivery is Delivery.AT_LEAST_ONCE


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of a query that may write a table; its topic is empty."""
    run = Run(tmp_path, monkeypatch)
    folder = tmp_path / "table"
    folder.mkdir()
    run.with_a_table(folder)
    ends = run.answers["end_offsets"]
    run.answers["end_offsets"] = lambda broker, topics: (
        {"out": {0: 0}} if "out" in topics else ends(broker, topics)
    )
    run.answers["drain"] = lambda *_: iter(())
    run.answers["read_all"] = lambda *_: iter(())
    run.folder = folder
    run.places.query.ask = lambda *_: {"event": "status"}
    return run


def test_the_rows_of_a_table_are_the_output_each_with_query_and_batch(run):
    sink(run.folder, 2)
    (run.folder / "part-0-of-a-failed-attempt.parquet").touch()

    run.collector.drain()
    run.collector.finish()
    shutil.rmtree(run.folder)

    records = list(run.directory.output())
    assert [json.loads(record.value) for record in records] == [{"id": "row0"}, {"id": "row1"}]
    assert [record.headers for record in records] == [
        [("query", "q"), ("batch", "0")], [("query", "q"), ("batch", "1")],
    ]  # fmt: skip
    manifest = run.directory.manifest
    assert manifest.delivery is Delivery.EXACTLY_ONCE
    assert (manifest.audit.output_table, manifest.audit.output_topic) == (str(run.folder), None)
    assert manifest.audit.output_notes == [f"{run.folder} has Parquet files of Spark's file sink: 2"]
    assert manifest.audit.owed_to == 1
    assert manifest.records["output"] == 2


def test_rows_of_which_one_has_no_batch_have_no_headers(run):
    commit(run.folder, 0, "a", query="q")
    commit(run.folder, None, "b")

    run.collector.drain()
    run.collector.finish()

    assert [record.headers for record in run.directory.output()] == [[], []]
    manifest = run.directory.manifest
    assert manifest.delivery is Delivery.AT_LEAST_ONCE
    assert manifest.audit.output_notes[0] == f"{run.folder} has files of a Delta table: 2"
    assert manifest.audit.output_notes[1].startswith("the batch of 1 of 2 files is not known")


def test_a_run_that_ended_early_has_the_rows_that_the_log_names(run):
    sink(run.folder, 1)

    run.collector.finish()

    assert [json.loads(record.value) for record in run.directory.output()] == [{"id": "row0"}]
    assert run.directory.manifest.audit.output_table == str(run.folder)


def test_a_query_that_wrote_both_has_no_output_and_all_other_evidence(run):
    sink(run.folder, 1)
    run.answers["end_offsets"] = lambda _broker, topics: {name: {0: 3} for name in topics}

    with pytest.raises(PipelineFailed, match="wrote both"):
        run.collector.drain()
    with pytest.raises(PipelineFailed, match="wrote both"):
        run.collector.finish()

    assert "output.jsonl" not in run.written()
    assert {"batches.jsonl", "manifest.json"} <= run.written()
    assert "the output could not be collected" in run.directory.manifest.notes[0]


def test_without_a_table_the_topic_is_the_output_as_ever(run):
    run.collector.drain()
    run.collector.finish()

    assert list(run.directory.output()) == []
    assert run.directory.manifest.audit.output_topic == "out"
    assert run.directory.manifest.delivery is Delivery.AT_LEAST_ONCE
    assert run.directory.manifest.notes == []


def test_a_job_that_wrote_nothing_to_its_table_is_noted(run):
    run.with_a_table(run.folder, is_asked=True)

    run.collector.drain()
    run.collector.finish()

    assert run.directory.manifest.notes == [f"nothing was written to {{table}}, the folder {run.folder}"]


def test_a_table_that_cannot_be_read_hides_no_earlier_error_and_no_other_evidence(run):
    sink(run.folder, 1)
    (run.folder / "part-0-0.parquet").unlink()
    run.answers["end_offsets"] = lambda _broker, topics: {"out": {0: 0}} if "out" in topics else unreachable()

    with pytest.raises(BrokenTable, match=r"the data file 'part-0-0.parquet' of .* is gone"):
        run.collector.finish()

    assert {"batches.jsonl", "manifest.json"} <= run.written()
