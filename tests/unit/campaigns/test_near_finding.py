"""What is tried first for a finding that names no record, how long a trial waits, and what it must be able to judge."""

from __future__ import annotations

import json

import pytest

from tests.unit.campaigns.test_shrunk_cases import EVIDENCE, latest, semi_case
from tests.unit.oracle.histories import Run
from tidemark.campaigns.shrink.bug_signature import chosen_finding, leaves_topic_unread
from tidemark.campaigns.shrink.near_finding import guesses
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.campaigns.shrink.trial_runs import runs_no_data_batches
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.oracle import judge
from tidemark.oracle.findings import Finding


def test_of_a_finding_that_names_no_record_what_moves_the_watermarks_is_tried_first():
    case = semi_case()
    finding = Finding(property="wrong_watermarks", message="", batch=2)

    first, every = guesses(Shrinkable(case), finding, (), ())

    assert {one.slice for one in first.case.records} == {0}
    assert len(first.case.records) == len(case.topics)
    assert latest(first) == latest(every) == latest(Shrinkable(case))
    assert {one.slice for one in every.case.records} == set(range(case.slices))
    assert len(every.case.records) == len(case.topics) * case.slices


def test_a_row_of_a_left_semi_join_is_tried_with_the_nearest_of_its_key_and_two_slices_before():
    case = semi_case()
    places = [f"lefts/0/{at}" for at, one in enumerate(of("lefts", case)) if one.slice == 3]
    finding = Finding(property="late_rows_joined", message="", batch=3, written=places[-1:])

    _, late, *_ = guesses(Shrinkable(case), finding, (), ())

    assert [(one.topic, one.slice) for one in late.case.records] == [
        ("lefts", 0), ("rights", 0), ("lefts", 1), ("rights", 1), ("lefts", 2), ("rights", 2),
    ]  # fmt: skip
    own, partner = (json.loads(one.value) for one in late.case.records[-2:])
    assert (own["k0"], own["t"]) == (partner["k0"], partner["t"])


def of(topic, case):
    return [one for one in case.records if one.topic == topic]


@pytest.mark.parametrize(
    ("planned", "comes"),
    [
        ([(0, 5), (10, 5), (10, 9)], True),
        ([(0, 5), (0, 9), (0, 12)], True),  # the watermark never moved
        ([(0, 5)], True),
        ([(0, 5), (10, 9), (20, 12)], False),
    ],
)
def test_a_query_that_reads_something_in_each_batch_while_its_watermark_moves_runs_no_no_data_batches(
    planned, comes
):
    batches = [
        Batch(batch=number, watermark_ms=watermark, end_offsets={"lefts": {"0": end}}, committed=True)
        for number, (watermark, end) in enumerate(planned)
    ]

    assert runs_no_data_batches(batches) is comes


def test_a_run_of_which_no_record_of_a_topic_can_be_read_is_told_though_a_finding_makes_it_invalid():
    unread = Run("left_outer").batch("i1 a 10", "garbage").flush().verdict()
    read = Run("left_outer").batch("i1 a 10", "garbage, c1 b 10").flush().verdict()

    assert (unread.verdict, leaves_topic_unread(unread)) == ("INVALID", True)
    assert (read.verdict, leaves_topic_unread(read)) == ("INVALID", False)


def test_a_finding_of_the_trace_is_chosen_before_one_of_a_sentinel():
    verdict = judge(RunDirectory(EVIDENCE / "defect_null_keys"))
    first, second, *_ = verdict.findings

    assert chosen_finding(verdict, None, lambda finding: finding == first) == second
    assert chosen_finding(verdict, 1, lambda finding: finding == first) == first
    assert chosen_finding(verdict, None, lambda _finding: True) == first
