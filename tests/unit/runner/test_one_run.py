"""A run that is not possible is refused before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import UsageError
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.storage import store_trace
from tidemark.formats.trace import Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.runner import RunOptions, one_run, run, run_options, run_pipeline

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


TOPICS = {"lefts": TopicSpec(), "rights": TopicSpec(), "others": TopicSpec()}


def trace_of(path, records=3):
    header = Header(tidemark_trace=2, pace="backlog", topics=TOPICS, slices=1)
    names = list(TOPICS)
    write_trace(path, header, (Record(topic=names[i % 3], arrival_ms=i, value="{}") for i in range(records)))
    return path


@pytest.mark.parametrize("stored", ["jsonl", "parquet"])
def test_records_that_no_input_reads_are_left_out_of_a_trace(tmp_path, stored):
    trace = store_trace(trace_of(tmp_path / "trace.jsonl"), stored)

    kept = one_run._keep_topics(trace, {"lefts", "rights"})

    with TraceReader(kept) as reader:
        assert set(reader.header.topics) == {record.topic for record in reader} == {"lefts", "rights"}
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


@pytest.mark.parametrize(
    ("given", "evidence_format", "most", "stored"),
    [
        ("jsonl", "auto", 3, "jsonl"),
        ("jsonl", "auto", 2, "parquet"),
        ("parquet", "auto", 3, "parquet"),
        ("parquet", "jsonl", 2, "jsonl"),
        ("jsonl", "parquet", 3, "parquet"),
    ],
)
def test_a_trace_is_stored_as_the_run_was_asked_to(
    tmp_path, monkeypatch, given, evidence_format, most, stored
):
    monkeypatch.setattr(run_options, "PARQUET_RECORDS", most)
    trace = store_trace(trace_of(tmp_path / "trace.jsonl"), given)

    found = one_run._stored(RunOptions("inner", evidence_format=evidence_format), trace)

    assert found == tmp_path / f"trace.{stored}"
    assert [path.name for path in tmp_path.iterdir()] == [found.name]


def test_a_checkpoint_is_not_kept_of_a_run_that_is_redacted(tmp_path: Path) -> None:
    options = RunOptions("left_outer", run_dir=tmp_path / "run", redact=True, keep_checkpoint=True)
    with pytest.raises(UsageError, match="a checkpoint cannot be redacted"):
        run_pipeline(options)
    assert not (tmp_path / "run").exists()
