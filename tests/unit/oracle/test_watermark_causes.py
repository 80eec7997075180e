"""A watermark that is not the contract's is named by the query that would have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.oracle.histories import iso
from tests.unit.oracle.other_query import Events, promised, run_of
from tests.unit.oracle.test_causes import events, kept
from tidemark.formats.contract import Contract, Filter, JoinKind, WatermarkPolicy
from tidemark.formats.events import read_time_us
from tidemark.formats.record_fields import Field
from tidemark.oracle import judge
from tidemark.oracle.causes.watermark_causes import watermark_cause
from tidemark.oracle.input.history import History, read_history

LEFT_MS, RIGHT_MS = 600_000, 1_800_000


def with_delays(left_ms: int | None, right_ms: int | None, **changes: object) -> Contract:
    made = kept()
    return replace(
        made,
        left=replace(made.left, watermark_delay_ms=left_ms),
        right=replace(made.right, watermark_delay_ms=right_ms),
        **changes,
    )


PROMISE = with_delays(LEFT_MS, RIGHT_MS)


def both_behind() -> tuple[Events, Events]:
    """Clicks an hour later at first, and at once in the end: now one side holds the watermark back, now the other."""
    lefts, rights = [], []
    for number in range(240):
        at = number * 60.0
        lefts.append({"iid": f"i{number}", "user": "u", "ad": "a", "time": iso(at)})
        paid = at + (3_600.0 if number < 120 else 0.0)
        rights.append((paid, {"cid": f"c{number}", "user": "u", "ad": "a", "time": iso(paid)}))
    return lefts, [right for _, right in rights]


def history_of(query: Contract) -> History:
    """What happened to another query, by the contract."""
    run = run_of(query, *both_behind())
    run.contract = PROMISE
    return read_history(run)


def predicted() -> list[int]:
    return [batch.plan.watermark_ms for batch in history_of(PROMISE).batches]


@pytest.mark.parametrize(
    ("left_ms", "right_ms", "said"),
    [
        (1_200_000, RIGHT_MS, "a delay of 1200000 ms on impressions, not of 600000 ms"),
        (LEFT_MS, 1_200_000, "a delay of 1200000 ms on clicks, not of 1800000 ms"),
        (
            300_000,
            3_900_000,
            "a delay of 300000 ms on impressions, not of 600000 ms and a delay of 3900000 ms on clicks",
        ),
        (LEFT_MS, 0, "that of impressions alone: clicks does not hold it back"),
    ],
)
def test_a_delay_that_differs_is_named(left_ms, right_ms, said):
    assert said in watermark_cause(history_of(with_delays(left_ms, right_ms)), predicted())


def test_another_policy_is_named():
    found = watermark_cause(history_of(replace(PROMISE, policy=WatermarkPolicy.MAX)), predicted())
    assert found == "the watermark is that of the policy max, not of min"


def shifted(history: History, factor: int) -> History:
    """The same, with the watermarks of times that are read in a unit ``factor`` times as long."""
    for number, batch in enumerate(history.batches):
        was_ms = batch.plan.watermark_ms
        if was_ms:  # the delay is that of the side that is behind, which the contract makes known
            before_ms = _behind(history, number)
            batch.plan.watermark_ms = (was_ms + before_ms) * factor - before_ms
    return history


def _behind(history: History, number: int) -> int:
    """The delay of which the watermark of a batch comes."""
    latest = [0, 0]
    for one in history.batches[:number]:
        for side, rows in enumerate(one.rows):
            latest[side] = max([latest[side], *(history.rows.event_us[row] // 1000 for row in rows)])
    return LEFT_MS if latest[0] - LEFT_MS <= latest[1] - RIGHT_MS else RIGHT_MS


def test_times_that_are_read_in_another_unit_are_named():
    found = watermark_cause(shifted(history_of(PROMISE), 1_000), predicted())
    assert found.startswith(
        "the watermark is that of a query that reads the times of impressions and clicks in a unit"
    )
    assert found.endswith("1,000 times as long as the contract's")


def test_nothing_is_said_of_a_watermark_that_no_such_query_has():
    history = history_of(PROMISE)
    history.batches[3].plan.watermark_ms += 1
    assert watermark_cause(history, predicted()) == ""


def test_nothing_is_said_where_the_rows_do_not_give_what_is_predicted():
    assert watermark_cause(history_of(with_delays(0, 0)), [0] * 40) == ""


def test_the_query_is_named_before_the_first_batch_that_differs():
    run = run_of(with_delays(LEFT_MS, 1_200_000), *both_behind())

    found = judge(promised(run, left=PROMISE.left, right=PROMISE.right))

    assert found.verdict == "INVALID"
    assert found.cause.startswith(
        "the watermark is that of a delay of 1200000 ms on clicks, not of 1800000 ms; batch "
    )


NO_TEST = Filter("status", "!=", "test")
"""A filter of text."""
STATUS = (Field("status", "status", "string"),)
NO_FREE = Filter("cents", ">=", 50)


def seconds_of(event: Mapping[str, Any]) -> float:
    """Its time, in seconds since 1970."""
    return (read_time_us(event["time"]) or 0) / 1e6


def filtered(left: tuple[Filter, ...] = (), right: tuple[Filter, ...] = ()) -> Contract:
    """The promise with filters of text and of numbers."""
    return replace(
        PROMISE,
        left=replace(PROMISE.left, filters=left, fields=STATUS),
        right=replace(PROMISE.right, filters=right, fields=STATUS),
    )


def some_ahead() -> tuple[Events, Events]:
    """As ``both_behind``, and of both sides some records that are tests, and some that cost less, have later times."""
    made = []
    for of_side in both_behind():
        made.append([])
        for number, event in enumerate(of_side):
            is_test, is_free = number % 7 == 6, number % 11 == 10
            ahead_s = (
                100.0 + 90.0 * (number % 5) if is_test else 145.0 + 90.0 * (number % 4) if is_free else 0.0
            )
            more = {"status": "test" if is_test else "live", "cents": 0 if is_free else 70}
            made[-1].append({**event, **more, "time": iso(seconds_of(event) + ahead_s)})
    return made[0], made[1]


@pytest.mark.parametrize(
    ("forgotten", "said"),
    [
        (((NO_TEST,), ()), "filter drops: impressions.status != 'test'"),
        (((), (NO_TEST,)), "filter drops: clicks.status != 'test'"),
        (((NO_TEST, NO_FREE), ()), "filters drop: impressions.status != 'test' and impressions.cents >= 50"),
        (((), (NO_FREE,)), "filter drops: clicks.cents >= 50"),
        (
            ((NO_TEST, NO_FREE), (NO_TEST, NO_FREE)),
            (
                "filters drop: impressions.status != 'test' and impressions.cents >= 50"
                " and clicks.status != 'test' and clicks.cents >= 50"
            ),
        ),
    ],
)
def test_filters_that_the_query_forgot_are_named(forgotten, said):
    every = (NO_TEST, NO_FREE)
    kept_by_query = [tuple(one for one in every if one not in of_side) for of_side in forgotten]
    run = run_of(filtered(*kept_by_query), *some_ahead(), batches=12)
    run.contract = filtered(every, every)
    predicted_ms = [
        batch.plan.watermark_ms
        for batch in read_history(run_of(run.contract, *some_ahead(), batches=12)).batches
    ]

    found = watermark_cause(read_history(run), predicted_ms)

    assert found == f"the watermark is that of a query that reads records which the contract's {said}"


def test_a_record_that_a_null_key_drops_is_none_that_a_filter_drops():
    """An inner join drops it, whatever its filters."""
    lefts, rights = some_ahead()
    nobody = {"user": None, "status": "test", "time": iso(99_999.0)}
    lefts, rights = [*lefts, {**lefts[-1], **nobody}], [*rights, {**rights[-1], **nobody}]
    query = replace(filtered((), ()), kind=JoinKind.INNER)
    run = run_of(query, lefts, rights)
    promise = replace(filtered((NO_TEST,), (NO_TEST,)), kind=JoinKind.INNER)
    predicted_ms = [one.plan.watermark_ms for one in read_history(run_of(promise, lefts, rights)).batches]
    run.contract = promise

    found = watermark_cause(read_history(run), predicted_ms)

    assert found.endswith("drop: impressions.status != 'test' and clicks.status != 'test'")


def elsewhere(left_s: float, right_s: float, promise: Contract = PROMISE) -> str:
    """What is said of a query that reads the times of the sides later by so many seconds."""
    later = [
        [{**event, "time": iso(seconds_of(event) + shift_s)} for event in of_side]
        for of_side, shift_s in zip(both_behind(), (left_s, right_s), strict=True)
    ]
    run = run_of(promise, *later)
    run.events = dict(zip(run.events, both_behind(), strict=True))
    predicted_ms = [
        batch.plan.watermark_ms for batch in read_history(run_of(promise, *both_behind())).batches
    ]
    return watermark_cause(read_history(run), predicted_ms)


BY = "the watermark is that of a query by which the times of"


@pytest.mark.parametrize(
    ("shifts_s", "said"),
    [
        ((3_600, 3_600), f"{BY} impressions and clicks are read 1:00:00.000 later: another time zone"),
        ((50_400, 50_400), f"{BY} impressions and clicks are read 14:00:00.000 later: another time zone"),
        ((900, 0), f"{BY} impressions are read 0:15:00.000 later: another time zone"),
        ((54_000, 54_000), ""),
        ((1_000, 1_000), ""),
    ],
)
def test_times_of_another_zone_are_named(shifts_s, said):
    assert elsewhere(*shifts_s) == said


def test_times_that_are_too_early_amount_to_a_longer_delay_and_both_are_named():
    assert elsewhere(0, -3_600) == (
        "the watermark is that of a delay of 5400000 ms on clicks, not of 1800000 ms, or of a query by which the times"
        " of clicks are read 1:00:00.000 earlier: another time zone"
    )
    assert elsewhere(-7_200, -7_200).endswith(
        ", or of a query by which the times of impressions and clicks are read 2:00:00.000 earlier: another time zone"
    )


def first_line(many: int, forgotten: Filter) -> str:
    """The first sentence about a query that reads so many clicks too much, one of whose watermarks no query has."""
    lefts, rights = events()
    marks = [
        {"status": "test" if number < many and forgotten is NO_TEST else "live", "number": number}
        for number in range(len(rights))
    ]
    lefts = [{**event, "user": event["iid"][1:]} for event in lefts]
    rights = [{**event, **mark, "user": event["cid"][1:]} for event, mark in zip(rights, marks, strict=True)]
    query = replace(kept("inner"), right=replace(kept("inner").right, fields=STATUS))
    run = run_of(query, lefts, rights)
    run.plans[-1].watermark_ms += 1
    found = judge(promised(run, right=replace(query.right, filters=(forgotten,))))
    assert {"phantom_rows": many, "wrong_watermarks": 1}.items() <= found.findings_total.items()
    return found.cause


@pytest.mark.parametrize("many", [10, 16, 40])
def test_a_value_of_wrong_rows_is_read_before_watermarks_that_no_query_has(many):
    said = f"{many} rows came that no rule gives: in all {many}, clicks.status = 'test'; in none of"
    assert first_line(many, NO_TEST).startswith(said)


def test_a_value_of_few_wrong_rows_is_read_after_watermarks_that_no_query_has():
    assert first_line(9, NO_TEST).startswith("batch ")


def test_a_limit_is_read_before_watermarks_that_no_query_has_if_more_rows_have_it():
    """Numbers that grow with the time have a limit where a wrong watermark parts rows."""
    assert first_line(16, Filter("number", ">=", 16)).startswith("batch ")
    said = "40 rows came that no rule gives: in all 40, clicks.number <= 39; in none of"
    assert first_line(40, Filter("number", ">=", 40)).startswith(said)


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (
            range(26, 50),
            (
                "the watermark is that of a query that reads records which the contract's filter drops:"
                " impressions.status != 'test'; batch "
            ),
        ),
        (
            range(26, 86),
            "40 rows came that no rule gives: in all 40, impressions.status = 'test'; in none of",
        ),
    ],
)
def test_a_filter_that_the_query_forgot_is_named_first_by_the_watermarks_or_by_many_rows(tests, said):
    lefts, rights = events()
    lefts = [
        {**event, "user": event["iid"][1:], "status": "test" if number in tests else "live"}
        for number, event in enumerate(lefts)
    ]
    rights = [{**event, "user": event["cid"][1:]} for event in rights]
    query = replace(kept("inner"), left=replace(kept("inner").left, fields=STATUS))

    found = judge(promised(run_of(query, lefts, rights), left=replace(query.left, filters=(NO_TEST,))))

    assert {"phantom_rows", "wrong_watermarks"} <= found.findings_total.keys()
    assert found.cause.startswith(said)
