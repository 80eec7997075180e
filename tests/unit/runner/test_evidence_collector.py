"""Each piece of evidence is collected on its own: a missing piece does not prevent the others, and hides no earlier
error.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.unit.test_report import CONTRACT
from tidemark.errors import DeadlineExceeded, DrainHung, OpenTransaction, TestbedError, UsageError
from tidemark.formats.evidence import OutputRecord, RunDirectory, StateRow
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.formats.liveness import Hang, HangPhase
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.kafka import client as kafka
from tidemark.runner import evidence_collector, run_options
from tidemark.runner.evidence_collector import Collector, Places
from tidemark.runner.query_runs import QueryRun
from tidemark.runner.run_options import RunOptions
from tidemark.runner.state_reader import ROWS
from tidemark.runner.table_output import TableFolder
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver

ENDS = {"impressions": {0: 3}, "clicks": {0: 2}}
ALL = ("faults.jsonl", "output.jsonl", "batches.jsonl", "progress.jsonl", "executors.jsonl", "manifest.json")


def unreachable(*_args, **_more):
    raise TestbedError("no answer from the broker")


def interrupted(*_args, **_more):
    raise KeyboardInterrupt


def events(*batches):
    for batch in batches:
        properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch)}
        yield {
            "Event": "SparkListenerJobStart",
            "Job ID": batch,
            "Stage IDs": [batch],
            "Properties": properties,
        }
        yield {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": batch,
            "Task End Reason": {"Reason": "TaskKilled"},
        }
        yield {"Event": "SparkListenerJobEnd", "Job ID": batch}


class Run:
    """A run of two committed batches, with scripted answers of its stack."""

    def __init__(self, folder, monkeypatch):
        self.directory = RunDirectory(folder / "run")
        (self.directory.path / "logs").mkdir(parents=True)
        self.event_log = folder / "app-1.inprogress"
        self.log(0, 1)
        trace = folder / "trace.jsonl"
        topics = {name: TopicSpec(partitions=1) for name in ENDS}
        header = Header(tidemark_trace=2, pace="backlog", topics=topics, slices=1)
        write_trace(trace, header, [Record(topic="clicks", value="{}", arrival_ms=0)])
        self._checkpoint = folder / "checkpoint"
        for batch in (0, 1):
            self._write(
                f"offsets/{batch}",
                'v1\n{"batchWatermarkMs":0}\n{"t-impressions":{"0":3}}\n{"t-clicks":{"0":2}}',
            )
            self._write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.answers = {
            "drain": lambda *_: iter([OutputRecord(partition=0, offset=0, value="{}")]),
            "read_all": lambda *_: iter([OutputRecord(partition=0, offset=7, value="{}")]),
            "end_offsets": lambda _broker, topics: {
                name: {0: 1} if name == "out" else ENDS[name.removeprefix("t-")] for name in topics
            },
        }
        for name in self.answers:
            monkeypatch.setattr(kafka, name, lambda *args, name=name: self.answers[name](*args))
        monkeypatch.setattr(evidence_collector, "LOG_S", 0.0)
        driver = Driver("driver", "sc://here", "app-1", self.event_log)
        query = SimpleNamespace(runs=[QueryRun(driver, 0, 0, False)], query_id="q", failures=[], ask=None)
        stack = SimpleNamespace(
            bootstrap_servers="here", versions={"spark": "4.2.0"}, spec=SimpleNamespace(backend="local"),
            logs=lambda name, _lines: f"log of {name}", components=lambda _kind: [], state_dir=folder,
        )  # fmt: skip
        places = Places(
            "here", trace, {name: f"t-{name}" for name in ENDS}, "out", Checkpoint(self._checkpoint), query
        )
        self._of = lambda options, places=places: Collector(options, CONTRACT, self.directory, stack, places)
        self.places = places
        self.collector = self._of(RunOptions("left_outer"))
        self.header = header

    def with_goals(self, pace, *goals):
        """A stepped trace with these goals, at a pace."""
        header = msgspec.structs.replace(self.header, pace="stepped", goals=list(goals))
        write_trace(self.places.trace, header, [Record(topic="clicks", value="{}", arrival_ms=0, slice=0)])
        self.collector = self._of(RunOptions("left_outer", pace=pace))

    def stored_as(self, evidence_format):
        self.collector = self._of(RunOptions("left_outer", evidence_format=evidence_format))

    def restarted(self, *, after, state_rows):
        """The query went on with a second run after this batch of the first; gives lists of batches to read."""
        report = {"id": "q", "runId": "first", "batchId": after}
        event = {
            "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
            "progress": {**report, "stateOperators": [{"numRowsTotal": state_rows}]},
        }
        with self.event_log.open("a") as log:
            log.write(json.dumps(event) + "\n")
        asked, [first] = [], self.places.query.runs
        second = replace(first, first_batch=after + 1, log_start=self.event_log.stat().st_size)
        self.places.query.runs.append(second)
        self.places.query.ask = lambda command, _timeout_s: (
            asked.append(json.loads(command.removeprefix("state "))["batches"]) or {}
        )
        return asked

    def keeping_the_checkpoint(self):
        self.collector = self._of(RunOptions("left_outer", keep_checkpoint=True))

    def without_a_checkpoint(self):
        shutil.rmtree(self._checkpoint)

    def without_its_first_batch(self):
        for part in ("offsets", "commits"):
            (self._checkpoint / part / "0").unlink()

    def with_a_sink_of_its_own(self):
        """One whose records name their batch."""
        self.answers["drain"] = lambda *_: iter(
            [OutputRecord(partition=0, offset=0, value="{}", headers=[("batch", "1")])]
        )
        self.collector = self._of(RunOptions("left_outer", sink="own"))

    def read_another_topic(self):
        """The last batch read a topic that is none of the trace, too."""
        offsets = '{"t-impressions":{"0":3}}\n{"t-clicks":{"0":2}}\n{"rates":{"0":9}}'
        self._write("offsets/1", f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')

    def with_a_table(self, folder, **more):
        """A run of a query of the user's own that may write this folder."""
        table = TableFolder(folder, self.places.checkpoint, **more)
        self.collector = self._of(RunOptions("left_outer", sink="own"), replace(self.places, table=table))

    def _write(self, name, text):
        path = self._checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def log(self, *batches):
        self.event_log.write_text("".join(json.dumps(event) + "\n" for event in events(*batches)))

    def written(self):
        return {name for name in ALL if (self.directory.path / name).is_file()}

    def failed_tasks(self):
        return [batch.failed_tasks for batch in self.directory.batches()]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_a_successful_run_has_all_files(run):
    run.collector.drain()
    run.collector.finish()

    assert run.written() == {*ALL}
    assert run.failed_tasks() == [1, 1]
    assert run.directory.manifest.notes == []
    assert run.directory.manifest.inputs["impressions"].end_offsets == {"0": 3}


