"""SQL has the milliseconds of any time: far ones, and those before 1970 with microseconds, are rounded down."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from tests.unit.oracle.disagreements import disagreements
from tests.unit.oracle.histories import Run
from tidemark.formats.contract import JoinKind
from tidemark.formats.events import read_time_us
from tidemark.oracle.input.history import read_history
from tidemark.oracle.sql.join_answer import ask, rules_of
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import DUCKDB, SPARK, milliseconds

LAST_US = read_time_us("9999-12-31T23:59:59.999999Z") or 0
LAST_MS = 253_402_300_799_999
FIRST_US = -62_135_596_800_000_000
LONGEST_US = 2**63 - 1
"""The largest BIGINT; a time that is a number may be so far."""


def in_milliseconds(times_us: list[int]) -> list[int]:
    with duckdb.connect(":memory:") as sql:
        sql.register("times", {"place": np.arange(len(times_us)), "time_us": np.array(times_us)})
        found = sql.execute(f"select {milliseconds('time_us')} from times order by place")
        return [time_ms for (time_ms,) in found.fetchall()]


def test_milliseconds_are_rounded_down_as_the_model_has_them() -> None:
    rng = random.Random(1)
    named = [0, 1, 999, 1000, -1, -999, -1000, -1001, FIRST_US, FIRST_US + 1, LAST_US, LAST_US - 999]
    named += [LONGEST_US, LONGEST_US - 775, LONGEST_US - 776, -LONGEST_US // 2]
    drawn = [rng.randrange(-(2**62), LONGEST_US) for _ in range(5_000)]
    drawn += [rng.randrange(FIRST_US, LAST_US) for _ in range(5_000)]
    times_us = named + drawn

    assert in_milliseconds(times_us) == [time_us // 1000 for time_us in times_us]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_no_relation_divides_with_a_slash_which_both_engines_do_in_double(kind: JoinKind) -> None:
    rules = replace(rules_of(read_history(Run(kind.value))), popular=3)

    for one in [*relations(rules, DUCKDB), *relations(rules, SPARK)]:
        assert "/" not in one.text, one.name


def test_a_watermark_is_that_of_the_last_millisecond_before_a_far_time() -> None:
    far = "253402300799.999"
    run = Run("left_outer").batch(f"i1 a {far}, i2 b {far}", f"c1 a {far}", out="i1 c1").batch()
    history = read_history(run)

    assert ask(history).watermarks_ms[1:] == [LAST_MS, LAST_MS]
    assert disagreements(history) == []


@pytest.mark.parametrize("kind", list(JoinKind))
def test_rows_before_1970_with_microseconds_are_as_the_model_has_them(kind: JoinKind) -> None:
    run = Run(kind.value).batch("i1 a -10.000001, i2 b -0.000999", "c1 a -8.5000005, c2 z -0.000001")
    run.batch("i3 a 0.000999, i4 a 0.0015", "c3 a 0.000999, c4 b 0.0015").batch("i5 a -0.0001", "c5 a 0.001")
    history = read_history(run.flush())

    assert ask(history).watermarks_ms == run.naive().watermarks_ms
    assert disagreements(history) == []
