"""Input that should not be: records that are no events, records sent twice, and one of a day that has not come yet."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.chaos.test_silent_input import CONTRACT, record
from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import flush_of
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Record

pytestmark = [pytest.mark.chaos]

LEFT, RIGHT = CONTRACT.left.topic, CONTRACT.right.topic
FAR_S = 500_000
"""Days after all the others; those that end the run are later still."""
SLICES = (
    ((LEFT, "one", 10), (RIGHT, "one", 10)),
    ((LEFT, "far left", FAR_S), (RIGHT, "on time", 20)),
    ((LEFT, "two", 30), (RIGHT, "two", 31)),
    ((RIGHT, "far right", FAR_S),),
    ((LEFT, "three", 40), (RIGHT, "three", 40)),
)


def raw(number, topic, value):
    return Record(topic=topic, value=value, slice=number, arrival_ms=1000)


@pytest.fixture
def joined(stack, tmp_path):
    """A function that runs a left outer join over records; its verdict, joined rows and NULL rows."""

    def run(*records):
        case = Case(
            name="bad input", contract=CONTRACT, records=records, flush=flush_of(CONTRACT), mode="followed",
            sink="exactly-once",
        )  # fmt: skip
        with WarmDriver(stack, stack.driver(), tmp_path) as warm:
            verdict = warm.run(case, tmp_path / "run")
        assert verdict.verdict == "VALID", (verdict.findings, verdict.inconclusive)
        rows = [json.loads(record.value) for record in RunDirectory(tmp_path / "run").output()]
        pairs = Counter((row["left_id"], row["right_id"]) for row in rows)
        nulls = {left: count for (left, right), count in pairs.items() if right is None}
        return verdict, {pair: count for pair, count in pairs.items() if pair[1] is not None}, nulls

    return run


def test_one_inputs_far_future_keeps_its_state_and_that_of_both_makes_all_that_follows_late(joined):
    """The watermark is the least of both inputs': one alone cannot drag it."""
    verdict, pairs, nulls = joined(
        *(record(number, *one) for number, rows in enumerate(SLICES) for one in rows)
    )

    assert pairs == {("one", "one"): 1, ("two", "two"): 1}
    assert nulls == {"far left": 1}
    assert verdict.counts["late"] == 2  # both of "three", which nobody is told of but here


def test_what_is_no_event_is_passed_over_and_an_event_sent_twice_is_two(joined):
    good = [record(0, LEFT, "one", 10), record(0, RIGHT, "one", 10)]
    cut = good[0].value[: len(good[0].value) // 2]
    bad = [
        raw(0, topic, value) for topic in (LEFT, RIGHT) for value in (None, "", "no JSON", cut, "[]", "{}")
    ]

    verdict, pairs, nulls = joined(
        *good, *bad, good[1], record(1, LEFT, "two", 20), record(1, RIGHT, "late", 50)
    )

    assert verdict.counts["unreadable"] == len(bad)
    assert verdict.counts["duplicate_events"] == 1
    assert pairs == {("one", "one"): 2}
    assert nulls == {"two": 1}