@pytest.mark.parametrize(
    ("pace", "kept"),
    [(None, ["late_row_dropped", "edge_row_seen", "null_key_seen"]), ("timed", ["null_key_seen"])],
)
def test_at_another_pace_a_run_does_not_owe_what_only_the_slices_of_its_trace_give(pace, kept, run):
    run.with_goals(pace, "late_row_dropped", "edge_row_seen", "null_key_seen")
    run.collector.drain()
    run.collector.finish()

    assert run.directory.manifest.goals[2:] == kept


def test_a_query_that_hung_while_it_stopped_keeps_the_log_that_its_error_points_to(run):
    run.collector.drain()
    run.collector.hang = Hang(
        since_utc="-", seen_utc="-", waited_for="the query to stop", phase=HangPhase.STOP
    )
    run.collector.finish()

    assert (run.directory.path / "logs" / "driver.log").read_text() == "log of driver"


def test_the_log_of_a_driver_is_not_kept_of_a_run_that_went_well(run):
    run.collector.drain()
    run.collector.finish()

    assert not (run.directory.path / "logs" / "driver.log").exists()


def test_a_checkpoint_that_cannot_be_copied_does_not_end_a_run(run):
    run.keeping_the_checkpoint()
    run.collector.drain()
    run.without_a_checkpoint()
    run.collector.finish()

    [note] = run.directory.manifest.notes
    assert note.startswith("the checkpoint: it could not be copied: ")
    assert run.written() == {*ALL}


def test_a_batch_of_an_earlier_run_that_left_too_many_state_rows_is_not_read(run):
    asked = run.restarted(after=1, state_rows=ROWS + 1)
    run.collector.stopped({"progress": [{"batchId": 2, "runId": "second", "stateOperators": []}]})
    run.collector.read_state()

    assert asked == [[0]]


def test_the_state_is_read_though_the_event_log_of_an_earlier_run_is_gone(run):
    asked = run.restarted(after=1, state_rows=ROWS + 1)
    run.event_log.unlink()
    run.collector.read_state()

    assert asked == [[0, 1]]


def test_a_query_that_let_spark_delete_its_first_batch_is_an_error_and_its_evidence_is_kept(run):
    run.without_its_first_batch()
    run.collector.drain()
    with pytest.raises(UsageError, match="begins with batch 1"):
        run.collector.finish()

    assert run.written() == {*ALL}


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_query_with_a_sink_of_its_own_is_judged_from_the_batches_that_it_kept(run, is_trimmed):
    run.with_a_sink_of_its_own()
    if is_trimmed:
        run.without_its_first_batch()
    run.collector.drain()
    run.collector.finish()

    audit = run.directory.manifest.audit
    assert (None if audit is None else audit.first_batch) == (2 if is_trimmed else None)


def test_a_topic_that_is_none_of_the_trace_is_left_out_of_the_batches(run):
    run.read_another_topic()
    run.collector.drain()
    run.collector.finish()

    ends = {"impressions": {"0": 3}, "clicks": {"0": 2}}
    assert [batch.end_offsets for batch in run.directory.batches()] == [ends, ends]


