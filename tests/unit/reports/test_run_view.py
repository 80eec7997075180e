"""The data that the picture of a run is drawn from."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.reports.small_run import START_MS, fault, small_run, small_verdict
from tidemark.formats.evidence import ExecutorAssignment, RunDirectory
from tidemark.formats.faults import FaultAction, FaultComponent
from tidemark.oracle import judge
from tidemark.reports import batch_counts
from tidemark.reports.component_tracks import component_tracks, fault_views
from tidemark.reports.run_view import RunView, thinned, without_details
from tidemark.reports.viewed_run import run_view


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    return small_run(tmp_path)


@pytest.fixture
def view(run) -> RunView:
    return run_view(run, small_verdict())


def seconds(*times_ms):
    return [None if ms is None else (ms - START_MS) // 1000 for ms in times_ms]


def test_each_batch_has_the_rows_and_the_latest_event_time_of_each_input(view):
    assert [[one.rows for one in batch.inputs] for batch in view.batches] == [[1, 1], [1, 1], [0, 1], [1, 0]]
    assert [seconds(*(one.latest_ms for one in batch.inputs)) for batch in view.batches] == [
        [1, 2], [20, 30], [20, 31], [20, 31],
    ]  # fmt: skip
    assert [batch.inputs[0].late for batch in view.batches] == [0, 0, 0, 1]
    assert [batch.inputs[1].ends for batch in view.batches][-1] == {"0": 3}


def test_late_rows_are_of_an_input_only_where_they_add_up_to_those_of_the_verdict(run):
    other = msgspec.structs.replace(small_verdict(), counts={"late": 7})

    assert {one.late for batch in run_view(run, other).batches for one in batch.inputs} == {None}


def test_the_watermark_is_held_back_by_the_input_that_is_behind_and_by_a_silent_one_after_a_restart(view):
    held = [(batch.held_by, batch.waits) for batch in view.batches]

    # Before batch 2 the left is at 20 s, the right at 30 s less 5 s; the restart forgets both, and only a right comes.
    assert held == [([], False), ([1], False), ([0], False), ([0], True)]


def test_output_rows_are_counted_by_the_batch_of_their_header(view):
    written = [(batch.joined, batch.nulls, batch.repeated) for batch in view.batches]

    assert written == [(1, 0, 0), (0, 0, 0), (0, 2, 1), (0, 0, 0)]
    assert "1 output records name no batch, or cannot be read: they are not drawn" in view.notes


def test_what_spark_reports_is_there_and_a_batch_without_a_report_has_no_clock(view):
    first, *_, last = view.batches

    assert (first.duration_ms, first.phases_ms) == (5_000, {"addBatch": 4_000, "x": 500})
    assert (first.state_rows, first.state_bytes, first.operators[0].stored) == (3, 900, 2)
    assert last.started_ms is None
    assert "1 batches have no progress report of Spark, and so no wall clock" in view.notes


def test_findings_are_marked_in_the_batch_that_they_name(view):
    assert [batch.findings for batch in view.batches] == [{}, {}, {"lost_rows": 2, "missing_nulls": 1}, {}]


def test_a_killed_driver_is_away_until_the_next_batch_begins(view):
    [driver, executor] = view.tracks
    begin = view.batches[0].started_ms

    assert [tuple(ms - begin for ms in span) for span in driver.spans] == [(0, 35_000), (40_000, 45_000)]
    assert executor.name == "executor x"
    assert view.faults[0].recovered_ms - view.faults[0].at_ms == 9_500


def test_a_killed_executor_ends_with_the_fault_and_has_the_name_of_its_driver():
    killed = msgspec.structs.replace(fault(), component=FaultComponent.EXECUTOR, proof={"executor_id": "0"})
    assignments = [ExecutorAssignment(batch=2, executors={"0": "2:0", "1": "2:1"})]
    [shown] = fault_views([killed], assignments)

    tracks = component_tracks({2: (shown.at_ms - 1_000, shown.at_ms + 5_000)}, assignments, [shown])

    assert [(track.name, track.spans[0][1] - shown.at_ms) for track in tracks] == [
        ("driver", 5_000), ("executor 2:0", 0), ("executor 2:1", 5_000),
    ]  # fmt: skip


def test_an_executor_whose_link_was_cut_goes_on_and_so_does_the_one_that_kept_the_batch_at_its_point():
    cut = msgspec.structs.replace(
        fault(), component=FaultComponent.EXECUTOR, action=FaultAction.CUT,
        proof={"executor_id": "0", "executor_ids": ["1"]},
    )  # fmt: skip
    assignments = [ExecutorAssignment(batch=2, executors={"0": "2:0", "1": "2:1"})]
    [shown] = fault_views([cut], assignments)

    tracks = component_tracks({2: (shown.at_ms - 1_000, shown.at_ms + 5_000)}, assignments, [shown])

    assert shown.components == ["executor 2:1"]
    assert {track.spans[0][1] - shown.at_ms for track in tracks} == {5_000}


def test_large_evidence_is_not_counted_and_the_notes_say_so(run, monkeypatch):
    monkeypatch.setattr(batch_counts, "COUNTED_RECORDS", 5)

    view = run_view(run, small_verdict())

    assert [batch.joined for batch in view.batches] == [None] * 4
    assert [batch.out for batch in view.batches] == [1, 1, 1, None]
    assert sum("records: " in note for note in view.notes) == 2


def test_a_view_that_is_too_large_keeps_batches_with_faults_and_findings(view):
    many = [msgspec.structs.replace(view.batches[0], batch=at) for at in range(100)]
    many[57] = msgspec.structs.replace(many[57], findings={"lost_rows": 1})
    long = msgspec.structs.replace(view, batches=many)

    less = thinned(long, 10)

    assert [batch.batch for batch in less.batches] == [0, 2, *range(10, 60, 10), 57, *range(60, 100, 10)]
    assert less.notes[-1].startswith("88 of 100 batches are left out")
    assert without_details(view).batches[0].operators == []


@pytest.mark.parametrize("name", ["chain_clicked_per_window", "audit_spark_3_5", "typed_valid"])
def test_chains_audits_and_typed_evidence_have_a_view(name, golden):
    run = RunDirectory(golden / name)
    verdict = judge(run)

    view = run_view(run, verdict)

    assert msgspec.json.decode(msgspec.json.encode(view), type=RunView) == view
    assert any(batch.joined for batch in view.batches)
    assert view.is_by_reading == name.startswith("audit")
    assert any(one.latest_ms for batch in view.batches for one in batch.inputs)
    assert bool(view.tracks) == (name == "chain_clicked_per_window")
