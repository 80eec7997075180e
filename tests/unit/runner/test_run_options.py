"""The command of a run reproduces it."""

from __future__ import annotations

from tidemark.runner import RunOptions


def test_the_command_of_a_run_has_every_option_that_affects_it(tmp_path):
    generated = RunOptions("inner", seed=4, impressions=99, pace="backlog", generator=("--slices", "4"))
    replayed = RunOptions(
        "inner", seed=4, trace=tmp_path / "t.jsonl", faults="executor*2,driver@written", sink="spark"
    )

    assert generated.command() == (
        "tidemark run inner --seed 4 --impressions 99 --generate '--slices 4' --pace backlog"
    )
    assert replayed.command() == (
        f"tidemark run inner --seed 4 --trace {tmp_path}/t.jsonl --sink spark --faults 'executor*2,driver@written'"
    )
