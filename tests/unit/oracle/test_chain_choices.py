"""What the last step of a chain may choose anew in a batch that ran again, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tests.unit.oracle.test_chains import FIRST, ONCE, properties
from tidemark.formats.chain import Chain, Deduplicate
from tidemark.formats.contract import Delivery

ANY_OF = Chain("any_of", Deduplicate(source("a", 5), ("k_a",)), ("id_a",))
ID_ALONE = Chain("id_alone", ONCE.last, ("id_a",))
RAN_AGAIN: dict[str, Any] = {"runs": 2, "restarted": True}
"""Tasks may have failed before the driver died: nothing bounds how many attempts there were."""
TASK_FAILED: dict[str, Any] = {"failed_tasks": 1}
"""There were two attempts at most."""
KEPT_UNSEEN = "which of several rows with the same key a deduplication kept in a batch before"


def any_of(out: str, **plan: Any) -> ChainRun:
    """Two rows of one key, one of which is kept, and one of another."""
    return ChainRun(ANY_OF).batch("i1 x 10, i2 x 11, i3 y 11", out=f"i3, {out}", **plan)


def first(out: str, **plan: Any) -> ChainRun:
    """Two of three rows are taken."""
    return ChainRun(FIRST).batch("i1 x 1, i2 x 2, i3 x 3", out=out, **plan)


@pytest.mark.parametrize("plan", [RAN_AGAIN, TASK_FAILED], ids=["driver died", "task failed"])
def test_each_attempt_of_a_batch_may_keep_another_row(plan: dict[str, Any]) -> None:
    for out in ("i2, i1", "i1, i2", "i1", "i2, i2"):
        assert properties(any_of(out, **plan)) == {}
    for out in ("i1, i2, i2, i3", "i2, i3, i3, i1", "i1, i2, i1, i2", "i3, i2"):
        assert properties(first(out, **plan)) == {}
    assert any_of("i2, i1", **plan).judge().counts["duplicates_permitted"] == 1


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (any_of("i2, i1"), {"phantom_rows": 1}),
        (any_of("i2, i1, i2", **TASK_FAILED), {"phantom_rows": 1}),
        (any_of("i1, i1, i2", **TASK_FAILED), {"phantom_rows": 1}),
        (any_of("i1, i3, i3", **TASK_FAILED), {"duplicate_rows": 1}),
        (any_of("i1, i9", **TASK_FAILED), {"phantom_rows": 1}),
        (any_of("", **TASK_FAILED), {"lost_rows": 1}),
        (first("i1, i2, i3"), {"phantom_rows": 1}),
        (first("i1, i2, i3, i3, i1", **TASK_FAILED), {"duplicate_rows": 1}),
        (first("i1, i1, i1, i2", **TASK_FAILED), {"duplicate_rows": 1}),
        (first("i3, i3", **TASK_FAILED), {"lost_rows": 1}),
    ],
)
def test_more_rows_than_the_attempts_of_a_batch_can_write_and_fewer_than_one_does_are_named(
    run: ChainRun, found: dict[str, int]
) -> None:
    assert properties(run) == found


def test_exactly_once_permits_the_rows_of_one_attempt() -> None:
    run = any_of("i2, i1", **RAN_AGAIN)
    run.delivery = Delivery.EXACTLY_ONCE

    assert properties(run) == {"phantom_rows": 1}


def test_another_batch_may_not_write_what_an_attempt_may_have_chosen() -> None:
    run = any_of("i1", **RAN_AGAIN).batch("i4 z 12", watermark=6, out="i4, i2")

    assert properties(run) == {"phantom_rows": 1}


def test_a_row_that_a_late_one_would_have_displaced_is_not_named_as_late() -> None:
    """In a Spark that keeps late rows i8 or i9 may be kept; that i8, which is first, was not is Spark's choice."""
    run = any_of("i2").batch("i7 v 30", watermark=6, out="i7").batch("i8 w 40, i9 w 41", watermark=25)
    run.out(2, "i9").batch("i0 u 42", watermark=36, out="i0, i8")

    assert properties(run) == {"phantom_rows": 1}


def test_choices_that_share_a_row_in_the_output_are_bounded_together() -> None:
    described = Chain("shared", ANY_OF.last, ("v_a",))
    rows = "i1 x 10 1, i2 x 10 2, i3 y 10 2, i4 y 10 3"

    assert properties(ChainRun(described).batch(rows, out="1, 2, 2, 3", **TASK_FAILED)) == {}
    assert properties(ChainRun(described).batch(rows, out="1, 2, 2, 3, 1", **TASK_FAILED)) == {
        "duplicate_rows": 1
    }


def once(rows: str, out: str, again: str, described: Chain = ONCE, **plan: Any) -> ChainRun:
    """A key is forgotten at 15 s or at 18 s, by the row that was kept; it comes again when the watermark is 16 s."""
    run = ChainRun(described).batch(rows, out=out, **plan)
    is_whole = described is ONCE
    run.batch("i2 y 21", watermark=8, out="i2 21" if is_whole else "i2").batch(watermark=16)
    return run.batch("i1 x 17", watermark=16, out=again if is_whole else again.removesuffix(" 17"))


@pytest.mark.parametrize("rows", ["i1 x 10, i1 x 13", "i1 x 13, i1 x 10"])
@pytest.mark.parametrize("again", ["i1 17", ""])
def test_what_follows_from_the_attempt_that_was_the_last_is_not_determined(rows: str, again: str) -> None:
    run = once(rows, "i1 13, i1 10", again, **RAN_AGAIN)
    assert properties(run) == {}
    is_kept_first = rows.startswith("i1 x 10")
    reasons = [one for one in run.judge().inconclusive if KEPT_UNSEEN in one]
    assert len(reasons) == (is_kept_first != bool(again))


@pytest.mark.parametrize("again", ["i1 17", ""])
def test_what_follows_from_a_time_that_is_not_in_the_output_is_not_determined(again: str) -> None:
    assert properties(once("i1 x 10, i1 x 13", "i1", again, ID_ALONE)) == {}


@pytest.mark.parametrize(
    ("kept", "again", "found"),
    [("i1 10", "", {"lost_rows": 1}), ("i1 13", "i1 17", {"phantom_rows": 1})],
)
def test_what_follows_from_the_one_row_that_came_is_determined(
    kept: str, again: str, found: dict[str, int]
) -> None:
    assert properties(once("i1 x 10, i1 x 13", kept, again)) == found
    assert properties(once("i1 x 10, i1 x 13", f"{kept}, {kept}", again, **RAN_AGAIN)) == found


def test_other_rows_than_the_undetermined_ones_are_named_all_the_same() -> None:
    run = once("i1 x 10, i1 x 13", "i1 13, i1 10", "i9 17", **RAN_AGAIN)

    assert properties(run) == {"phantom_rows": 1}
