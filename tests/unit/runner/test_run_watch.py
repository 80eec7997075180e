"""What is seen of a run while it goes on, played from recorded evidence as Spark writes its checkpoint and its log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import Fault
from tidemark.oracle import judge
from tidemark.reports import batch_counts
from tidemark.reports.viewed_run import run_view
from tidemark.runner.query_runs import QueryRun
from tidemark.runner.run_watch import FaultsSeen, InputSeen, RunSeen, RunWatch
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver

GOLDEN = Path(__file__).parents[2] / "golden" / "evidence"
QUERY_ID = "9a556093-ab7f-4ee9-8c72-3980d684162f"


@dataclass
class Injecting:
    """A fault injector as the watch sees it."""

    planned: int
    journal: list[Fault] = field(default_factory=list)
    waits_for: str = ""


@dataclass
class Played:
    """A recorded run that goes on batch by batch."""

    evidence: RunDirectory
    folder: Path
    query_id: str | None = None
    runs: list[QueryRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = self.folder / "app-1.inprogress"
        self.log.write_text("")
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir()
        self.topics = {name: topic.topic for name, topic in self.evidence.manifest.inputs.items()}
        traces = [self.evidence.file("trace"), self.evidence.file("flush")]
        checkpoint = Checkpoint(self.folder)
        self.watch = RunWatch(self.evidence.contract, traces, self.topics, checkpoint, self)

    def event_log(self) -> tuple[Path, int] | None:
        return (self.log, 0) if self.query_id else None

    def start(self, batch: int, *, replays: bool = False) -> None:
        self.query_id = QUERY_ID
        self.runs.append(QueryRun(Driver("driver", "sc://", "app-1", self.log), 0, batch, replays))

    def plan(self, batch) -> None:
        ends = [json.dumps({self.topics[name]: parts}) for name, parts in batch.end_offsets.items()]
        lines = ["v1", json.dumps({"batchWatermarkMs": batch.watermark_ms}), *ends]
        (self.folder / "offsets" / str(batch.batch)).write_text("\n".join(lines))

    def commit(self, batch, report) -> None:
        (self.folder / "commits" / str(batch.batch)).write_text('v1\n{"nextBatchWatermarkMs": 0}')
        event = {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"}
        with self.log.open("a") as log:
            log.write(json.dumps({**event, "progress": {**report, "id": QUERY_ID}}) + "\n")


@pytest.fixture
def played(tmp_path):
    return Played(RunDirectory(GOLDEN / "faults_spark_sink"), tmp_path)


def test_batches_watermarks_and_rows_are_those_of_the_report_at_each_batch(played):
    view = run_view(played.evidence, judge(played.evidence))
    reports = {report["batchId"]: report for report in played.evidence.progress()}
    rows_out, read = 0, [0, 0]
    for plan, batch in zip(played.evidence.batches(), view.batches, strict=True):
        if batch.restarted or not played.runs:
            played.start(plan.batch, replays=batch.runs > 1)
        played.plan(plan)
        running = played.watch.look()
        assert (running.batch, running.is_running) == (plan.batch, True)
        played.commit(plan, reports[plan.batch])
        seen = played.watch.look()

        rows_out += batch.out
        read = [before + one.rows for before, one in zip(read, batch.inputs, strict=True)]
        assert (seen.batch, seen.is_running, seen.out) == (plan.batch, False, rows_out)
        assert [one.read for one in seen.inputs] == read
        assert seen.rows == sum(one.rows for one in batch.inputs)
        assert seen.watermark_ms == batch.watermark_ms
        reached = [one.watermark_ms for one in seen.inputs]
        for side, before, ms in zip(view.inputs, batch.inputs, reached, strict=True):
            assert ms is None or ms == before.latest_ms - side.delay_ms
        if None not in reached and len(view.batches) > plan.batch + 1:
            assert view.batches[plan.batch + 1].watermark_ms == max(min(reached), batch.watermark_ms)
    assert seen.starts == 1 + sum(batch.restarted for batch in view.batches) == 2


def test_an_input_without_a_row_since_a_restart_holds_the_watermark_back(played):
    batches, reports = played.evidence.batches(), played.evidence.progress()
    for plan in batches[:2]:
        if not played.runs:
            played.start(0)
        played.plan(plan)
        played.commit(plan, reports[plan.batch])
    assert not any(one.waits for one in played.watch.look().inputs)

    played.start(2)
    only_impressions = {
        name: ends if name == "impressions" else batches[1].end_offsets[name]
        for name, ends in batches[2].end_offsets.items()
    }
    played.plan(msgspec.structs.replace(batches[2], end_offsets=only_impressions))
    played.commit(batches[2], reports[2])

    impressions, clicks = played.watch.look().inputs
    assert (impressions.waits, clicks.waits, clicks.watermark_ms) == (False, True, None)


def test_what_is_waited_for_and_the_faults_are_shown_before_the_first_batch_also(played):
    fault = played.evidence.faults()[0]
    played.watch.injector = Injecting(3, [fault], "batch 3 to be committed")
    played.watch.waits("the query to be idle")

    assert played.watch.look() == RunSeen(
        [InputSeen("impressions"), InputSeen("clicks")],
        waits_for="the query to be idle",
        faults=FaultsSeen(3, 1, 1, "batch 3 to be committed"),
    )


def test_published_rows_are_those_that_the_runner_knows_of(played):
    played.start(0)
    played.plan(played.evidence.batches()[0])
    played.watch.published({played.topics["impressions"]: {"0": 100, "1": 20}})

    assert [one.published for one in played.watch.look().inputs] == [120, None]


def test_once_the_files_are_gone_it_is_shown_as_it_was_last(played):
    played.start(0)
    played.plan(played.evidence.batches()[0])
    last = played.watch.look()
    (played.folder / "offsets" / "0").rename(played.folder / "offsets" / "1")
    (played.folder / "offsets" / "1").write_text("v1\n")

    assert played.watch.look() == last


def test_event_times_of_very_many_records_are_not_read(played, monkeypatch):
    monkeypatch.setattr("tidemark.runner.run_watch.COUNTED_RECORDS", 5)
    assert batch_counts.COUNTED_RECORDS > 5
    played.start(0)
    played.plan(played.evidence.batches()[0])
    played.commit(played.evidence.batches()[0], played.evidence.progress()[0])

    assert [one.watermark_ms for one in played.watch.look().inputs] == [None, None]
