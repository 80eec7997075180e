"""Times in Spark's state that are those of the records and one distance: the first sentence says the distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.oracle.histories import Run
from tidemark.formats.contract import Bound
from tidemark.formats.evidence import StateRow
from tidemark.oracle.causes.state_causes import state_cause
from tidemark.oracle.input.history import read_history

HOUR_US = 3_600_000_000
LEFTS = {"i1": ("a", 10), "i2": ("b", 20), "i3": ("c", 40), "i4": ("d", 70)}
RIGHTS = {"c1": ("a", 11), "c2": ("b", 25), "c3": ("c", 49)}


def rows_of(records: dict[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name} {key} {seconds}" for name, (key, seconds) in records.items())


def run_of(state: list[StateRow]) -> Run:
    """A join of all that is there, whose one batch left that state."""
    run = Run("inner", bound=Bound(-600_000, 0), delays_s=(600, 600))
    run.batch(rows_of(LEFTS), rows_of(RIGHTS), out="i1 c1, i2 c2, i3 c3").flush()
    run.kept = state
    return run


def state(later_us: Callable[[int], int], side: str = "right", **changes: Any) -> list[StateRow]:
    """The state that has the rows of one side later, and those of the other as they are."""
    return [
        msgspec.structs.replace(
            StateRow(
                batch=0, side=of, key=(key,), ref=(0, offset),
                time_us=seconds * 1_000_000 + (later_us(offset) if of == side else 0),
            ),
            **changes,
        )
        for of, records in (("left", LEFTS), ("right", RIGHTS))
        for offset, (key, seconds) in enumerate(records.values())
    ]  # fmt: skip


def cause(rows: list[StateRow]) -> str:
    return state_cause(read_history(run_of(rows)), rows)


@pytest.mark.parametrize(
    ("later_us", "said"),
    [
        (HOUR_US, "+ 1:00:00.000: another time zone"),
        (-2 * HOUR_US, "- 2:00:00.000: another time zone"),
        (20_700_000_000, "+ 5:45:00.000: another time zone"),
        (15 * HOUR_US, "+ 15:00:00.000"),
        (7_000_001, "+ 0:00:07.000001"),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"ref": None}, {"key": None}], ids=["both", "keys", "places"])
def test_one_distance_of_all_rows_of_a_side_is_said(later_us, said, changes):
    found = cause(state(lambda _: later_us, **changes))
    assert found == f"in all 3 rows of clicks, Spark's state has the time of the record {said}"


def test_each_side_has_its_own_distance():
    rows = state(lambda _: HOUR_US)
    lefts = [
        msgspec.structs.replace(one, time_us=one.time_us - HOUR_US) for one in rows if one.side == "left"
    ]
    found = cause([*lefts, *(one for one in rows if one.side == "right")])
    assert "in all 4 rows of impressions, Spark's state has the time of the record - 1:00:00.000" in found
    assert "in all 3 rows of clicks, Spark's state has the time of the record + 1:00:00.000" in found


@pytest.mark.parametrize(
    "rows",
    [
        state(lambda _: 0),
        state(lambda offset: HOUR_US if offset else 0),
        state(lambda offset: HOUR_US * (offset + 1)),
        state(lambda _: HOUR_US, time_us=None),
        state(lambda _: HOUR_US, key=None, ref=None),
        state(lambda _: HOUR_US, key=("z",), ref=None),
        state(lambda _: HOUR_US, ref=(0, 77)),
        state(lambda _: HOUR_US, ref=(5, 0)),
        [one for one in state(lambda _: HOUR_US) if one.ref != (0, 2)],
        [],
    ],
    ids=[
        "as they are", "not all", "not one distance", "no times", "neither key nor place", "unknown keys",
        "no such offset", "no such partition", "two rows", "no state",
    ],
)  # fmt: skip
def test_nothing_is_said_without_one_distance_of_at_least_three_rows(rows):
    assert cause(rows) == ""


def test_of_several_records_of_a_key_one_distance_must_fit_all_rows():
    """Keys alone: i1 and i2 are 10 s apart, and i3 and i4 are."""
    run = Run("inner", bound=Bound(-600_000, 0), delays_s=(600, 600))
    run.batch("i1 a 10, i2 a 20, i3 b 50, i4 b 60, i5 c 70").flush()
    history = read_history(run)

    def read(*rows: tuple[str, int]) -> str:
        return state_cause(
            history,
            [
                StateRow(batch=0, side="left", key=(key,), time_us=seconds * 1_000_000)
                for key, seconds in rows
            ],
        )

    assert read(("a", 20), ("a", 20), ("b", 60)) == ""
    assert read(("a", 3_620), ("b", 3_660), ("b", 3_660)) == ""  # 1:00:00 or 1:00:10
    assert "+ 1:00:00.000" in read(("a", 3_620), ("b", 3_660), ("c", 3_670))


def test_the_distance_is_the_first_sentence_of_the_verdict():
    found = run_of(state(lambda _: HOUR_US)).verdict()

    assert found.findings_total == {"lost_state": 3, "leaked_state": 3}
    assert found.cause.startswith(
        "in all 3 rows of clicks, Spark's state has the time of the record + 1:00:00.000: another time zone;"
        " 3 findings; the first: "
    )


def test_the_distance_is_read_before_rows_that_never_came():
    run = run_of(state(lambda _: HOUR_US))
    run.records = []

    found = run.verdict()

    assert [one.message for one in found.causes if one.property == "lost_rows"] == [
        "none of 3 rows that are due came"
    ]
    assert found.cause.startswith(
        "in all 3 rows of clicks, Spark's state has the time of the record + 1:00:00.000"
    )


def test_a_state_that_lost_a_row_is_told_as_it_was():
    found = run_of(state(lambda _: 0)[1:]).verdict()

    assert found.findings_total == {"lost_state": 1}
    assert found.cause.startswith("by Spark's rules the state after batch 0 has ")
