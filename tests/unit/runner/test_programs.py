"""What an error says of a program that has ended by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidemark.errors import TestbedError, UsageError
from tidemark.runner import programs

STACK = "".join(f"\tat org.apache.spark.Class.method{line}\n" for line in range(200))
REFUSED = f"""Traceback (most recent call last):
  File "query.py", line 84, in open_session
pyspark.errors.AnalysisException: [CANNOT_MODIFY_CONFIG] Cannot modify the Spark config: "spark.network.timeout".

JVM stacktrace:
org.apache.spark.sql.AnalysisException
{STACK}"""


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """The error of a program that prints a text and ends."""

    def error(printed):
        (tmp_path / "printer.py").write_text(f"import sys\nsys.stderr.write({printed!r})\nsys.exit(1)\n")
        monkeypatch.setattr(programs, "program_environment", lambda *_: {"PYTHONPATH": str(tmp_path)})
        program = programs.Program(["printer"], tmp_path / "log", python=Path(sys.executable))
        with program, pytest.raises((TestbedError, UsageError)) as raised:
            program.answer(60.0)
        return raised.value

    return error


def test_an_exception_of_spark_is_quoted_without_the_stack_of_the_server(ended):
    error = ended(REFUSED.replace("CANNOT_MODIFY_CONFIG", "TABLE_NOT_FOUND"))

    assert isinstance(error, TestbedError)
    assert error.detail.splitlines()[-1].startswith("pyspark.errors.AnalysisException: [TABLE_NOT_FOUND]")


def test_a_setting_that_is_not_one_of_a_session_is_named(ended):
    error = ended(REFUSED)

    assert isinstance(error, UsageError)
    assert '"spark.network.timeout"' in error.detail
    assert "--conf is for settings of a session" in error.hint


def test_what_another_program_has_printed_before_into_the_same_log_is_not_quoted(ended, tmp_path):
    (tmp_path / "log").write_text("error: of another\n\nJVM stacktrace:\n")

    assert ended("out of memory\n").detail == "out of memory"


def test_an_exception_that_was_handled_before_is_not_the_one_that_is_quoted(ended):
    last = "Traceback (most recent call last):\n  File 'job.py', line 1\nValueError: no such column\n"
    error = ended(f"{REFUSED}\nerror: one row was left out\n{STACK}{last}")

    assert isinstance(error, TestbedError)
    assert error.detail.splitlines()[-1] == "ValueError: no such column"


def test_a_driver_that_was_lost_is_one_whatever_was_logged_before(ended):
    last = "Traceback (most recent call last):\npyspark.errors.Lost: [NO_ACTIVE_SESSION] gone\n"
    error = ended(f"UserWarning: [CANNOT_MODIFY_CONFIG] ignored\n{REFUSED}\n{last}")

    assert isinstance(error, TestbedError)
    assert error.message == "the Spark driver was lost while the query ran"
