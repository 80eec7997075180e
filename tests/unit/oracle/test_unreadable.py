"""A topic of which no record is an event by the contract was not judged, and the verdict says so."""

from __future__ import annotations

import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tests.unit.oracle.histories import Run
from tidemark.formats.chain import Aggregate, Chain, Value, Window
from tidemark.formats.contract import Side
from tidemark.formats.events import SHOWN, why_unreadable

COUNTS = Chain(
    "counts",
    Aggregate(Window(source("a"), "end", 10_000), ("k_a",), (Value("n", "count"),)),
    ("k_a", "end", "n"),
)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it is not JSON: no value"),
        (b"{", "it is not JSON: '{'"),
        (b"\xff", "it is not JSON: '\ufffd'"),
        (b'{"\xff": 1}', """it has no field 'time': '{"\ufffd": 1}'"""),
        ("[" * 100_000, f"it is not JSON: '{'[' * SHOWN}' …"),
        (b"[1]", "it is not a JSON object: '[1]'"),
        ('{"meta": {"time": 1}}', """it has no field 'time': '{"meta": {"time": 1}}'"""),
        ('{"time": 17.5}', """its field 'time' is no timestamp: '{"time": 17.5}'"""),
    ],
)
def test_the_reason_names_what_is_missing(value, why):
    assert why_unreadable(value, Side("a", "id", ("k",), "time", 0)) == why


@pytest.mark.parametrize("kind", ["inner", "left_outer", "right_outer", "full_outer", "left_semi"])
def test_a_topic_without_a_readable_record_is_unknown(kind):
    verdict = Run(kind).batch("garbage, garbage", "garbage").flush().verdict()

    assert verdict.findings == []
    assert verdict.verdict == "UNKNOWN"
    left, right = verdict.inconclusive
    assert left.startswith(
        "nothing of topic 'impressions' was judged: all 2 records are unreadable by the contract;"
        " the first (partition 0, offset 0): it is not JSON: "
    )
    assert right.startswith(
        "nothing of topic 'clicks' was judged: its only record is unreadable by the contract;"
    )


def test_one_topic_is_enough_for_unknown():
    verdict = Run("left_outer").batch("i1 a 10", "garbage, garbage").flush(out="i1 -").verdict()

    assert verdict.verdict == "UNKNOWN"
    assert [reason.split(":")[0] for reason in verdict.inconclusive] == [
        "nothing of topic 'clicks' was judged"
    ]


def test_a_readable_record_among_unreadable_ones_is_enough():
    verdict = Run("left_outer").batch("i1 a 10, garbage, garbage", "c1 a 12", out="i1 c1").flush().verdict()

    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])
    assert verdict.counts["unreadable"] == 2


def test_a_topic_without_a_record_is_no_unreadable_one():
    verdict = Run("left_outer").batch("i1 a 10").flush(out="i1 -").verdict()

    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])


def test_a_lost_row_outranks_it():
    verdict = Run("left_outer").batch("i1 a 10", "garbage").flush().verdict()

    assert verdict.verdict == "INVALID"
    assert len(verdict.inconclusive) == 1


def test_a_chain_without_a_readable_record_is_unknown():
    verdict = ChainRun(COUNTS).batch("garbage, garbage").flush().judge()

    assert verdict.verdict == "UNKNOWN"
    assert verdict.inconclusive[0].startswith("nothing of topic 'a' was judged: all 2 records are unreadable")


def test_a_chain_with_a_readable_record_is_judged():
    verdict = ChainRun(COUNTS).batch("garbage, c1 u 3").flush(out="u 10 1").judge()

    assert not [reason for reason in verdict.inconclusive if "unreadable" in reason]
