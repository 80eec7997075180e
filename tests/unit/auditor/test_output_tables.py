"""The output of Spark's file sink: written by hand, file by file, and read back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.errors import EXIT_USAGE, BrokenTable
from tidemark.formats.events import read_time_us
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle.input.output_rows import header_problem
from tidemark.sparkfiles.output_tables import open_table, output_kind, read_delta, read_parquet_sink

HERE = "file:///data/elsewhere/out"


def write(folder: Path, name: str, *ids: str, **columns: list) -> str:
    """A data file; returns its name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.string()), **columns}), path)
    return name


def log(folder: Path, batch: int | str, *files: str, action: str = "add", base: str = HERE) -> None:
    """The log of a batch, as ``FileStreamSinkLog`` writes it."""
    lines = ["v1"]
    for name in files:
        entry = {
            "path": f"{base}/{name}",
            "size": 1,
            "isDir": False,
            "modificationTime": 1,
            "blockReplication": 1,
        }
        lines.append(json.dumps({**entry, "blockSize": 33554432, "action": action}))
    path = folder / "_spark_metadata" / str(batch)
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))


def sink(folder: Path, batches: int, *, compact: int = 0) -> None:
    """A sink that wrote a file in each batch, with one row named like the batch; each ``compact``-th log is compact."""
    names = []
    for batch in range(batches):
        names.append(write(folder, f"part-0-{batch}.parquet", f"row{batch}"))
        if compact and (batch + 1) % compact == 0:
            log(folder, f"{batch}.compact", *names)
        else:
            log(folder, batch, names[-1])


def came(folder: Path) -> dict[str, str | None]:
    """The batch of each row by its id."""
    records = list(read_parquet_sink(folder))
    found = {json.loads(record.value)["id"]: record.header("batch") for record in records}
    assert len(found) == len(records)
    return found


def test_a_row_has_the_batch_of_its_file(tmp_path):
    write(tmp_path, "part-0-a.parquet", "i1", "i2")
    write(tmp_path, "part-1-b.parquet")
    write(tmp_path, "part-0-c.parquet", "i3")
    log(tmp_path, 0, "part-0-a.parquet", "part-1-b.parquet")
    log(tmp_path, 1)
    log(tmp_path, 2, "part-0-c.parquet")
    assert came(tmp_path) == {"i1": "0", "i2": "0", "i3": "2"}


def test_the_headers_are_those_that_the_judge_reads(tmp_path):
    sink(tmp_path, 1)
    (record,) = read_parquet_sink(tmp_path, "b2f0")
    assert record.headers == [("query", "b2f0"), ("batch", "0")]
    assert header_problem(record) == ""


def test_the_records_are_lines_of_evidence(tmp_path):
    sink(tmp_path, 3)
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.write_lines("output", read_parquet_sink(tmp_path, "b2f0"))
    assert list(directory.output()) == list(read_parquet_sink(tmp_path, "b2f0"))


def test_files_of_failed_attempts_do_not_count(tmp_path):
    sink(tmp_path, 2)
    write(tmp_path, "part-0-failed.parquet", "row1")
    write(tmp_path, "part-0-running.parquet", "row2")
    (tmp_path / "_spark_metadata" / ".2.3f1e.tmp").write_text("v1")
    (tmp_path / "_spark_metadata" / ".1.crc").write_bytes(b"crc\0")
    assert came(tmp_path) == {"row0": "0", "row1": "1"}


def test_a_sink_that_has_committed_nothing_is_empty(tmp_path):
    (tmp_path / "_spark_metadata").mkdir()
    write(tmp_path, "part-0-running.parquet", "row0")
    assert came(tmp_path) == {}


def test_a_compact_log_takes_the_place_of_those_before_it(tmp_path):
    sink(tmp_path, 8, compact=3)
    table = open_table(tmp_path)
    assert came(tmp_path) == {f"row{batch}": str(batch) for batch in range(8)}
    assert table.knows_batches
    assert not table.notes
    assert not table.removals


def test_the_batch_of_a_file_is_known_while_its_own_log_is_there(tmp_path):
    sink(tmp_path, 8, compact=3)
    for batch in ("0", "1"):
        (tmp_path / "_spark_metadata" / batch).unlink()
    table = open_table(tmp_path)
    first = {"row0": None, "row1": None, "row2": None}
    assert came(tmp_path) == {**first, **{f"row{batch}": str(batch) for batch in range(3, 8)}}
    assert not table.knows_batches
    assert "the batch of 3 of 8 files is not known" in table.notes[0]


def test_the_last_compact_log_is_enough(tmp_path):
    sink(tmp_path, 7, compact=3)
    for batch in ("0", "1", "2.compact", "3", "4"):
        (tmp_path / "_spark_metadata" / batch).unlink()
    assert came(tmp_path) == {**{f"row{batch}": None for batch in range(6)}, "row6": "6"}


