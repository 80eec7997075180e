"""Ctrl-C in a run: whatever goes wrong while it is undone, it was interrupted."""

from __future__ import annotations

import pytest
import typer

from tidemark.cli.run_commands import run_and_show
from tidemark.errors import EXIT_INTERRUPTED, TestbedError
from tidemark.runner import RunOptions, one_run


def fails_on_its_way_out(*_args, **_options):
    try:
        raise KeyboardInterrupt
    finally:
        raise TestbedError("the broker is gone")


def is_interrupted_with_a_note(*_args, **_options):
    error = KeyboardInterrupt()
    error.add_note("TestbedError: the broker is gone")
    raise error


def is_interrupted(*_args, **_options):
    raise KeyboardInterrupt


def fails(*_args, **_options):
    raise TestbedError("the broker is gone")


@pytest.fixture
def interrupted(monkeypatch, tmp_path):
    """The exit code of a run that does that."""

    def outcome(does):
        monkeypatch.setattr(one_run, "run", does)
        with pytest.raises(typer.Exit) as ended:
            run_and_show(RunOptions("inner", run_dir=tmp_path / "run"), as_json=True)
        return ended.value.exit_code

    return outcome


def test_it_says_where_the_evidence_is(interrupted, capsys, tmp_path):
    assert interrupted(is_interrupted) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == f"interrupted; the evidence so far is in {tmp_path / 'run'}\n"


@pytest.mark.parametrize("does", [fails_on_its_way_out, is_interrupted_with_a_note])
def test_what_fails_on_the_way_out_is_told_and_hides_nothing(does, interrupted, capsys):
    assert interrupted(does) == EXIT_INTERRUPTED
    assert "and on the way out: TestbedError: the broker is gone" in capsys.readouterr().err


def test_an_error_of_another_kind_is_one(monkeypatch, tmp_path):
    monkeypatch.setattr(one_run, "run", fails)
    with pytest.raises(TestbedError):
        run_and_show(RunOptions("inner", run_dir=tmp_path / "run"), as_json=True)
