"""A table that Spark writes, killed in the middle of a batch: exactly the rows that count, each with its batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.table_query import ROWS, START_MS, STEP_MS
from tests.support.delta import delta_jars
from tests.support.environment import classic_environment
from tidemark.formats.events import write_time
from tidemark.processes import tail
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.output_tables import OutputTable, open_table
from tidemark.stack.install.toolchain import find_java
from tidemark.waiting import wait_until

PROGRAM = Path(__file__).with_name("table_query.py")
UP_S = 300
"""Calibration: a session and its first batches take 10 to 20 s; ten times that on a machine with ten times the load."""
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Most of a short-lived JVM's time is compilation."""
IN_DELTA = [
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors=true",
    "spark.databricks.delta.snapshotPartitions=1",
    "spark.sql.shuffle.partitions=2",
]
COMPACT = "spark.sql.streaming.fileSink.log.compactInterval=3"
MICROS = "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"


class Written:
    """What a query has written so far."""

    def __init__(self, folder: Path, form: str) -> None:
        self.form = form
        self.output = folder / "out put"
        self.checkpoint = Checkpoint(folder / "checkpoint")
        self.log = folder / "query.log"
        self.killed_in = -1

    @contextmanager
    def running(self, *pairs: str) -> Iterator[subprocess.Popen[bytes]]:
        """The query runs; it is killed at the end, with its JVM."""
        places = [self.form, str(self.output), str(self.checkpoint.path)]
        argv = [sys.executable, str(PROGRAM), *places, QUICK, *pairs]
        home = find_java().resolve().parents[1]
        with self.log.open("ab") as log:
            program = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**classic_environment(), "JAVA_HOME": str(home)},
            )  # fmt: skip
        try:
            yield program
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()

    def await_batch(self, program: subprocess.Popen[bytes], batch: int) -> None:
        """Wait until a batch is committed."""
        wait_until(
            lambda: batch in self.checkpoint.committed(),
            UP_S,
            lambda: f"batch {batch} to be committed: {tail(self.log)}",
            unless=lambda: self.must_run(program),
        )

    def must_run(self, program: subprocess.Popen[bytes]) -> None:
        assert program.poll() is None, tail(self.log)

    def await_half_written(self, program: subprocess.Popen[bytes]) -> int:
        """Wait until one task of a batch has written its file and the other has not; returns the batch."""

        def half_written() -> int | None:
            batch = self.checkpoint.running()
            done = {path.name for path in self.whole_files()} - self.named()
            return batch if batch is not None and done else None

        return wait_until(
            half_written, UP_S, lambda: f"a batch to be half written: {tail(self.log)}",
            unless=lambda: self.must_run(program), poll_s=0.01,
        )  # fmt: skip

    def named(self) -> set[str]:
        return {file.path.name for file in open_table(self.output).files}

    def whole_files(self) -> list[Path]:
        return [path for path in self.output.glob("shop=*/*.parquet") if is_whole(path)]

    def rows_of_all_files(self) -> int:
        return sum(pq.read_metadata(path).num_rows for path in self.whole_files())


def is_whole(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def must_have_each_row_once(table: OutputTable, query: str, *, but: tuple[int, ...] = ()) -> int:
    """The rows of a table are those of its batches but some, each with query and batch; returns the last batch."""
    values, last = [], 0
    for record in table.records(query):
        row = json.loads(record.value)
        batch = row["value"] // ROWS
        assert record.headers == [("query", query), ("batch", str(batch))]
        number = row["value"]
        expected = {
            "value": number,
            "id": f"r{number}",
            "at": write_time((START_MS + batch * STEP_MS) * 1000),
        }
        expected |= {"shop": f"a b:{number % 2}"} | ({"other": number} if number % 3 else {})
        assert row == expected
        values.append(number)
        last = max(last, batch)
    assert sorted((*values, *but)) == list(range(ROWS * (last + 1)))
    return last


@pytest.fixture(scope="module")
def sink(tmp_path_factory) -> Written:
    """The file sink, killed in the middle of a batch and started again; its log is compacted meanwhile."""
    written = Written(tmp_path_factory.mktemp("sink"), "parquet")
    with written.running("slow.ms=100", COMPACT) as program:
        written.await_batch(program, 1)
        written.killed_in = written.await_half_written(program)
    with written.running(COMPACT, MICROS) as program:
        written.await_batch(program, written.killed_in + 2)
    return written


def test_rows_of_the_killed_attempt_do_not_count(sink):
    table = open_table(sink.output)
    last = must_have_each_row_once(table, sink.checkpoint.query_id())
    assert sink.killed_in < last
    assert sink.rows_of_all_files() > ROWS * (last + 1)
    assert any(path.suffix == ".compact" for path in (sink.output / "_spark_metadata").iterdir())
    assert table.knows_batches
    assert not table.removals


def test_times_are_the_same_in_both_forms_that_spark_writes(sink):
    kinds = {
        pq.ParquetFile(file.path).schema.column(2).physical_type for file in open_table(sink.output).files
    }
    assert kinds == {"INT64", "INT96"}


@pytest.fixture(scope="module")
def delta(tmp_path_factory) -> Written:
    """The same with Delta: before the second start one partition is rewritten, and a row of the other deleted."""
    written = Written(tmp_path_factory.mktemp("delta"), "delta")
    settings = [*IN_DELTA, f"spark.driver.extraClassPath={os.pathsep.join(map(str, delta_jars()))}"]
    with written.running("slow.ms=100", *settings) as program:
        written.await_batch(program, 1)
        written.killed_in = written.await_half_written(program)
    table = f"delta.`{written.output}`"
    sql = f"OPTIMIZE {table} WHERE shop = 'a b:0';DELETE FROM {table} WHERE value = 1"
    with written.running(f"sql={sql}", *settings) as program:
        written.await_batch(program, written.killed_in + 1)
    return written


@pytest.mark.long
def test_a_delta_table_has_each_row_with_its_batch_though_it_was_rewritten(delta):
    table = open_table(delta.output)
    last = must_have_each_row_once(table, delta.checkpoint.query_id(), but=(1,))
    assert delta.killed_in < last
    assert table.knows_batches
    assert [removal.split("(")[1] for removal in table.removals] == ["DELETE) removed rows or replaced them"]
    assert [file.kept.count(False) for file in table.files if file.kept is not None] == [1]
    commits = sorted((delta.output / "_delta_log").glob("*.json"))
    assert any('"OPTIMIZE"' in path.read_text() for path in commits)


@pytest.mark.long
def test_files_of_the_killed_attempt_are_in_no_commit_of_delta(delta):
    named = "".join(path.read_text() for path in (delta.output / "_delta_log").glob("*.json"))
    assert [path.name for path in delta.whole_files() if path.name not in named]
