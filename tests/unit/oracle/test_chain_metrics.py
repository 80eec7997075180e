"""What Spark reports of each operator of a chain with a state: right numbers by hand, and each wrong one by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.oracle.chain_runs import ChainRun
from tests.unit.oracle.test_chains import COUNTS, ONCE, THEN_COUNTED, WINDOWS_JOINED, counted

SAVE, ONCE_WITHIN, JOIN = "stateStoreSave", "dedupeWithinWatermark", "symmetricHashJoin"
METRICS = ("numRowsUpdated", "numRowsRemoved", "numRowsTotal", "numRowsDroppedByWatermark")
Numbers = tuple[int, int, int, int]


def reported(run: ChainRun, *batches: dict[str, Numbers], spark: str = "4.2.0") -> ChainRun:
    """With reports: of each batch the operators from the last step on, and rows stored, removed, kept and late."""
    run.versions = {"spark": spark}
    run.reports = [
        {
            "batchId": number,
            "stateOperators": [
                {"operatorName": name, **dict(zip(METRICS, numbers, strict=True))}
                for name, numbers in operators.items()
            ],
        }
        for number, operators in enumerate(batches)
    ]
    return run


def windows() -> ChainRun:
    """Three groups, of which the watermark 15 closes two, and one late group, of two rows."""
    run = counted()
    late = (
        ChainRun(COUNTS)
        .batch("c1 u 3, c2 u 9.999, c3 v 4, c4 u 15")
        .batch(watermark=15, out="u 10 2, v 10 1")
    )
    late.batch("c5 u 3, c6 u 4", watermark=15).flush(watermark=15, out="u 20 1")
    assert len(run.plans) + 1 == len(late.plans)
    return reported(
        late,
        {SAVE: (3, 0, 3, 0)},
        {SAVE: (0, 2, 1, 0)},
        {SAVE: (0, 0, 1, 1)},
        {SAVE: (1, 0, 2, 0)},
        {SAVE: (0, 1, 1, 0)},
    )


def once() -> ChainRun:
    """A row that comes again, and a late one; an entry is due when its time and the delay have passed."""
    run = ChainRun(ONCE).batch("a1 u 10, a1 u 10, a2 v 12", out="a1 10, a2 12").batch(watermark=7)
    run.batch("a3 w 6", watermark=7).flush(watermark=7, after=995)
    return reported(
        run,
        {ONCE_WITHIN: (2, 0, 2, 0)},
        {ONCE_WITHIN: (0, 0, 2, 0)},
        {ONCE_WITHIN: (0, 0, 2, 1)},
        {ONCE_WITHIN: (1, 0, 3, 0)},
        {ONCE_WITHIN: (0, 2, 1, 0)},
    )


def joined(spark: str = "4.2.0") -> ChainRun:
    """A pair, and a NULL row at the end, both counted; Spark 4.2 does not count the rows that leave the left side."""
    run = ChainRun(THEN_COUNTED).batch("a1 u 1, a2 v 2", "b1 u 3").batch(watermark=2).flush(watermark=2)
    return reported(
        run,
        {SAVE: (1, 0, 1, 0), JOIN: (3, 0, 3, 0)},
        {SAVE: (0, 0, 1, 0), JOIN: (0, 0, 3, 0)},
        {SAVE: (0, 0, 1, 0), JOIN: (2, 0, 5, 0)},
        {SAVE: (1, 2, 0, 0), JOIN: (0, 3 if spark >= "4.3" else 1, 2, 0)},
        spark=spark,
    )


def joined_by_time() -> ChainRun:
    """In state format 4: two rows with one key and time are one entry, and leave as two rows."""
    run = ChainRun(THEN_COUNTED).batch("a1 u 1, a2 u 1, a3 v 2", "b1 u 3").batch(watermark=2)
    run.flush(watermark=2)
    run.state_format = 4
    return reported(
        run,
        {SAVE: (1, 0, 1, 0), JOIN: (4, 0, 3, 0)},
        {SAVE: (0, 0, 1, 0), JOIN: (0, 0, 3, 0)},
        {SAVE: (0, 0, 1, 0), JOIN: (2, 0, 5, 0)},
        {SAVE: (1, 2, 0, 0), JOIN: (0, 4, 2, 0)},
        spark="4.3.0",
    )


RUNS: dict[str, Callable[[], ChainRun]] = {
    "windows": windows,
    "once": once,
    "joined": joined,
    "joined, on 4.3": lambda: joined("4.3.0"),
    "joined, in state format 4": joined_by_time,
}


def wrong(run: ChainRun) -> list[str]:
    return [one.message for one in run.judge().findings if one.property == "wrong_metrics"]


@pytest.mark.parametrize("name", RUNS)
def test_right_numbers_are_compared_and_raise_no_alarm(name: str) -> None:
    run = RUNS[name]()
    verdict = run.judge()

    assert wrong(run) == []
    assert verdict.spark_account is not None
    assert verdict.spark_account.metric_batches == len(run.plans)
    assert verdict.spark_account.notes == ["the state was not read"]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", RUNS)
def test_each_number_of_each_operator_is_compared_in_each_batch(name: str, metric: str) -> None:
    run = RUNS[name]()
    for batch, report in enumerate(run.reports):
        for operator in report["stateOperators"]:
            operator[metric] += 1
            (message,) = wrong(run)
            assert f"in batch {batch} ({metric} of {operator['operatorName']}" in message
            operator[metric] -= 1


def test_a_join_in_another_state_format_keeps_rows_and_not_entries() -> None:
    run = joined_by_time()
    run.state_format = 2

    assert [message.rpartition(";")[2] for message in wrong(run)] == [
        " its own rules give 4", " its own rules give 4", " its own rules give 6",
    ]  # fmt: skip


def test_a_batch_that_ran_again_and_one_of_a_failed_task_are_not_compared() -> None:
    run = windows()
    for report in run.reports[:2]:
        report["stateOperators"][0]["numRowsUpdated"] += 7
    run.plans[0].failed_tasks = 1
    run.plans[1].runs, run.plans[1].restarted = 2, True

    assert wrong(run) == []
    assert run.judge().spark_account.metric_batches == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["other name", "no operator", "no number"])
def test_a_report_in_which_something_is_missing_makes_the_run_inconclusive(change: str) -> None:
    run = windows()
    operators = run.reports[1]["stateOperators"]
    if change == "other name":
        operators[0]["operatorName"] = "dedupe"
    elif change == "no operator":
        operators.clear()
    else:
        del operators[0]["numRowsTotal"]
    verdict = run.judge()

    assert wrong(run) == []
    (reason,) = verdict.inconclusive
    assert "batch 1" in reason


def test_other_operators_than_those_of_the_chain_are_said_and_not_compared() -> None:
    run = windows()
    for report in run.reports:
        report["stateOperators"][0]["operatorName"] = "sessionWindowStateStoreSaveExec"
    account = run.judge().spark_account

    assert account is not None
    assert account.metric_batches == 0
    assert (
        "Spark reports the operators sessionWindowStateStoreSaveExec, the chain has stateStoreSave"
        in account.notes[1]
    )


def test_a_run_without_reports_says_so() -> None:
    account = counted().judge().spark_account

    assert account is not None
    assert account.notes == [
        "the state was not read",
        "there is no progress report of an operator with a state: its metrics were not compared",
    ]


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_the_sides_of_a_join_of_two_windows_may_be_exchanged_in_the_query(is_exchanged: bool) -> None:
    run = ChainRun(WINDOWS_JOINED).batch("a1 u 1, a2 u 2", "b1 v 3, b2 v 15")
    of_left, of_right = (SAVE, (1, 0, 1, 0)), (SAVE, (2, 0, 2, 0))
    sides = [of_right, of_left] if is_exchanged else [of_left, of_right]
    run.versions = {"spark": "4.2.0"}
    run.reports = [
        {
            "batchId": 0,
            "stateOperators": [
                {"operatorName": name, **dict(zip(METRICS, numbers, strict=True))}
                for name, numbers in [(JOIN, (0, 0, 0, 0)), *sides]
            ],
        }
    ]
    assert wrong(run) == []
    account = run.judge().spark_account
    assert account is not None
    assert account.metric_batches == 1
    run.reports[0]["stateOperators"][1]["numRowsTotal"] += 1
    assert len(wrong(run)) == 1
