"""What the campaign of red runs says of each, without a stack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.plain_programs import ProgramAnswer, answer_of
from tests.shrunk.shrunk_table import NONE, ShrunkLine, document, read_lines, write_lines
from tests.shrunk.unaffected_spark import EVERY_SPARK, is_as_known, outcome_elsewhere, unaffected_release
from tidemark.oracle.spark.known_defects import (
    CONDITION_BOUNDS_THE_STATE,
    FORMAT_4_MISSES_ROWS,
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
)


def line(**changes) -> ShrunkLine:
    given = {
        "name": "a run", "finding": "lost_rows of a pair", "rows": (500, 2), "faults": (0, 0), "slices": (3, 1),
        "bytes": (9_000, 90), "at_most": (6, 180.0), "trials": 20, "told": 4, "seconds": 33.3, "red": (5, 5),
        "test": "red", "repaired": NONE, "repro": "red", "versions": {"spark": "4.2.0", "kafka": "4.3.1"},
    }  # fmt: skip
    return ShrunkLine(**{**given, **changes})


@pytest.mark.parametrize(
    ("defect", "release"),
    [
        (LEFT_SEMI_LOSES_SAME_BATCH_ROWS, "4.1.4"),
        (FORMAT_4_MISSES_ROWS, "4.3.0"),
        (CONDITION_BOUNDS_THE_STATE, None),
    ],
)
def test_the_newest_spark_without_a_defect_that_knows_what_it_is_about_runs_its_program(defect, release):
    assert unaffected_release(defect) == release


def test_without_another_spark_there_is_a_dash_with_its_reason(tmp_path):
    program = tmp_path / "repro.py"
    assert outcome_elsewhere(CONDITION_BOUNDS_THE_STATE, program, 9) == NONE  # there is no program
    program.touch()

    assert outcome_elsewhere(CONDITION_BOUNDS_THE_STATE, program, 9) == EVERY_SPARK
    assert outcome_elsewhere(None, program, 9) == NONE


@pytest.mark.parametrize(
    ("outcome", "known"),
    [
        ("green on 4.1.4", True),
        (EVERY_SPARK, True),
        (NONE, True),
        ("red on 4.1.4", False),
        ("failed on 4.1.4: …", False),
    ],
)
def test_a_program_is_green_there_or_there_is_none(outcome, known):
    assert is_as_known(outcome) is known


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("print('expected: 1')", "green"),
        ("print('expected: 1'); raise SystemExit(1)", "red"),
        ("print('expected: 1'); raise SystemExit(2)", "failed"),
        ("raise ValueError('no Java')", "failed"),
    ],
)
def test_what_a_program_answers_is_what_it_prints_and_how_it_ends(text, answer, tmp_path):
    program = tmp_path / "repro.py"
    program.write_text(text)

    found = answer_of(program, Path(sys.executable), 60)

    assert found.answer == answer
    assert ("no Java" in found.end) is ("no Java" in text)


def test_a_program_that_does_not_end_has_failed(tmp_path):
    program = tmp_path / "repro.py"
    program.write_text("input_never_comes = __import__('threading').Event().wait()")

    assert answer_of(program, Path(sys.executable), 0.5) == ProgramAnswer(
        "failed", "", "did not end within 0.5 s"
    )


def test_the_document_says_what_was_run_what_is_not_as_asked_and_what_was_not_run(tmp_path):
    lines = [line(other_spark="green on 4.1.4"), line(name="another", problems=["it took 400 s"])]
    write_lines(tmp_path / "lines.jsonl", lines)
    assert list(read_lines(tmp_path / "lines.jsonl").values()) == lines

    text = document(lines, ["a third"])

    assert "| a run | lost_rows of a pair | 500 → 2 | — |" in text
    assert "| red | — | red | green on 4.1.4 |" in text
    assert "- another: it took 400 s" in text
    assert "## Not run yet\n\n- a third" in text


def test_what_a_slow_machine_had_more_of_is_said_beside_what_was_asked_for():
    assert "| 6 rows, 180 s × 2.4 |" in document([line(times_as_slow=2.4)], [])
    assert "| 6 rows, 180 s |" in document([line()], [])