def test_a_deleted_file_does_not_count(tmp_path):
    sink(tmp_path, 2)
    log(tmp_path, 2, "part-0-0.parquet", action="delete")
    (tmp_path / "part-0-0.parquet").unlink()
    table = open_table(tmp_path)
    assert came(tmp_path) == {"row1": "1"}
    assert table.removals == ("the log says of 1 files that they were deleted",)


def test_files_that_a_compaction_dropped_are_said(tmp_path):
    sink(tmp_path, 2)
    log(tmp_path, "2.compact", "part-0-1.parquet")
    table = open_table(tmp_path)
    assert came(tmp_path) == {"row1": "1"}
    assert "`retention`" in table.removals[0]


@pytest.mark.parametrize(
    "base", ["file:///data/out", "file:/data/out", "s3a://bucket/out", "/data/out", "dbfs:/out"]
)
def test_a_table_is_found_wherever_it_was_written(tmp_path, base):
    write(tmp_path, "part-0.parquet", "i1")
    log(tmp_path, 0, "part-0.parquet", base=base)
    assert came(tmp_path) == {"i1": "0"}


def test_partition_columns_are_columns_of_the_row(tmp_path):
    write(tmp_path, "dt=2026-01-01/shop=a%3Ab c/n=7/part-0.parquet", "i1")
    write(tmp_path, "dt=2026-01-02/shop=007/n=__HIVE_DEFAULT_PARTITION__/part-0.parquet", "i2")
    log(
        tmp_path, 0, "dt=2026-01-01/shop=a%253Ab%20c/n=7/part-0.parquet",
        "dt=2026-01-02/shop=007/n=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
    )  # fmt: skip
    rows = [json.loads(record.value) for record in read_parquet_sink(tmp_path)]
    assert rows == [
        {"id": "i1", "dt": "2026-01-01", "shop": "a:b c", "n": 7},
        {"id": "i2", "dt": "2026-01-02", "shop": "007"},
    ]


def test_a_table_in_a_folder_that_is_named_like_a_partition_is_found(tmp_path):
    folder = tmp_path / "env=test"
    write(folder, "dt=1/part-0.parquet", "i1")
    log(folder, 0, "dt=1/part-0.parquet", base="s3a://bucket/env=prod")
    (record,) = read_parquet_sink(folder)
    assert json.loads(record.value) == {"id": "i1", "dt": 1}


def test_a_place_is_the_file_and_the_row(tmp_path):
    write(tmp_path, "dt=1/part-0.parquet", "i1")
    write(tmp_path, "dt=2/part-1.parquet", "i2", "i3")
    log(tmp_path, 0, "dt=1/part-0.parquet", "dt=2/part-1.parquet")
    table = open_table(tmp_path)
    places = [(record.partition, record.offset) for record in table.records()]
    assert places == [(0, 0), (1, 0), (1, 1)]
    assert table.place(1, 1) == "dt=2/part-1.parquet:1"


def test_values_are_those_of_to_json(tmp_path):
    at = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    write(
        tmp_path, "part-0.parquet", "ü\"\n", None,
        ref=pa.array([2**62 + 1, None], pa.int64()),
        small=pa.array([7, None], pa.int8()),
        at=pa.array([at, None], pa.timestamp("us", "UTC")),
        local=pa.array([at.replace(tzinfo=None, microsecond=0), None], pa.timestamp("us")),
        day=pa.array([date(2026, 1, 1), None]),
        price=pa.array([Decimal("12.30"), None], pa.decimal128(10, 2)),
        ratio=pa.array([0.1, None], pa.float32()),
        odd=pa.array([float("nan"), None], pa.float64()),
        raw=pa.array([b"\xff", None], pa.binary()),
        yes=pa.array([True, None]),
        deep=pa.array([{"a": 1, "b": None, "c": [at, None]}, None]),
        map=pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    )  # fmt: skip
    log(tmp_path, 0, "part-0.parquet")
    first, second = [record.value for record in read_parquet_sink(tmp_path)]
    assert first == (
        '{"id":"ü\\"\\n","ref":4611686018427387905,"small":7,"at":"2026-01-01T00:00:00.123456Z",'
        '"local":"2026-01-01T00:00:00.000","day":"2026-01-01","price":12.30,"ratio":0.1,"odd":"NaN","raw":"/w==",'
        '"yes":true,"deep":{"a":1,"c":["2026-01-01T00:00:00.123456Z",null]},"map":{"k":1}}'
    )
    assert second == "{}"


