"""The chaos tests in a row: the first run that fails or leaves something ends it, and the document tells of all."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.chaos import __main__ as again
from tests.long import Done, Tally
from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID


def held(part, _log):
    return Done(part.name, 60.0 * int(part.name.split()[1]), Tally({"passed": 30, "failed": 0}))


@pytest.fixture
def in_a_row(monkeypatch, tmp_path):
    """A function that does so many runs as told, in a project of its own; its exit code, and the document's text."""
    monkeypatch.setattr(again.paths, "root", lambda: tmp_path)
    monkeypatch.setattr(again.paths, "state_dir", lambda: tmp_path / "state")
    monkeypatch.setattr(again, "DOCUMENT", tmp_path / "AGAIN.md")
    monkeypatch.setattr(again, "KEPT", tmp_path / "again.jsonl")
    monkeypatch.setattr(again, "machine", lambda: "here")
    monkeypatch.setattr(again, "GONE_S", 0.0)
    monkeypatch.setattr(again.signal, "signal", lambda *_: None)
    monkeypatch.setenv(again.MARK, "")
    monkeypatch.chdir(tmp_path)

    def run(times, one, *words):
        monkeypatch.setattr(again, "run", one)
        code = again.main(["--times", str(times), *words])
        return code, again.DOCUMENT.read_text() if again.DOCUMENT.exists() else None

    return run


def test_runs_that_held_are_told_with_the_times_of_all(in_a_row):
    code, text = in_a_row(3, held)

    assert code == EXIT_VALID
    assert "**3 runs**, 1 min 00 s to 3 min 00 s each, median 2 min 00 s." in text
    assert re.search(r"^- Runs 1 to 3: 2\d\d\d-\d\d-\d\d, here\.$", text, re.MULTILINE)
    assert "| 3 | 3 min 00 s | 30 passed, 0 failed |" in text


def test_a_run_that_fails_is_the_last_and_there_is_no_document(in_a_row, capsys):
    def second_fails(part, log):
        return Done(part.name, 1.0, Tally(problem="exit code 1")) if part.name == "run 2" else held(part, log)

    assert in_a_row(5, second_fails) == (EXIT_INVALID, None)
    assert "run 2 of 5: exit code 1" in capsys.readouterr().out
    assert not again.KEPT.exists()


def interrupted_in(number):
    def one(part, log):
        if part.name == f"run {number}":
            raise KeyboardInterrupt
        return held(part, log)

    return one


def test_after_ctrl_c_the_runs_that_held_count_and_the_rest_follows(in_a_row, monkeypatch, capsys):
    assert in_a_row(4, interrupted_in(3)) == (EXIT_INTERRUPTED, None)
    assert "after 2 of 4 runs, which held; go on with --resume" in capsys.readouterr().out
    monkeypatch.setattr(again, "machine", lambda: "there")

    code, text = in_a_row(4, held, "--resume")

    assert code == EXIT_VALID
    assert re.search(r"^- Runs 1 to 2: \S+, here\.\n- Runs 3 to 4: \S+, there\.$", text, re.MULTILINE)
    assert "| 4 | 4 min 00 s |" in text


def test_without_a_word_a_new_row_begins(in_a_row):
    in_a_row(4, interrupted_in(3))

    assert in_a_row(4, interrupted_in(2)) == (EXIT_INTERRUPTED, None)
    assert len(again.KEPT.read_bytes().splitlines()) == 1


def of_other_code():
    again.KEPT.write_bytes(again.KEPT.read_bytes().replace(b'"code_sha256":"', b'"code_sha256":"0'))


def torn():
    again.KEPT.write_bytes(again.KEPT.read_bytes()[:-5])


@pytest.mark.parametrize(("harm", "said"), [(of_other_code, "of other code"), (torn, "cannot be read")])
def test_a_row_that_cannot_go_on_is_refused_and_stays(harm, said, in_a_row, capsys):
    in_a_row(4, interrupted_in(2))
    harm()
    before = again.KEPT.read_bytes()

    with pytest.raises(SystemExit):
        in_a_row(4, held, "--resume")

    assert said in capsys.readouterr().err
    assert again.KEPT.read_bytes() == before


def test_a_run_that_leaves_a_stack_does_not_hold(in_a_row, tmp_path, capsys):
    def leaves(part, log):
        (tmp_path / "state" / "stack").mkdir(parents=True)
        (tmp_path / "state" / "stack" / "stack.json").touch()
        return held(part, log)

    assert in_a_row(2, leaves) == (EXIT_INVALID, None)
    assert f"left behind: stack {tmp_path / 'state' / 'stack'}" in capsys.readouterr().out


def test_a_process_that_a_run_started_is_seen_for_as_long_as_it_lives():
    marked = {**os.environ, again.MARK: str(os.getpid())}
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env=marked)
    try:
        assert [line for line in again.left() if line.startswith(f"process {sleeper.pid}, ")]
    finally:
        sleeper.kill()
        sleeper.wait()
    assert not [line for line in again.left() if line.startswith(f"process {sleeper.pid}, ")]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--times", "0"], "nothing to run"), (["--", "-k", "deaths"], "selects tests")],
)
def test_what_would_show_less_than_it_says_is_refused(words, said, capsys):
    with pytest.raises(SystemExit):
        again.main(words)
    assert said in capsys.readouterr().err


def test_a_stack_that_is_there_before_is_named_and_stays(in_a_row, tmp_path, capsys):
    (tmp_path / "state" / "stack").mkdir(parents=True)
    (tmp_path / "state" / "stack" / "stack.json").touch()

    with pytest.raises(SystemExit):
        in_a_row(1, held)
    assert "before the first run; end it: `make down`" in capsys.readouterr().err
