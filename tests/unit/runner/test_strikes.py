"""When executors are killed is the seed's choice alone."""

from __future__ import annotations

import random

import pytest

from tidemark.chaos.executors import plan_strikes
from tidemark.runner import RunOptions


def test_the_same_seed_strikes_at_the_same_moments():
    assert plan_strikes(random.Random(5), 3, 20) == plan_strikes(random.Random(5), 3, 20)
    assert plan_strikes(random.Random(5), 3, 20) != plan_strikes(random.Random(6), 3, 20)


@pytest.mark.parametrize(("count", "batches"), [(0, 10), (3, 20), (5, 3), (2, 1)])
def test_all_strikes_are_planned_in_order_and_none_before_the_second_batch(count, batches):
    strikes = plan_strikes(random.Random(1), count, batches)

    assert len(strikes) == count
    assert [strike.batch for strike in strikes] == sorted(strike.batch for strike in strikes)
    assert all(1 <= strike.batch <= max(batches - 1, 1) for strike in strikes)


def test_the_command_of_a_run_says_all_that_decides_it(tmp_path):
    generated = RunOptions("inner", seed=4, impressions=99, pace="backlog", generator=("--slices", "4"))
    replayed = RunOptions("inner", seed=4, trace=tmp_path / "t.jsonl", kill_executors=2)

    assert generated.command() == (
        "tidemark run inner --seed 4 --impressions 99 --generate '--slices 4' --pace backlog"
    )
    assert replayed.command() == f"tidemark run inner --seed 4 --trace {tmp_path}/t.jsonl --kill-executors 2"