@pytest.mark.parametrize("is_int96", [True, False])
def test_a_time_is_an_instant_in_either_form_that_spark_writes(tmp_path, is_int96):
    times = ["0001-01-01T00:00:00.000Z", "2026-01-01T00:00:00.123Z", "9999-12-31T23:59:59.999Z"]
    column = pa.array([read_time_us(text) for text in times], pa.timestamp("us", "UTC"))
    unit = {"use_deprecated_int96_timestamps": True} if is_int96 else {}
    times = times[1:2] if is_int96 else times  # Arrow writes INT96 by way of nanoseconds
    column = column[1:2] if is_int96 else column
    pq.write_table(pa.table({"at": column}), tmp_path / "part-0.parquet", **unit)
    log(tmp_path, 0, "part-0.parquet")
    assert [json.loads(record.value)["at"] for record in read_parquet_sink(tmp_path)] == times


def test_rows_keep_their_order_over_row_groups(tmp_path):
    ids = [f"i{number}" for number in range(20_000)]
    pq.write_table(pa.table({"id": ids}), tmp_path / "part-0.parquet", row_group_size=7_000)
    log(tmp_path, 0, "part-0.parquet")
    records = list(read_parquet_sink(tmp_path))
    assert [json.loads(record.value)["id"] for record in records] == ids
    assert [record.offset for record in records] == list(range(20_000))


def test_the_kind_of_a_table_is_that_of_its_log(tmp_path):
    for name, log_name in (("a", "_spark_metadata"), ("b", "_delta_log")):
        (tmp_path / name / log_name).mkdir(parents=True)
    assert output_kind(tmp_path / "a") == "parquet"
    assert output_kind(tmp_path / "b") == "delta"


def refused(folder: Path) -> BrokenTable:
    with pytest.raises(BrokenTable) as caught:
        list(read_parquet_sink(folder))
    assert caught.value.hint
    assert caught.value.exit_code == EXIT_USAGE
    return caught.value


def test_a_folder_that_does_not_exist_is_said(tmp_path):
    assert "does not exist" in str(refused(tmp_path / "nowhere"))


def test_a_file_is_no_table(tmp_path):
    (tmp_path / "file").touch()
    assert "is a file" in str(refused(tmp_path / "file"))


def test_a_folder_without_a_log_is_refused(tmp_path):
    write(tmp_path, "part-0.parquet", "i1")
    error = refused(tmp_path)
    assert "was not written by a streaming file sink" in error.message
    assert "failed attempts" in error.detail


def test_a_folder_with_both_logs_is_refused(tmp_path):
    sink(tmp_path, 1)
    (tmp_path / "_delta_log").mkdir()
    assert "two tables" in str(refused(tmp_path))


def test_a_table_of_the_other_kind_is_refused(tmp_path):
    sink(tmp_path, 1)
    with pytest.raises(BrokenTable, match="is no delta output"):
        read_delta(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty, or cut"),
        ("\n", "it is empty, or cut"),
        ("v2\n", "the log version 'v2'"),
        ('v1\n{"path":"file:///out/part-0-1.par', "line 2"),
        ('v1\n{"size":1}', "line 2"),
        ('v1\n{"path":"file:///out/part-0-1.parquet","action":"move"}', "the action 'move'"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(tmp_path, text, said):
    sink(tmp_path, 2)
    (tmp_path / "_spark_metadata" / "1").write_text(text)
    assert said in str(refused(tmp_path))


@pytest.mark.parametrize(("batches", "missing"), [(3, 1), (3, 0), (5, 3)])
def test_a_log_with_a_gap_is_refused(tmp_path, batches, missing):
    sink(tmp_path, batches, compact=3 if batches == 5 else 0)
    (tmp_path / "_spark_metadata" / str(missing)).unlink()
    assert f"has no batch {missing}" in str(refused(tmp_path))


def test_a_named_file_that_is_gone_is_refused(tmp_path):
    sink(tmp_path, 2)
    (tmp_path / "part-0-0.parquet").unlink()
    assert "'part-0-0.parquet'" in str(refused(tmp_path))


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    sink(tmp_path, 2)
    (tmp_path / "part-0-1.parquet").write_text('{"id":"i1"}\n')
    assert "cannot be read as Parquet" in str(refused(tmp_path))


def test_a_cut_data_file_is_refused(tmp_path):
    sink(tmp_path, 2)
    path = tmp_path / "part-0-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read as Parquet" in str(refused(tmp_path))


def test_a_log_that_is_deleted_while_the_others_are_read_is_not_missed(tmp_path):
    sink(tmp_path, 4, compact=3)
    old = tmp_path / "_spark_metadata" / "0"
    old.unlink()
    old.symlink_to("gone")  # it is listed, and cannot be opened
    assert came(tmp_path) == {"row0": None, "row1": "1", "row2": None, "row3": "3"}
