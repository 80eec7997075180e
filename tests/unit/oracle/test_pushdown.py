"""Where Spark puts what is asked of a side: below the watermark of the other side, too, if it is asked of a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import contract
from tidemark.formats.contract import Filter, Term
from tidemark.oracle.spark.pushdown import place

OF_KEY, OF_OTHER = Filter("user", ">=", 5), Filter("price", ">=", 5)


def below(kind, *, left=(), right=(), condition=()):
    """The filters below the watermark of each side."""
    given = contract(kind, condition=condition)
    sides = replace(given.left, filters=tuple(left)), replace(given.right, filters=tuple(right))
    return place(replace(given, left=sides[0], right=sides[1])).below


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("inner", (OF_KEY, OF_KEY), (OF_KEY, OF_KEY)),
        ("left_semi", (OF_KEY, OF_KEY), (OF_KEY, OF_KEY)),
        ("left_outer", (OF_KEY, OF_KEY), (None, OF_KEY)),
        ("right_outer", (OF_KEY, None), (OF_KEY, OF_KEY)),
        ("full_outer", (OF_KEY, None), (None, OF_KEY)),
    ],
)
def test_a_filter_of_a_key_is_asked_of_a_side_that_is_not_preserved(kind, left, right):
    """``left`` and ``right``: what is asked of both sides if it is written for that one."""
    for found, wanted in ((below(kind, left=[OF_KEY]), left), (below(kind, right=[OF_KEY]), right)):
        assert found == tuple(() if one is None else (one,) for one in wanted)


def test_a_filter_of_another_field_is_asked_of_its_own_side_alone():
    assert below("inner", left=[OF_OTHER]) == ((OF_OTHER,), ())


def test_what_is_asked_of_both_sides_is_asked_once():
    assert below("inner", left=[OF_KEY], right=[OF_KEY]) == ((OF_KEY,), (OF_KEY,))


def test_a_condition_on_a_key_of_a_preserved_side_is_asked_of_the_other():
    assert below("left_outer", condition=(Term(">=", left="user", value=5),)) == ((), (OF_KEY,))
