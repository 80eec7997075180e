"""What the command line makes of errors that are none of tidemark's: exit code 4, never the 1 of a finding."""

from __future__ import annotations

import errno

import pytest

from tidemark import cli
from tidemark.errors import EXIT_TESTBED


def ended(monkeypatch, error):
    def fails(**_options):
        raise error

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


def test_an_error_of_the_system_is_three_lines_and_no_finding(monkeypatch, capsys):
    full = OSError(errno.ENOSPC, "No space left on device", "runs/a/output.jsonl")

    assert ended(monkeypatch, full) == EXIT_TESTBED
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: 'runs/a/output.jsonl': No space left on device"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["why", "hint"]


def test_an_error_of_its_own_has_its_traceback_and_is_no_finding(monkeypatch, capsys):
    assert ended(monkeypatch, KeyError("rates")) == EXIT_TESTBED
    said = capsys.readouterr().err
    assert "KeyError: 'rates'" in said
    assert "error: tidemark itself failed: KeyError" in said
