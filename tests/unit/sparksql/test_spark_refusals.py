"""What Spark cannot judge, and a Spark that is not there, are errors that say what to do; no JVM is started."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.oracle.test_large import drawn, write
from tidemark import public_api
from tidemark.cli import app
from tidemark.errors import JavaError, TestbedError, UsageError
from tidemark.formats.storage import store_run
from tidemark.oracle import judgement as judging
from tidemark.oracle.large import reduction
from tidemark.sparksql import spark_sessions


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in Parquet; each run is large."""
    write(drawn(3), tmp_path, random.Random(1))
    store_run(tmp_path, "parquet")
    monkeypatch.setattr(judging, "reduced", partial(reduction.reduced, large=-1))
    monkeypatch.setattr(spark_sessions, "current", lambda: None)
    return tmp_path


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "sc://127.0.0.1:1/;user_id=me"]
)
def test_a_master_that_does_not_answer_is_named(master: str, run: Path) -> None:
    with pytest.raises(TestbedError, match=r"no Spark answers at 127\.0\.0\.1:1") as caught:
        public_api.check(run, engine="spark", spark_master=master)

    assert "--spark-master" in caught.value.hint


def test_a_master_with_a_port_that_is_none_is_wrong_usage(run: Path) -> None:
    with pytest.raises(UsageError, match="is no master URL"):
        public_api.check(run, engine="spark", spark_master="spark://here:port")


def test_without_java_there_is_no_local_spark(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(run / "no-java"))

    with pytest.raises(JavaError, match="JAVA_HOME"):
        public_api.check(run, engine="spark")


def test_evidence_in_json_lines_is_refused_with_the_command_that_converts_it(run: Path) -> None:
    store_run(run, "jsonl")

    with pytest.raises(UsageError, match=r"trace\.jsonl' is no Parquet file") as caught:
        public_api.check(run, engine="spark", spark_master="spark://127.0.0.1:1")

    assert caught.value.hint.startswith(f"`tidemark convert {run} --to parquet`")


def test_a_setting_that_is_none_of_spark_is_wrong_usage(run: Path) -> None:
    with pytest.raises(UsageError, match=r"'executor\.memory' is no setting of Spark"):
        public_api.check(run, engine="spark", spark_conf=["executor.memory"])


def test_a_small_run_is_judged_without_spark(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "reduced", reduction.reduced)

    wanted = public_api.check(run)

    assert public_api.check(run, engine="spark", spark_master="spark://127.0.0.1:1").verdict == wanted.verdict


def test_an_engine_that_is_unknown_and_a_master_without_spark_are_wrong_usage(run: Path) -> None:
    with pytest.raises(UsageError, match="there is no engine 'flink'"):
        public_api.check(run, engine="flink")
    with pytest.raises(UsageError, match="the engine is duckdb"):
        public_api.check(run, spark_master="local[2]")


def test_the_command_passes_master_and_settings_on(run: Path) -> None:
    options = [
        "--engine",
        "spark",
        "--spark-master",
        "spark://127.0.0.1:1",
        "--spark-conf",
        "spark.executor.memory=1g",
    ]

    done = CliRunner().invoke(app, ["check", str(run), *options])

    assert isinstance(done.exception, TestbedError)
