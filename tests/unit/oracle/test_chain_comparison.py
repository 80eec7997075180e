"""The comparison of a chain's output: what it costs on a run that is wrong in every row, and how it finds like rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from tests.unit.oracle.chain_runs import ChainRun, source
from tests.unit.oracle.test_chains import COUNTS, JOINED
from tidemark.formats.chain import Chain, Limit
from tidemark.oracle import Verdict
from tidemark.oracle.compare import chain_comparison
from tidemark.oracle.compare.chain_comparison import FirstAlike

PAIRS = Chain("pairs", JOINED, ("id_a", "id_b"))
SAME = Chain("same", Limit(source("a", None), 1_000_000), ("id_a",))


def wrong_counts(n: int) -> ChainRun:
    """Each of n groups has a wrong count: a row that nothing gives, and one that is lost."""
    run = ChainRun(COUNTS).batch(", ".join(f"c{i} u{i} 3" for i in range(n)) + ", last w 15")
    run.batch(watermark=15, out=", ".join(f"u{i} 10 2" for i in range(n)))
    return run.flush(watermark=15, out="w 20 1")


def wrong_nulls(n: int) -> ChainRun:
    """Each of n pairs came, and a NULL row for its left row as well."""
    run = ChainRun(PAIRS).batch(*(", ".join(f"{side}{i} k{i} 3" for i in range(n)) for side in "ab"))
    run.out(0, ", ".join(f"a{i} b{i}, a{i} -" for i in range(n)))
    return run.flush()


def wrong_batches(n: int) -> ChainRun:
    """Each of n batches owes the same row, and all of them came in the batch behind."""
    run = ChainRun(SAME)
    for _ in range(n):
        run.batch("same x 3")
    return run.batch(out=", ".join(["same"] * n)).flush()


WRONG: dict[str, tuple[Callable[[int], ChainRun], str]] = {
    "every count is wrong": (wrong_counts, "phantom_rows"),
    "every pair has a NULL row besides": (wrong_nulls, "nulls_for_matched_rows"),
    "every row is in another batch": (wrong_batches, "misplaced_rows"),
}


def judged_lines(run: ChainRun) -> tuple[Verdict, int]:
    """The verdict, and how many lines of the comparison were executed for it, each round of a loop anew."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return count if frame.f_code.co_filename == chain_comparison.__file__ else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        return run.judge(), lines
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("what", WRONG)
def test_a_run_that_is_wrong_everywhere_costs_in_proportion_to_its_rows(what: str) -> None:
    wrong, name = WRONG[what]
    few, lines_of_few = judged_lines(wrong(50))
    many, lines_of_many = judged_lines(wrong(200))

    assert (few.findings_total[name], many.findings_total[name]) == (50, 200)
    assert 0 < lines_of_many <= 4.5 * lines_of_few


@pytest.mark.parametrize("seed", range(5))
def test_the_first_row_alike_is_the_one_that_a_scan_finds(seed: int) -> None:
    rng = Random(seed)
    rows = [tuple(rng.choice((None, 1, 2)) for _ in range(4)) for _ in range(40)]
    alike = FirstAlike(rows)
    found = 0
    for _ in range(200):
        values = tuple(rng.choice((None, 1, 2)) for _ in range(4))
        places = rng.sample(range(4), rng.randrange(5))
        by_scan = next(
            (row for row in rows if row != values and all(row[at] == values[at] for at in places)), ()
        )
        assert alike.other(values, places) == by_scan
        found += by_scan != ()
    assert found > 50
