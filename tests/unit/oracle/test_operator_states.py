"""The states of the operators of a chain: right ones by hand, and each wrong row by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.oracle.chain_runs import ChainRun
from tests.unit.oracle.test_chains import COUNTS, FIRST, ONCE, THEN_COUNTED, WINDOWS_JOINED
from tidemark.formats.evidence import OperatorStateRow

SAVE, ONCE_WITHIN, JOIN, LIMIT = "stateStoreSave", "dedupeWithinWatermark", "symmetricHashJoin", "globalLimit"


def row(name: str, *key: str, values: tuple[str | None, ...] | None = None, **more: Any) -> OperatorStateRow:
    """A row of the state after batch 0."""
    return OperatorStateRow(
        **{"batch": 0, "operator": 0, "side": "left", "name": name, "key": key, "values": values, **more}
    )


def windows() -> ChainRun:
    """Three groups; the query has the window before the key."""
    run = (
        ChainRun(COUNTS)
        .batch("c1 u 3, c2 u 9.999, c3 v 4, c4 u 15")
        .batch(watermark=15, out="u 10 2, v 10 1")
    )
    run.flush(watermark=15, out="u 20 1")
    run.kept = {
        0: [
            row(SAVE, "10000000", "u", values=("2",)),
            row(SAVE, "10000000", "v", values=("1",)),
            row(SAVE, "20000000", "u", values=("1",)),
        ],
        1: [row(SAVE, "20000000", "u", values=("1",), batch=1)],
    }
    return run


def once() -> ChainRun:
    """Two keys, which are forgotten when their time and the delay have passed."""
    run = ChainRun(ONCE).batch("a1 u 10, a1 u 10, a2 v 12", out="a1 10, a2 12").batch(watermark=7)
    run.flush(watermark=7, after=995)
    run.kept = {
        0: [row(ONCE_WITHIN, "a1", values=("15000000",)), row(ONCE_WITHIN, "a2", values=("17000000",))]
    }
    return run


def joined() -> ChainRun:
    """A matched and an unmatched left row, whose pair is in a group; NULL is no number of a sum."""
    run = ChainRun(THEN_COUNTED).batch("a1 u 1, a2 v 2", "b1 u 3").batch(watermark=2).flush(watermark=2)
    run.kept = {
        0: [
            row(SAVE, "u", "10000000", values=("1", None)),
            row(JOIN, "u", operator=1, time_us=1_000_000, matched=True),
            row(JOIN, "v", operator=1, time_us=2_000_000, matched=False),
            row(JOIN, "u", operator=1, time_us=3_000_000, matched=True, side="right"),
        ]
    }
    return run


def windows_joined() -> ChainRun:
    """A group that is closed is in the state of the join, with its window in its key."""
    run = (
        ChainRun(WINDOWS_JOINED).batch("a1 u 1, a2 u 2", "b1 v 3, b2 v 15").batch("a3 u 25", "", watermark=2)
    )
    run.kept = {
        0: [row(SAVE, "u", "10000000", values=("2",), operator=1)]
        + [row(SAVE, "v", end, values=("1",), operator=2) for end in ("10000000", "20000000")]
    }
    return run


def limited() -> ChainRun:
    """Two rows were taken."""
    run = ChainRun(FIRST).batch("a1 u 1, a2 u 2", out="a1, a2").batch("a3 u 3")
    run.kept = {0: [row(LIMIT, values=("2",))], 1: [row(LIMIT, values=("2",), batch=1)]}
    return run


RUNS: dict[str, Callable[[], ChainRun]] = {
    "windows": windows,
    "once": once,
    "joined": joined,
    "windows joined": windows_joined,
    "limited": limited,
}
NO_REPORTS = "there is no progress report of an operator with a state: its metrics were not compared"
OF_STATE = ("lost_state", "leaked_state", "wrong_flags")


def wrong(run: ChainRun) -> Counter[str]:
    return Counter(one.property for one in run.judge().findings if one.property in OF_STATE)


def changes(row: OperatorStateRow) -> list[dict[str, Any]]:
    """What else could be in a row."""
    found: list[dict[str, Any]] = [{"key": (*row.key[:-1], "other")}] if row.key else []
    found += [{"values": ("77", *row.values[1:])}] if row.values else []
    found += [{"time_us": row.time_us + 1}] if row.time_us is not None else []
    found += [{"matched": not row.matched}] if row.matched is not None and row.side == "left" else []
    return found


@pytest.mark.parametrize("name", RUNS)
def test_right_states_are_compared_and_raise_no_alarm(name: str) -> None:
    run = RUNS[name]()
    account = run.judge().spark_account

    assert wrong(run) == {}
    assert account is not None
    assert account.state_batches == list(run.kept or ())
    assert account.notes == [NO_REPORTS]


@pytest.mark.parametrize("name", RUNS)
def test_each_row_that_is_missing_is_found_and_each_that_is_too_many(name: str) -> None:
    run = RUNS[name]()
    for rows in (run.kept or {}).values():
        for at in range(len(rows)):
            gone = rows.pop(at)
            assert wrong(run) == {"lost_state": 1}
            rows[at:at] = [gone, gone]
            assert wrong(run) == {"leaked_state": 1}
            del rows[at]


@pytest.mark.parametrize("name", RUNS)
def test_each_part_of_a_row_is_compared(name: str) -> None:
    run, compared = RUNS[name](), 0
    for rows in (run.kept or {}).values():
        for at, right in enumerate(rows):
            for change in changes(right):
                rows[at] = msgspec.structs.replace(right, **change)
                named = {"wrong_flags": 1} if "matched" in change else {"lost_state": 1, "leaked_state": 1}
                assert wrong(run) == named, change
                compared += 1
            rows[at] = right
    assert compared >= len(run.kept or ())


def test_a_finding_names_the_operator_the_batch_and_the_row() -> None:
    run = joined()
    assert run.kept is not None
    right = run.kept[0][2]
    run.kept[0][2] = msgspec.structs.replace(right, matched=True)
    [flagged] = [one.message for one in run.judge().findings if one.property in OF_STATE]
    run.kept[0][2] = msgspec.structs.replace(right, time_us=3_000_000)
    lost, leaked = sorted(one.message for one in run.judge().findings if one.property in OF_STATE)

    where = (
        "the state of symmetricHashJoin, operator 2 of the report, left side, after batch 0 has a row (key v;"
    )
    assert flagged == f"{where} 1970-01-01T00:00:02.000Z; matched); by Spark's rules not matched"
    assert leaked == f"{where} 1970-01-01T00:00:03.000Z; not matched); by Spark's rules it has not"
    assert lost.startswith("by Spark's rules the state of symmetricHashJoin, operator 2")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"name": "dedupe"}, "Spark's operator 1 is dedupe, those of the chain are stateStoreSave"),
        ({"operator": 1}, "Spark's operator 2 is stateStoreSave"),
        ({"key": ("u", "10000000", "more")}, "its keys have another number of parts"),
    ],
)
def test_a_state_of_another_plan_is_not_compared_and_that_is_said(change: dict[str, Any], note: str) -> None:
    run = windows()
    assert run.kept is not None
    run.kept = {0: [msgspec.structs.replace(one, **change) for one in run.kept[0]]}
    account = run.judge().spark_account

    assert wrong(run) == {}
    assert account is not None
    assert account.state_batches == []
    assert [note in one for one in account.notes].count(True) == 1


def exchanged(run: ChainRun) -> ChainRun:
    """The same of a query that writes the sides of the join the other way round."""
    other = {"left": "right", "right": "left"}
    assert run.kept is not None
    run.kept = {
        batch: [
            msgspec.structs.replace(one, side=other[one.side])
            if one.name == JOIN
            else msgspec.structs.replace(one, operator={1: 2, 2: 1}.get(one.operator, one.operator))
            for one in rows
        ]
        for batch, rows in run.kept.items()
    }
    return run


@pytest.mark.parametrize("name", ["joined", "windows joined"])
def test_the_sides_of_a_join_may_be_exchanged_in_the_query(name: str) -> None:
    run = exchanged(RUNS[name]())
    assert wrong(run) == {}
    assert run.kept is not None
    del run.kept[0][-1]
    assert wrong(run) == {"lost_state": 1}


def test_values_of_which_the_query_gathers_fewer_are_not_compared_and_that_is_said() -> None:
    run = joined()
    assert run.kept is not None
    run.kept[0][0] = msgspec.structs.replace(run.kept[0][0], values=("1",))
    account = run.judge().spark_account

    assert wrong(run) == {}
    assert account is not None
    assert [note for note in account.notes if note.startswith("the values of the state of stateStoreSave")]


def test_a_batch_that_was_not_committed_is_not_compared() -> None:
    run = windows()
    assert run.kept is not None
    run.kept[1].clear()
    run.plans[1].committed = False

    assert "lost_state" not in wrong(run)
