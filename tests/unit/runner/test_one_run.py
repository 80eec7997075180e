"""A run that is not possible is refused before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import UsageError
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.evidence import RunDirectory
from tidemark.runner import RunOptions, run

CONTRACT = Contract(
    name="small",
    kind=JoinKind.INNER,
    left=Side("lefts", "l", ("k",), "t", 0),
    right=Side("rights", "r", ("k",), "t", 0),
    bound=Bound(0, 0),
    output=Output("l", "r"),
)


@pytest.fixture
def interpreter(tmp_path: Path) -> Callable[[str], Path]:
    """A function that creates a fake interpreter with a given PySpark version."""

    def make(version: str) -> Path:
        (tmp_path / "jars").mkdir()
        (tmp_path / "jars" / f"spark-connect_2.13-{version}.jar").touch()
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\nprintf '3.11.0\\n{version}\\n-\\n{tmp_path}\\n'\n")
        python.chmod(0o755)
        return python

    return make


def test_the_exactly_once_sink_is_refused_on_a_spark_that_is_too_old(interpreter, tmp_path: Path) -> None:
    options = RunOptions("inner", python=interpreter("4.0.5"))
    with pytest.raises(UsageError, match=r"exactly-once sink does not run on PySpark 4\.0\.5") as error:
        run(options, CONTRACT, RunDirectory(tmp_path))
    assert "--sink spark" in error.value.hint


@pytest.mark.parametrize(("version", "sink"), [("4.0.5", "spark"), ("4.1.4", "exactly-once")])
def test_other_sinks_and_versions_are_accepted(interpreter, tmp_path: Path, version: str, sink: str) -> None:
    options = RunOptions("inner", python=interpreter(version), sink=sink, trace=tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="there is no trace"):
        run(options, CONTRACT, RunDirectory(tmp_path))
