"""Mutants in what an engine says of itself: its state after a batch, and what it counted.

Damage to a :class:`Copy` of the evidence of a real run, as in ``tests/mutants/evidence.py``.
"""

from __future__ import annotations

from tests.mutants.evidence import EVERY, OUTER, Copy, Damaged, change, made_unreadable

SIDES = ("left", "right")
COUNTED = tuple(join for join in EVERY if join != "full_outer")
"""Joins with a side that is not preserved: Spark 4.2 counts no removals of the others."""


def row_forgotten(copy: Copy) -> None:
    """A row is not there any more, although it can still be matched."""
    del copy.state[len(copy.state) // 2]


def row_never_removed(copy: Copy) -> None:
    """A row is there after the last batch, long after it has expired."""
    last = copy.state[-1].batch
    leaving = next(row for row in copy.state if row.batch < last)
    copy.state.append(change(leaving, batch=last))


def row_stored_twice(copy: Copy) -> None:
    copy.state.append(copy.state[0])


def row_of_another_side(copy: Copy) -> None:
    copy.state[0] = change(copy.state[0], side=SIDES[copy.state[0].side == "left"])


def time_shifted(copy: Copy) -> None:
    """By a microsecond."""
    time_us = copy.state[0].time_us
    assert time_us is not None
    copy.state[0] = change(copy.state[0], time_us=time_us + 1)


def flag_turned(copy: Copy) -> None:
    """A row that was not matched is said to have been, or the reverse."""
    side = "right" if copy.contract.kind == "right_outer" else "left"
    at, row = next(
        (at, row) for at, row in enumerate(copy.state) if row.side == side and row.matched is not None
    )
    copy.state[at] = change(row, matched=not row.matched)


def record_that_only_the_state_has(copy: Copy) -> None:
    """The state has a record that is not what the contract describes."""
    placed = [row for row in copy.state if row.ref is not None and row.time_us is not None]
    row = placed[len(placed) // 2]
    assert row.ref is not None
    made_unreadable(copy, SIDES.index(row.side), *row.ref)


def count_too_high(copy: Copy) -> None:
    """Of a key that has rows."""
    at = len(copy.state_keys) // 2
    copy.state_keys[at] = change(copy.state_keys[at], count=copy.state_keys[at].count + 1)


def key_without_count(copy: Copy) -> None:
    """The rows of the key are there; Spark does not find them."""
    del copy.state_keys[len(copy.state_keys) // 2]


def gone_key_counted(copy: Copy) -> None:
    """A key is counted after the last batch, long after its rows were removed."""
    last = copy.state[-1].batch
    there = {(row.side, row.key) for row in copy.state if row.batch == last}
    gone = next(key for key in copy.state_keys if (key.side, key.key) not in there)
    copy.state_keys.append(change(gone, batch=last))


def _count(copy: Copy, metric: str, more: int) -> None:
    for report in copy.progress:
        for operator in report["stateOperators"]:
            if operator[metric] + more >= 0 and operator[metric]:
                operator[metric] += more
                return
    raise AssertionError(f"no batch has {metric}")


def late_row_not_counted(copy: Copy) -> None:
    _count(copy, "numRowsDroppedByWatermark", -1)


def row_counted_twice(copy: Copy) -> None:
    _count(copy, "numRowsUpdated", 1)


def removal_not_counted(copy: Copy) -> None:
    _count(copy, "numRowsRemoved", -1)


def kept_row_not_counted(copy: Copy) -> None:
    _count(copy, "numRowsTotal", -1)


STATE_EVIDENCE = {
    "row forgotten": Damaged(row_forgotten, "lost_state"),
    "row never removed": Damaged(row_never_removed, "leaked_state"),
    "row stored twice": Damaged(row_stored_twice, "leaked_state"),
    "row in the state of the other side": Damaged(row_of_another_side, "leaked_state"),
    "event time in the state shifted": Damaged(time_shifted, "lost_state"),
    "record in the state that only the query reads": Damaged(
        record_that_only_the_state_has, "decoded_differently"
    ),
    "matched flag turned": Damaged(flag_turned, "wrong_flags", OUTER),
    "count of a key too high": Damaged(count_too_high, "wrong_counts"),
    "key without a count": Damaged(key_without_count, "wrong_counts"),
    "count of a key that is gone": Damaged(gone_key_counted, "wrong_counts"),
    "late row not counted": Damaged(late_row_not_counted, "wrong_metrics", late=True),
    "stored row counted twice": Damaged(row_counted_twice, "wrong_metrics"),
    "removed row not counted": Damaged(removal_not_counted, "wrong_metrics", COUNTED),
    "kept row not counted": Damaged(kept_row_not_counted, "wrong_metrics"),
}