def test_a_run_that_is_asked_for_parquet_writes_output_and_state_so(run):
    run.stored_as("parquet")
    run.directory.write_lines("state", [StateRow(batch=1, side="left")])
    run.collector.drain()
    run.collector.finish()

    there = {path.name for path in run.directory.path.iterdir()}
    assert {"output.parquet", "state.parquet", "batches.jsonl"} <= there
    assert not {"output.jsonl", "state.jsonl"} & there
    assert [record.value for record in run.directory.output()] == ["{}"]
    assert run.directory.manifest.records["output"] == run.directory.manifest.records["state"] == 1


def test_an_output_of_many_records_is_parquet_by_itself(run, monkeypatch):
    monkeypatch.setattr(run_options, "PARQUET_RECORDS", 0)
    run.collector.drain()
    run.collector.finish()

    assert run.directory.file("output").name == "output.parquet"


def test_an_output_that_breaks_off_is_not_there_half(run):
    def broken_off(*_):
        yield OutputRecord(partition=0, offset=0, value="{}")
        raise TestbedError("the broker is gone")

    run.answers["drain"] = run.answers["read_all"] = broken_off
    for evidence_format in ("jsonl", "parquet"):
        run.stored_as(evidence_format)
        with pytest.raises(TestbedError):
            run.collector.drain()

        assert not list(run.directory.path.glob("output*"))


def test_an_unreadable_output_does_not_prevent_other_files(run):
    run.answers["read_all"] = unreachable

    with pytest.raises(TestbedError, match="no answer from the broker"):
        run.collector.finish()

    assert run.written() == {*ALL} - {"output.jsonl"}
    assert run.directory.manifest.notes == ["the output could not be collected: no answer from the broker"]


def test_committed_output_is_written_even_if_the_output_does_not_settle(run):
    run.answers["drain"] = unreachable
    with pytest.raises(TestbedError):
        run.collector.drain()
    run.collector.finish()

    assert [record.offset for record in run.directory.output()] == [7]


def test_an_output_that_does_not_end_is_that_of_a_query_that_hung(run):
    def open_transaction(*_):
        raise OpenTransaction("timed out waiting for 'out' to settle: end {0: 9}, last stable {0: 8}")

    run.answers["drain"] = open_transaction
    with pytest.raises(DrainHung, match="waiting for its output to have an end") as raised:
        run.collector.drain()
    run.collector.finish()

    assert "last stable {0: 8}" in raised.value.detail
    assert [record.offset for record in run.directory.output()] == [7]


def test_an_output_whose_broker_is_gone_is_not(run):
    def broker_gone(*_):
        raise DeadlineExceeded("timed out waiting for 'out' to settle", detail="last error: gone")

    run.answers["drain"] = broker_gone
    with pytest.raises(DeadlineExceeded) as raised:
        run.collector.drain()

    assert not isinstance(raised.value, DrainHung)


def test_a_last_batch_missing_from_the_event_log_does_not_prevent_any_file(run):
    run.log(0)
    run.collector.drain()

    with pytest.raises(DeadlineExceeded, match="the end of batch 1"):
        run.collector.finish()

    assert run.written() == {*ALL}
    assert run.failed_tasks() == [1, 0]
    [note] = run.directory.manifest.notes
    assert note.startswith("the end of the event log could not be collected: timed out")


def test_without_an_event_log_only_its_own_files_are_missing(run):
    run.collector.drain()
    run.event_log.unlink()

    with pytest.raises(DeadlineExceeded) as caught:
        run.collector.finish()

    assert any("FileNotFoundError" in note for note in caught.value.__notes__)
    assert {"output.jsonl", "batches.jsonl", "manifest.json"} <= run.written()


def test_without_brokers_the_first_error_is_raised_and_the_manifest_has_what_was_read(run):
    run.answers["end_offsets"] = lambda _broker, topics: interrupted() if "out" in topics else unreachable()
    run.collector.journal(
        [
            Fault(
                component=FaultComponent.BROKER,
                action=FaultAction.KILL,
                point=CommitPoint.PLANNED,
                at_utc="-",
                injected=True,
            )
        ]
    )

    with pytest.raises(KeyboardInterrupt) as caught:
        run.collector.finish()

    assert run.written() == {*ALL} - {"output.jsonl"}
    assert run.directory.manifest.inputs["clicks"].end_offsets == {"0": 2}
    assert caught.value.__notes__ == ["TestbedError: no answer from the broker"]


def test_the_event_log_of_a_driver_that_exited_normally_is_read_under_its_final_name(run):
    run.event_log.rename(run.event_log.with_name("app-1"))
    run.collector.drain()
    run.collector.finish()

    assert run.failed_tasks() == [1, 1]
    assert Path(run.directory.path / "logs" / "spark-events.jsonl.zst").stat().st_size > 0
