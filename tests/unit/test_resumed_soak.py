"""A soak that goes on after Ctrl-C, or on a stack that was started again: nothing of its journal is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.test_soak import fault, ran, stack_of
from tidemark.campaigns import soak as soaking
from tidemark.campaigns.soak import SoakOptions
from tidemark.errors import EXIT_INVALID, TestbedError, UsageError


def journalled(monkeypatch, tmp_path, runs):
    """The options that go on with a soak that was interrupted after these runs, each of a minute."""
    options = SoakOptions(Path("runs"), minutes=60.0, log=tmp_path / "soak.jsonl")

    def given(_options, _stack, number, _unmet):
        if number == len(runs):
            raise KeyboardInterrupt
        return runs[number]

    monkeypatch.setattr(soaking, "_run", given)
    assert not soaking.soak(options, stack_of("broker"), lambda *_: None).over
    lines = [json.loads(line) for line in options.log.read_text().splitlines()]
    timed = [json.dumps({**line, "elapsed_s": 60.0 * number}) for number, line in enumerate(lines, 1)]
    options.log.write_text("\n".join(timed) + "\n")
    return replace(options, resume=True)


@pytest.mark.parametrize("minutes", [3.0, 60.0])
def test_a_soak_that_goes_on_has_all_runs_of_its_journal_however_long_they_took(
    monkeypatch, tmp_path, minutes
):
    runs = [ran(number, [fault()]) for number in range(6)]
    runs[5] = ran(5, [fault()], "INVALID", findings={"lost_rows": 1})
    options = replace(journalled(monkeypatch, tmp_path, runs), minutes=minutes)

    done = soaking.soak(options, stack_of("broker"), lambda *_: None)

    assert [one.number for one in done.runs] == [0, 1, 2, 3, 4, 5]
    assert (done.exit_code, done.over) == (EXIT_INVALID, minutes == 3.0)


def test_a_run_during_which_the_stack_was_stopped_is_run_again_by_the_soak_that_goes_on(
    monkeypatch, tmp_path
):
    def fails(*_args, **_options):
        raise TestbedError("no broker answers")

    monkeypatch.setattr(soaking, "run", fails)
    options = SoakOptions(tmp_path, log=tmp_path / "soak.jsonl")
    done = soaking.soak(options, stack_of(), lambda *_: None)
    assert (done.runs, done.gone) == ([], True)

    monkeypatch.setattr(soaking, "_run", lambda _options, _stack, number, _unmet: ran(number, [fault()]))
    again = replace(options, resume=True, minutes=0.0)
    done = soaking.soak(again, stack_of("broker"), lambda *_: None)
    assert ([one.number for one in done.runs], done.exit_code) == ([0], 0)


def test_a_soak_does_not_go_on_on_another_stack(monkeypatch, tmp_path):
    options = journalled(monkeypatch, tmp_path, [ran(0, [fault()])])
    with pytest.raises(UsageError, match="is of other code, packages or arguments"):
        soaking.soak(options, stack_of("broker", brokers=3), lambda *_: None)


def test_a_soak_that_is_refused_leaves_the_journal_that_is_there(monkeypatch, tmp_path):
    options = replace(journalled(monkeypatch, tmp_path, [ran(0, [fault()])]), resume=False, only=("leader",))
    before = options.log.read_bytes()
    with pytest.raises(UsageError, match="leader can be injected into no run"):
        soaking.soak(options, stack_of("broker"), lambda *_: None)
    assert options.log.read_bytes() == before
