"""A trimmed log completed by progress reports, and what is refused where the two contradict each other."""

from __future__ import annotations

import pytest

from tests.unit.auditor.test_audited_batches import HELD, TOPICS, log
from tidemark.auditor.audited_batches import plan_audit
from tidemark.auditor.reported_batches import with_reports
from tidemark.errors import UsageError
from tidemark.sparkfiles.progress_reports import BatchReport


def reports(batches: range, run_id: str = "run-1", **changes) -> list[BatchReport]:
    """As the log of ``test_audited_batches`` has it."""
    ends = lambda batch: {topic: {"0": 10 * batch, "1": 10 * batch} for topic in TOPICS.values()}  # noqa: E731
    return [
        BatchReport(batch, run_id, 1000 * batch, ends(batch) if batch else {}, ends(batch + 1))._replace(
            **changes
        )
        for batch in batches
    ]


def test_reports_from_the_first_batch_on_make_a_log_whole():
    reported = with_reports(log(7, 9), reports(range(9)))

    assert reported.log.planned == log(0, 9).planned
    assert reported.log.committed == set(range(10))
    assert (reported.first, reported.last, reported.restarts) == (0, 8, frozenset())
    assert plan_audit(reported.log, TOPICS, HELD, "", 9).about.first_batch == 0


def test_reports_that_begin_later_make_it_longer():
    reported = with_reports(log(7, 9), reports(range(3, 8)))

    assert [planned.batch for planned in reported.log.planned] == list(range(3, 10))
    assert plan_audit(reported.log, TOPICS, HELD, "", 9).about.first_batch == 4


@pytest.mark.parametrize("batches", [range(5), range(8, 10)], ids=["gap before the log", "within it"])
def test_reports_that_do_not_reach_behind_the_log_leave_it_as_it_is(batches):
    assert with_reports(log(7, 9), reports(batches)).log == log(7, 9)


def test_a_gap_in_the_reports_ends_what_they_add():
    reported = with_reports(log(7, 9), [*reports(range(4)), *reports(range(5, 9))])

    assert reported.log.planned[0].batch == reported.first == 5


def test_a_batch_with_another_run_than_the_one_before_or_with_two_is_a_restart():
    two_runs = [*reports(range(3)), *reports(range(2, 6), "run-2"), *reports(range(6, 8), "run-3")]

    assert with_reports(log(5, 9), two_runs).restarts == {2, 6}


def test_reports_of_batches_that_the_log_does_not_have_yet_say_nothing():
    reported = with_reports(log(7, 9), reports(range(12, 14)))

    assert (reported.log, reported.first, reported.last) == (log(7, 9), -1, -1)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (reports(range(7, 8), watermark_ms=1), "the watermark is 7000 ms by the checkpoint, and 1 ms by its"),
        (
            reports(range(7, 8), end_offsets={"prod-clicks": {"0": 1, "1": 2}}),
            "prod-clicks ends at {'0': 80, '1': 80} by the checkpoint, and at {'0': 1, '1': 2}",
        ),
        (
            [*reports(range(2)), *reports(range(1, 2), watermark_ms=1)],
            "by one progress report, and 1 ms by another",
        ),
    ],
)
def test_what_is_told_in_two_ways_is_refused(told, said):
    with pytest.raises(UsageError, match=r"two sources contradict each other about batch \d") as caught:
        with_reports(log(7, 9), told)
    assert said in caught.value.detail


def test_batches_that_do_not_follow_each_other_are_refused():
    told = [*reports(range(2)), *reports(range(2, 3), start_offsets={"prod-clicks": {"0": 7}})]

    with pytest.raises(UsageError, match="reports of batches 1 and 2 are not of one query"):
        with_reports(log(7, 9), told)
