"""The long run: how it reads what its parts counted, and that it writes its document only if all of them held."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from tests import long
from tests.matrix.cells import cells
from tests.matrix.running import Outcome, campaign
from tests.mutants.score import Line
from tests.repository import tree
from tidemark.errors import UsageError

KILLED = Line("sink", "drops", "inner", "lost_rows", "killed", "killed", "survived")
ENDS_S = 60.0
"""Calibration: a Python starts and ends within 1 s; a busy machine takes ten times that."""
SURVIVED = Line("sink", "doubles", "inner", "duplicate_rows", "survived", "killed", "survived")


def case(inside="", lines=()):
    properties = "".join(f'<property name="mutant" value="{list(line)}"/>' for line in lines)
    return f'<testcase classname="tests.e2e.test_x" name="t"><properties>{properties}</properties>{inside}</testcase>'


def junit(path, *cases):
    path.write_text(f'<testsuites><testsuite name="pytest">{"".join(cases)}</testsuite></testsuites>')
    return path


def matrix_log(path, said):
    outcomes = [
        Outcome(cell=(str(cell.kind), cell.bound, cell.state, cell.no_data), said=word)
        for cell, word in zip(cells(), said, strict=False)
    ]
    journal = campaign(journal=path)
    for one in outcomes:
        journal.record(str(one.cell), one)
    return path


def three(path):
    return long.Tally({"passed": 3})


def two_failed(path):
    return long.Tally(problem="2 tests failed")


def part(tmp_path, name, code="", read=three):
    return long.Part(name, f"the {name}", (sys.executable, "-c", code), tmp_path / name, read)


def test_the_matrix_is_counted_by_what_was_said_of_its_cells(tmp_path):
    said = ["VALID", "unsupported", "known defect"] + ["VALID"] * (len(cells()) - 3)
    tally = long.read_matrix(matrix_log(tmp_path / "log", said))

    assert tally.problem == ""
    assert tally.counts == {
        "runs": len(cells()) - 1, "`VALID`": len(cells()) - 2, "`INVALID` by a known defect": 1, "failed": 0,
        "cells unsupported": 1,
    }  # fmt: skip


def test_a_matrix_that_stopped_halfway_or_failed_does_not_hold(tmp_path):
    half = matrix_log(tmp_path / "half", ["VALID"] * 10)
    assert long.read_matrix(half).problem == f"{len(cells()) - 10} cells were not run"
    failed = matrix_log(tmp_path / "failed", ["FAILED"] + ["VALID"] * (len(cells()) - 1))
    assert long.read_matrix(failed).problem == "1 runs failed"


def test_tests_are_counted_as_pytest_writes_them(tmp_path):
    tally = long.read_junit(
        junit(
            tmp_path / "x",
            case(),
            case('<failure message="a"/>'),
            case("<error/>"),
            case('<skipped message="no"/>'),
        )
    )

    assert tally.counts == {"passed": 1, "failed": 2, "skipped": 1}
    assert tally.notes == ("skipped, 1: no",)
    assert tally.problem == "2 tests failed"


def test_tests_that_were_all_skipped_do_not_hold(tmp_path):
    assert long.read_junit(junit(tmp_path / "x", case("<skipped/>"))).problem == "no test passed"
    assert long.read_junit(junit(tmp_path / "x")).problem == "no test passed"


def test_a_mutant_is_counted_once_however_many_joins_it_harms(tmp_path):
    lines = [KILLED, KILLED._replace(join="left_outer"), SURVIVED]
    tally = long.read_mutants(junit(tmp_path / "x", case(lines=lines[:2]), case(lines=lines[2:])))

    assert tally.counts == {"mutants killed": 1, "passed": 2, "failed": 0, "skipped": 0}
    assert tally.notes[0] == "tidemark: 2 of 3 killed, 1 survived, 0 false positives"
    assert long.read_mutants(junit(tmp_path / "x", case())).problem == "no mutant was killed"


def test_what_pytest_really_writes_is_read(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        f"def test_a(request): request.node.user_properties.append(('mutant', {tuple(KILLED)}))\n"
        "@pytest.mark.skip(reason='not here')\ndef test_b(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", "--junit-xml=x", "test_it.py"]
    subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"TIDEMARK_PYTEST": "here", "PYTEST_ADDOPTS": ""},
        check=True,
        capture_output=True,
    )

    tally = long.read_mutants(tmp_path / "x")
    assert tally.counts == {"mutants killed": 1, "passed": 1, "failed": 0, "skipped": 1}
    assert "skipped, 1: not here" in tally.notes


def test_a_part_runs_and_is_kept_and_passed_on(tmp_path, capfd):
    done = long.run(
        part(tmp_path, "one", "import sys; print('out'); print('err', file=sys.stderr)"), tmp_path / "log"
    )

    assert (done.name, done.problem, done.counted) == ("one", "", "3 passed")
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
    assert sorted(capfd.readouterr().out.split()) == ["err", "out"]


@pytest.mark.parametrize(
    ("code", "read", "problem"),
    [
        ("raise SystemExit(5)", three, "exit code 5"),
        ("", two_failed, "2 tests failed"),
        ("", long.read_junit, "it left no "),
        ("import sys; open(sys.argv[1], 'w')", long.read_junit, " cannot be read: "),
    ],
)
def test_the_document_is_written_only_if_all_parts_held(tmp_path, capsys, code, read, problem):
    document = tmp_path / "LONG.md"
    broken = part(tmp_path, "broken", code, read)
    broken = long.Part(broken.name, broken.what, (*broken.argv, str(broken.counted)), broken.counted, read)

    assert long.carry_out([broken, part(tmp_path, "after")], tmp_path, document) == 1
    assert not document.exists()
    said = capsys.readouterr().out
    assert problem in said
    assert "after " in said.partition("== summary")[2]


def test_the_document_has_each_part_with_its_command_time_and_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(long, "machine", lambda: "2 cores")
    document = tmp_path / "LONG.md"

    def noted(path):
        return long.Tally({"passed": 1200}, ("skipped, 1: no engine",))

    chosen = [part(tmp_path, "one"), part(tmp_path, "two", read=noted)]

    assert long.carry_out(chosen, tmp_path, document) == 0
    text = re.sub(r"\b\d+ s\b", "N s", document.read_text())
    assert "Made by `make long`" in text
    assert "2 cores: **N s**" in text
    assert "| one | the one | N s | 3 passed |" in text
    assert "| two | the two | N s | 1,200 passed |" in text
    assert "- two: skipped, 1: no engine" in text
    assert "- one: `python -c ''`" in text


def test_a_choice_of_parts_writes_no_document_and_counts_of_before_prove_nothing(tmp_path):
    junit(tmp_path / "old", case())
    old = part(tmp_path, "old", read=long.read_junit)

    assert long.carry_out([old], tmp_path, None) == 1
    assert not (tmp_path / "old").exists()


def test_a_part_that_held_with_the_same_code_is_not_run_again_if_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(long, "machine", lambda: "2 cores")
    document, ran = tmp_path / "LONG.md", tmp_path / "ran"
    code = f"open({str(ran)!r}, 'a').write('x')"
    chosen = [part(tmp_path, "one", code), part(tmp_path, "two", code, two_failed)]
    repaired = [chosen[0], part(tmp_path, "two", code)]

    assert long.carry_out(chosen, tmp_path, document) == 1
    assert ran.read_text() == "xx"
    assert long.carry_out(repaired, tmp_path, document, resume=True) == 0
    assert ran.read_text() == "xxx"
    assert "the one: python -c" in capsys.readouterr().out
    assert "- one: held in an earlier run, with the same code" in document.read_text()
    assert "- two: held" not in document.read_text()

    assert long.carry_out(repaired, tmp_path, document) == 0
    assert ran.read_text() == "xxxxx"
    monkeypatch.setattr(long.paths, "code_sha256", lambda: "another")
    with pytest.raises(UsageError, match="is of other code"):
        long.carry_out(repaired, tmp_path, document, resume=True)


@pytest.mark.parametrize("words", [["-k", "late"], ["-mlong"], ["tests/e2e"]])
def test_words_that_select_tests_are_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        long.main(["--", *words])
    assert ended.value.code == 2
    assert "selects tests" in capsys.readouterr().err


def test_an_interrupt_ends_the_part_in_order_and_says_what_was_done(tmp_path):
    child = (
        "import signal, sys, threading\n"
        "asked = threading.Event()\n"
        "signal.signal(signal.SIGINT, lambda *_: asked.set())\n"
        "print('ready', flush=True)\n"
        "asked.wait()\n"
        "print('ended in order', flush=True)\n"
    )
    program = (
        "import signal, sys\nfrom pathlib import Path\nfrom tests import long\n"
        # Where the tests run in the background of a shell, an interrupt is ignored, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"folder, tally = Path({str(tmp_path)!r}), long.Tally({{'passed': 3}})\n"
        "def part(name, code):\n"
        "    return long.Part(name, name, (sys.executable, '-c', code), folder / name, lambda path: tally)\n"
        f"chosen = [part('one', ''), part('two', {child!r}), part('three', '')]\n"
        "sys.exit(long.carry_out(chosen, folder, folder / 'LONG.md'))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tree.ROOT, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    too_late = threading.Timer(ENDS_S, running.kill)
    too_late.start()
    with running.stdout as printed:
        for line in printed:
            if line == "ready\n":
                running.send_signal(signal.SIGINT)
                break
        rest = printed.read()
    too_late.cancel()

    assert running.wait() == 130
    assert rest.startswith("ended in order\n== summary\none ")
    assert [line.split()[-3:] for line in rest.splitlines()[3:5]] == [
        ["two", "-", "interrupted"],
        ["-", "not", "begun"],
    ]
    assert not (tmp_path / "LONG.md").exists()
