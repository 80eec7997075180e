"""Recoveries are shown as distributions, availability with its definition, and what was demanded beside it."""

from __future__ import annotations

import msgspec

from tests.unit.reports.small_run import fault, small_run, small_verdict
from tidemark.formats.faults import CommitPoint
from tidemark.formats.liveness import Demands, Hang
from tidemark.reports import demand_lines, notes_of_a_run, summary_lines
from tidemark.reports.html_report import html_page
from tidemark.reports.liveness_lines import availability, availability_line, demanded, recovery_lines

TIMES = {"observed_ms": 40_000, "overdue_ms": 2_000, "in_time_ms": 3_000}
change = msgspec.structs.replace


def faults():
    """Three of one sort, one of another, and one that was not injected."""
    written = [change(fault(), recovery_s=seconds) for seconds in (9.5, 2.0, 4.0)]
    planned = change(fault(), point=CommitPoint.PLANNED, recovery_s=1.5)
    return [*written, planned, change(fault(), injected=False, batch=None, recovery_s=None)]


def test_of_several_recoveries_the_least_the_most_and_the_median_are_said():
    assert list(recovery_lines(faults())) == [
        "kill driver at planned 1.5 s",
        "kill driver at written 2.0 to 9.5 s, median 4.0 s (3 faults)",
    ]


def test_availability_is_the_share_in_which_no_batch_was_overdue():
    assert availability(TIMES) == 0.95
    assert availability_line(TIMES) == (
        "95.0 % of 40.0 s; in 2.0 s a batch was overdue: planned, and not committed within 3.0 s, 3 times the median"
        " or 1 s"
    )
    assert (availability({}), availability_line({})) == (None, "")


def test_a_run_with_faults_has_a_line_of_its_availability_and_one_without_has_none():
    verdict = small_verdict()
    verdict.counts |= TIMES
    assert "availability" in dict(summary_lines(verdict, faults()))
    assert "availability" not in dict(summary_lines(verdict, []))


def test_what_was_demanded_is_said_beside_what_was_measured(tmp_path):
    verdict, manifest = small_verdict(), small_run(tmp_path).manifest
    assert demand_lines(manifest, verdict) == []
    manifest.demands = Demands(recover_within_s=20, progress_rows=500)
    verdict.counts |= {"watermark_stood_ms": 4_500, "state_rows": 1_200}
    assert demand_lines(manifest, verdict) == [
        (
            "demanded",
            "recovery within 20 s; input rows committed during each fault that lasts: 500 or more",
        ),
        ("measured", "the watermark stood for at most 4.5 s; the state had at most 1,200 rows"),
    ]
    assert demanded(Demands(state_rows_at_most=7)) == "at most 7 rows of state"


def test_a_query_that_hung_has_a_note_that_says_where_its_threads_are(tmp_path):
    manifest = small_run(tmp_path).manifest
    assert not any("stacks/" in note for note in notes_of_a_run(manifest))
    manifest.hang = Hang(since_utc="a", seen_utc="b", waited_for="c", stacks=["stacks/driver.txt"])
    assert any("stacks/" in note and "--hung-after" in note for note in notes_of_a_run(manifest))


def test_the_page_has_a_table_of_recoveries_where_there_are_several_faults(tmp_path):
    run = small_run(tmp_path)
    assert "<h3>Recoveries</h3>" not in html_page(run, small_verdict()).decode()
    run.write_lines("faults", faults())
    page = html_page(run, small_verdict()).decode()
    assert "<h3>Recoveries</h3>" in page
    assert (
        "<td>kill driver</td><td>written</td><td>3</td><td>2.0</td><td>4.0</td><td>9.5</td><td>9.5</td>"
        in page
    )
