"""A watermark that is not the contract's is named by the query that would have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import iso
from tests.unit.oracle.other_query import Events, promised, run_of
from tests.unit.oracle.test_causes import kept
from tidemark.formats.contract import Contract, WatermarkPolicy
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
