"""The coverage goal ``flushed`` where Spark takes a condition for a bound of the event time."""

from __future__ import annotations

import pytest

from tests.unit.oracle.histories import Run
from tidemark.formats.contract import Bound, Term

BOUND = Bound(-5000, 0, upper_strict=True)


def run(*, latest: str, until: float, bound: Bound = BOUND) -> Run:
    """Left rows up to 100 s are evicted, by ``user > 100``, and later ones never; i1, of 10 s, from 15.001 s on."""
    made = Run("left_outer", bound=bound, condition=(Term(">", left="user", value=100),))
    made.batch(f"i1 700 10, {latest}", "c1 800 12", watermark=0)
    return made.batch(f"i3 900 {until}", f"c3 950 {until}", watermark=12).batch(watermark=until)


@pytest.mark.parametrize("latest", ["i2 701 90", "i2 701 200"])
def test_a_row_that_is_evicted_by_no_watermark_hides_none_that_is(latest: str) -> None:
    assert not run(latest=latest, until=14).verdict().goals["flushed"]


def test_a_run_is_flushed_once_all_rows_are_evicted_that_ever_are() -> None:
    flushed = run(latest="i2 701 200", until=250)

    assert flushed.verdict().goals["flushed"]


def test_where_no_end_of_the_bound_evicts_the_condition_alone_does() -> None:
    made = run(latest="i2 701 200", until=14, bound=Bound(None, None))

    assert made.verdict().goals["flushed"]
