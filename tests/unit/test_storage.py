"""Evidence as Parquet: read like JSON Lines, converted there and back without a loss, and never half."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet as pq
from typer.testing import CliRunner

import tidemark
from tidemark.cli import app
from tidemark.errors import BrokenEvidence, BrokenTrace, UsageError
from tidemark.formats import storage
from tidemark.formats.evidence import OutputRecord, RunDirectory, StateRow
from tidemark.formats.record_files import BrokenParquet, count_records, read_parquet
from tidemark.formats.scans import pick
from tidemark.formats.seal import is_intact, seal
from tidemark.formats.trace import Base64, Header, Record, TopicSpec, TraceReader, trace_sha256, write_trace

TESTS = Path(__file__).parents[1]
RECORDED = [
    TESTS / "evidence" / "runs" / "left_outer_faults",
    TESTS / "evidence" / "runs" / "chain",
    TESTS / "golden" / "evidence" / "typed_valid",
    TESTS / "golden" / "evidence" / "defect_unused_side",
]
HEADER = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec(3), "b": TopicSpec()}, slices=9)
RECORDS = [
    Record(topic="a", value='{"é": "\\u0000"}', arrival_ms=-1, partition=2, key="k", slice=3),
    Record(topic="b", value=None, arrival_ms=2**62, timestamp_ms=0, event_ms=-5, slice=3),
    Record(topic="b", value_base64="/w==", key_base64="", arrival_ms=3, slice=8),
    Record(topic="a", value="", key="", arrival_ms=3, slice=8,
           headers=[("h", "x"), ("h", None), ("", ""), ("b", Base64(b"\xff\x00"))]),
]  # fmt: skip


def everything(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.fixture
def run(tmp_path):
    """A sealed run directory whose files are not compressed, with a folder of logs."""
    path = tmp_path / "a run"
    path.mkdir()
    for file in RECORDED[0].iterdir():
        if file.suffix == ".zst":
            content = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
            (path / file.stem).write_bytes(content)
        else:
            shutil.copyfile(file, path / file.name)
    directory = RunDirectory(path)
    directory.write_json("manifest", directory.manifest)
    (path / "logs").mkdir()
    (path / "logs" / "driver.log").write_text("started\n")
    seal(path)
    return path


def test_there_and_back_every_file_is_the_same_and_so_is_the_verdict(run):
    before, verdict = everything(run), tidemark.check(run)

    assert storage.store_run(run, "parquet")
    assert {file.name for file in run.glob("*.parquet")} == {
        "trace.parquet", "flush.parquet", "output.parquet", "state.parquet",
    }  # fmt: skip
    assert {file.name for file in run.glob("*.jsonl")} == {
        "batches.jsonl", "executors.jsonl", "faults.jsonl", "progress.jsonl",
    }  # fmt: skip
    assert tidemark.check(run) == verdict
    assert storage.store_run(run, "jsonl")

    after = everything(run)
    assert {name: content for name, content in after.items() if name != "seal.json"} == {
        name: content for name, content in before.items() if name != "seal.json"
    }
    assert tidemark.check(run) == verdict
    assert os.listdir(run.parent) == [run.name]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name)
def test_recorded_runs_have_the_same_verdict_in_both_formats(recorded, tmp_path):
    run = tmp_path / "run"
    assert storage.store_run(recorded, "parquet", run)

    assert msgspec.to_builtins(tidemark.check(run)) == msgspec.to_builtins(tidemark.check(recorded))
    assert storage.store_run(run, "jsonl")
    for name in ("trace", "flush", "output", "state"):
        was, now = RunDirectory(recorded).file(name), RunDirectory(run).file(name)
        if was.is_file():
            text = was.read_bytes()
            text = (
                zstandard.ZstdDecompressor().decompressobj().decompress(text)
                if was.suffix == ".zst"
                else text
            )
            assert now.read_bytes() == text


def test_the_new_seal_says_which_seal_it_comes_from(run):
    first = storage.file_sha256(run / "seal.json")
    storage.store_run(run, "parquet")
    second = storage.file_sha256(run / "seal.json")
    storage.store_run(run, "jsonl")

    assert is_intact(run)
    assert json.loads((run / "seal.json").read_text())["converted"] == [
        {"to": "parquet", "seal_sha256": first}, {"to": "jsonl", "seal_sha256": second},
    ]  # fmt: skip


def test_a_directory_that_is_not_as_it_was_sealed_is_not_converted(run):
    (run / "faults.jsonl").write_text("")
    before = everything(run)

    with pytest.raises(BrokenEvidence, match="is not as it was sealed"):
        storage.store_run(run, "parquet")
    assert everything(run) == before


def test_a_directory_without_a_seal_stays_without_one(run):
    (run / "seal.json").unlink()
    storage.store_run(run, "parquet")

    assert not (run / "seal.json").exists()
    assert tidemark.check(run).verdict == "VALID"


def test_every_field_of_a_trace_is_kept(tmp_path):
    path = tmp_path / "trace.jsonl"
    digest = write_trace(path, HEADER, RECORDS)
    text = path.read_bytes()
    stored = storage.store_trace(path, "parquet")

    with TraceReader(stored) as reader:
        assert (reader.header, list(reader)) == (HEADER, RECORDS)
    assert trace_sha256(stored) == digest
    assert count_records(stored) == len(RECORDS)
    assert storage.store_trace(stored, "jsonl").read_bytes() == text
    assert os.listdir(tmp_path) == ["trace.jsonl"]


def test_records_are_picked_of_every_row_group_in_order_beside_one_without_rows(tmp_path):
    path, groups = tmp_path / "trace.jsonl", tmp_path / "groups.parquet"
    write_trace(path, HEADER, RECORDS)
    table = pq.read_table(storage.store_trace(path, "parquet"))
    with pq.ParquetWriter(groups, table.schema, write_page_checksum=True) as writer:
        for part in (table.slice(0, 1), table.slice(0, 0), table.slice(1, 2), table.slice(3)):
            writer.write_table(part)
    sizes = pq.ParquetFile(groups).metadata
    assert [sizes.row_group(at).num_rows for at in range(sizes.num_row_groups)] == [1, 0, 2, 1]

    for asked, wanted in ((b"\1\0\1\1", [0, 2, 3]), (b"\0\1", [1]), (b"", [])):
        assert list(pick(groups, Record, asked)) == [RECORDS[at] for at in wanted]


@pytest.mark.parametrize(
    ("header_end", "text"),
    [
        ("\n", ""),
        ("", ""),
        ("\n", '\n \n{"arrival_ms": 1, "topic": "a", "slice": 0}\r\n\n\n'),
        ("\n", '{"topic":"a","arrival_ms":1}\n{"topic":"a","arrival_ms":1}'),
        ("\n", '{"topic":"a","arrival_ms":1}\n\n{"topic":"\\u0061","arrival_ms":1}\n '),
    ],
)
def test_what_was_written_by_hand_comes_back_as_it_was(tmp_path, header_end, text):
    path = tmp_path / "trace.jsonl"
    text = f'{{"tidemark_trace": 2, "pace": "timed", "topics": {{"a": {{}}}}}}{header_end}{text}'
    path.write_bytes(text.encode())
    with TraceReader(path) as reader:
        records = list(reader)
    stored = storage.store_trace(path, "parquet")

    with TraceReader(stored) as reader:
        assert list(reader) == records
    assert storage.store_trace(stored, "jsonl").read_bytes() == text.encode()


def test_a_trace_beside_itself_is_not_overwritten(tmp_path):
    write_trace(tmp_path / "t.jsonl", HEADER, RECORDS)
    (tmp_path / "t.parquet").write_text("mine")

    with pytest.raises(UsageError, match="is there already"):
        storage.store_trace(tmp_path / "t.jsonl", "parquet")
    assert (tmp_path / "t.parquet").read_text() == "mine"


def test_output_and_state_that_are_converted_are_the_same_records(tmp_path):
    output = [
        OutputRecord(partition=1, offset=7, value=None, key="é", headers=[("a", Base64(b"\xff"))], timestamp_ms=5),
        OutputRecord(partition=0, offset=0, value="{}"),
    ]  # fmt: skip
    state = [
        StateRow(batch=1, side="left", key=("a", None), time_us=-1, ref=(0, 2**40), matched=False),
        StateRow(batch=2, side="right", key=(), matched=True),
        StateRow(batch=2, side="right"),
    ]  # fmt: skip
    directory = RunDirectory(tmp_path)
    for name, kind, records in (("output", OutputRecord, output), ("state", StateRow, state)):
        directory.write_lines(name, records)
        path = tmp_path / f"{name}.parquet"
        storage.convert_file(tmp_path / f"{name}.jsonl", path, kind, has_header=False)

        assert [record for block in read_parquet(path, kind) for record in block] == records


def test_the_columns_are_those_of_the_reference(run):
    storage.store_run(run, "parquet")
    header = 'STRUCT("name" VARCHAR, "value" VARCHAR, value_bytes BLOB)[]'
    columns = {
        "trace": {
            "topic": "VARCHAR", "partition": "BIGINT", "key": "VARCHAR", "value": "VARCHAR", "headers": header,
            "arrival_ms": "BIGINT", "timestamp_ms": "BIGINT", "event_ms": "BIGINT", "slice": "BIGINT",
            "key_bytes": "BLOB", "value_bytes": "BLOB", "line": "VARCHAR",
        },
        "output": {
            "partition": "BIGINT", "offset": "BIGINT", "key": "VARCHAR", "value": "VARCHAR", "headers": header,
            "timestamp_ms": "BIGINT", "line": "VARCHAR",
        },
        "state": {
            "batch": "BIGINT", "side": "VARCHAR", "key": "VARCHAR[]", "time_us": "BIGINT", "ref_partition": "BIGINT",
            "ref_offset": "BIGINT", "matched": "BOOLEAN", "line": "VARCHAR",
        },
    }  # fmt: skip
    for name, wanted in columns.items():
        relation = duckdb.sql(f"SELECT * FROM '{run / name}.parquet'")
        assert dict(zip(relation.columns, map(str, relation.types), strict=True)) == wanted


def broken(run, name, change):
    """What is said of a directory whose file was changed, without a seal that would say so first."""
    storage.store_run(run, "parquet")
    (run / "seal.json").unlink()
    change(run / f"{name}.parquet")
    with pytest.raises((BrokenEvidence, BrokenTrace)) as raised:
        tidemark.check(run)
    return str(raised.value)


def rewritten(change):
    def rewrite(path):
        file = pq.ParquetFile(path)
        table = file.read()
        pairs = {k: v for k, v in file.metadata.metadata.items() if k.startswith(b"tidemark")}
        with pq.ParquetWriter(path, change(table).schema, store_schema=False) as writer:
            writer.write_table(change(table))
            writer.add_key_value_metadata(pairs)

    return rewrite


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("trace", lambda path: path.write_bytes(path.read_bytes()[:-9]), "cannot be read as Parquet"),
        ("output", lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
        ("output", lambda path: path.write_bytes(b"PAR1"), "cannot be read as Parquet"),
        ("output", rewritten(lambda table: table.drop_columns(["offset"])), "it has no column 'offset'"),
        ("output", rewritten(lambda table: table.append_column("extra", table["key"])), "unknown column 'extra'"),
        ("state", rewritten(lambda table: table.set_column(0, "batch", table["batch"].cast(pa.int32()))),
         "its column 'batch' is of type int32, not BIGINT"),
        ("output", rewritten(lambda table: table.set_column(0, "partition", pa.nulls(len(table), pa.int64()))),
         "its column 'partition' has a NULL"),
        ("output", rewritten(lambda table: table.slice(1)), "records; the manifest says that it has"),
        ("trace", rewritten(lambda table: table.slice(0, len(table) - 1)), "records; the manifest says that it has"),
        ("trace", rewritten(lambda table: table.set_column(5, "arrival_ms", pa.array([7] * len(table), pa.int64()))),
         "the file's SHA-256 is"),
        ("state", lambda path: shutil.copyfile(path.with_name("output.parquet"), path), "it has no column 'batch'"),
        ("trace", lambda path: path.with_suffix(".jsonl").write_text(""), "trace.parquet is there, too"),
        ("output", lambda path: path.unlink(), "No such file"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_the_reason(run, name, change, said):
    told = broken(run, name, change)

    assert said in told
    assert f"{name}." in told


def test_a_file_may_be_a_link_to_one_on_another_disk(run, tmp_path):
    storage.store_run(run, "parquet")
    (run / "seal.json").unlink()
    for name in ("trace", "output"):
        (run / f"{name}.parquet").rename(tmp_path / f"{name}.parquet")
        (run / f"{name}.parquet").symlink_to(tmp_path / f"{name}.parquet")

    assert tidemark.check(run).verdict == "VALID"


def test_a_changed_trace_is_seen_without_the_digest_of_the_file(run):
    """A manifest need not have ``parquet_sha256``: then the records say the digest."""
    storage.store_run(run, "parquet")
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["parquet_sha256"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    (run / "seal.json").unlink()
    assert tidemark.check(run).verdict == "VALID"

    rewritten(lambda table: table.set_column(5, "arrival_ms", pa.array([7] * len(table), pa.int64())))(
        run / "trace.parquet"
    )
    with pytest.raises(BrokenEvidence, match="cannot be read as evidence") as raised:
        tidemark.check(run)
    assert "its SHA-256 is" in raised.value.detail


def test_a_flipped_byte_in_a_page_is_seen_by_its_checksum(tmp_path):
    write_trace(tmp_path / "t.jsonl", HEADER, RECORDS * 1000)
    path = storage.store_trace(tmp_path / "t.jsonl", "parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)

    with pytest.raises(BrokenTrace) as raised:
        list(TraceReader(path))
    assert "t.parquet" in raised.value.message


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["_store", "_write_manifest", "seal", "_exchange"])
def test_an_interrupted_conversion_leaves_the_directory_as_it_was(run, monkeypatch, error, place):
    before = everything(run)

    def fail(*_args):
        raise error

    monkeypatch.setattr(storage, place, fail)
    with pytest.raises((UsageError, KeyboardInterrupt)) as raised:
        storage.store_run(run, "parquet")

    assert everything(run) == before
    assert os.listdir(run.parent) == [run.name]
    if isinstance(raised.value, UsageError):
        assert "there is no space left in" in raised.value.detail
        assert "--out" in raised.value.hint


def test_an_interruption_between_the_two_renames_gives_the_name_back(run, monkeypatch):
    before, rename = everything(run), Path.rename

    def renamed(self, target):
        if self.name.endswith(".converting"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(KeyboardInterrupt):
        storage.store_run(run, "parquet")
    assert everything(run) == before


def test_a_conversion_that_was_killed_between_the_two_renames_is_done_again(run):
    run.rename(run.with_name(f".{run.name}.unconverted"))

    done = CliRunner().invoke(app, ["convert", str(run), "--to", "parquet"])

    assert done.exit_code == 0
    assert "converted" in done.stdout
    assert (run / "trace.parquet").is_file()


def test_the_working_directory_is_not_replaced(run, monkeypatch):
    before = everything(run)
    monkeypatch.chdir(run / "logs")

    done = CliRunner().invoke(app, ["convert", "..", "--to", "parquet"])

    assert "is the working directory" in str(done.exception)
    assert everything(run) == before
    monkeypatch.chdir(run)
    assert "is the working directory" in str(
        CliRunner().invoke(app, ["convert", ".", "--to", "parquet"]).exception
    )


def test_a_copy_that_cannot_be_read_back_is_removed(tmp_path, monkeypatch):
    write_trace(tmp_path / "t.jsonl", HEADER, RECORDS)

    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        storage.store_trace(tmp_path / "t.jsonl", "parquet")
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_what_a_killed_conversion_left_is_named(run):
    run.with_name(f".{run.name}.converting").mkdir()

    with pytest.raises(UsageError, match="is there already") as raised:
        storage.store_run(run, "parquet")
    assert "one was killed" in raised.value.detail


def test_a_copy_leaves_the_original(run, tmp_path):
    before = everything(run)
    done = CliRunner().invoke(app, ["convert", str(run), "--to", "parquet", "--out", str(tmp_path / "out")])

    assert done.exit_code == 0
    assert everything(run) == before
    assert is_intact(tmp_path / "out" / run.name)
    again = CliRunner().invoke(app, ["convert", str(tmp_path / "out" / run.name), "--to", "parquet"])
    assert again.stdout.endswith("is parquet already\n")


def test_a_line_that_is_no_record_is_named(run):
    (run / "seal.json").unlink()
    with (run / "output.jsonl").open("a") as file:
        file.write('{"partition": "x"}\n')
    before = everything(run)

    with pytest.raises(BrokenEvidence, match=r"output.jsonl' cannot be converted"):
        storage.store_run(run, "parquet")
    assert everything(run) == before


def test_a_record_that_is_not_what_its_line_says_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"tidemark_trace": 2, "pace": "timed", "topics": {"a": {}}}\n{"topic": "a", "arrival_ms": 1}\n'
    )
    stored = storage.store_trace(path, "parquet")
    rewritten(lambda table: table.set_column(5, "arrival_ms", pa.array([2], pa.int64())))(stored)

    with pytest.raises(BrokenTrace, match="cannot be converted") as raised:
        storage.store_trace(stored, "jsonl")
    assert raised.value.detail == "record 1 is not what its line says"


def test_a_number_that_is_no_bigint_is_refused(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.write_lines("output", [OutputRecord(partition=0, offset=2**64)])

    with pytest.raises(BrokenParquet, match="does not fit"):
        storage.convert_file(
            tmp_path / "output.jsonl", tmp_path / "output.parquet", OutputRecord, has_header=False
        )
    assert os.listdir(tmp_path) == ["output.jsonl"]
