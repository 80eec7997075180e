"""Delta tables as the output of a query: some written by ``deltalake``, some with a log written by hand."""

from __future__ import annotations

import base64
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tidemark.errors import BrokenTable, UsageError
from tidemark.sparkfiles.output_tables import open_table, read_delta

QUERY = "b2f0-query"
Came = dict[str, tuple[str | None, str | None]]


def commit(folder: Path, batch: int | None, *ids: str, query: str = QUERY, **columns: list) -> None:
    """A commit of ``deltalake``, as that of a batch."""
    table = pa.table({"id": pa.array(ids, pa.string()), **columns})
    txns = [] if batch is None else [Transaction(query, batch)]
    write_deltalake(
        folder, table, mode="append", partition_by=list(columns),
        commit_properties=CommitProperties(app_transactions=txns),
    )  # fmt: skip


def came(folder: Path) -> Came:
    """Query and batch of each row by its id."""
    records = list(read_delta(folder))
    rows = {
        json.loads(record.value)["id"]: (record.header("query"), record.header("batch")) for record in records
    }
    assert len(rows) == len(records)
    return rows


def ours(**batches: int) -> Came:
    return {name: (QUERY, str(batch)) for name, batch in batches.items()}


class HandWritten:
    """A table whose log is written line by line."""

    def __init__(self, folder: Path, fields: list[dict[str, Any]], **metadata: Any) -> None:
        self.folder = folder
        self.version = 0
        (folder / "_delta_log").mkdir()
        schema = json.dumps({"type": "struct", "fields": fields})
        features = metadata.pop("features", [])
        protocol: dict[str, Any] = {
            "minReaderVersion": 3 if features else 2,
            "minWriterVersion": 7 if features else 5,
        }
        if features:
            protocol |= {"readerFeatures": features, "writerFeatures": features}
        about = {"id": "3f1e", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
        about |= {"partitionColumns": [], "configuration": {}, "createdTime": 1, **metadata}
        self.commit({"protocol": protocol}, {"metaData": about})

    def commit(self, *actions: dict[str, Any], batch: int | None = None) -> None:
        lines = [*actions] if batch is None else [{"txn": {"appId": QUERY, "version": batch}}, *actions]
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        self.version += 1

    def file(self, name: str, **columns: list) -> str:
        (self.folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), self.folder / name)
        return name


def field(name: str, kind: str = "string", **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def add(path: str, *, change: bool = True, **more: Any) -> dict[str, Any]:
    action = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": change}
    return {"add": {**action, "stats": json.dumps({"numRecords": 8}), **more}}


def remove(path: str, *, change: bool = True, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": change, **more}}


def operation(name: str) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": 1, "operation": name, "operationParameters": {}}}


def deletion_vector(*rows: int) -> dict[str, Any]:
    """An inline deletion vector: a 64-bit Roaring bitmap with one array container, in Z85."""
    raw = struct.pack("<IQIII", 1681511377, 1, 0, 12346, 1)
    raw += struct.pack("<HHI", 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    raw += b"\0" * (-len(raw) % 4)
    text = base64.b85encode(raw).decode().translate(_Z85)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(raw), "cardinality": len(rows)}


_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = str.maketrans(
    _B85, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


def test_a_row_has_the_query_and_the_batch_of_its_commit(tmp_path):
    commit(tmp_path, 0, "i1", "i2")
    commit(tmp_path, 1, "i3")
    commit(tmp_path, 3, "i4")
    table = open_table(tmp_path)
    assert came(tmp_path) == ours(i1=0, i2=0, i3=1, i4=3)
    assert table.knows_batches
    assert not table.notes
    assert not table.removals
    assert [file.batch for file in table.files] == [0, 1, 3]


def test_rows_of_other_writers_name_them(tmp_path):
    commit(tmp_path, 0, "i1")
    commit(tmp_path, 0, "i2", query="another")
    commit(tmp_path, None, "i3")
    table = open_table(tmp_path)
    assert came(tmp_path) == {**ours(i1=0), "i2": ("another", "0"), "i3": (None, None)}
    assert not table.knows_batches
    assert "the batch of 1 of 3 files is not known" in table.notes[0]


def test_partition_columns_are_columns_of_the_row(tmp_path):
    commit(tmp_path, 0, "i1", "i2", dt=["x y%", None], n=[7, 8])
    rows = sorted((json.loads(record.value) for record in read_delta(tmp_path)), key=lambda row: row["id"])
    assert rows == [{"id": "i1", "dt": "x y%", "n": 7}, {"id": "i2", "n": 8}]


def test_a_rewrite_does_not_hide_the_batches_of_what_it_rewrote(tmp_path):
    for batch in range(3):
        commit(tmp_path, batch, f"i{batch}", f"j{batch}", dt=["a", "b"])
    DeltaTable(tmp_path).optimize.compact()
    commit(tmp_path, 3, "i3", dt=["a"])
    DeltaTable(tmp_path).optimize.z_order(["id"])
    table = open_table(tmp_path)
    assert came(tmp_path) == ours(i0=0, j0=0, i1=1, j1=1, i2=2, j2=2, i3=3)
    assert table.knows_batches
    assert not table.removals
    (record,) = [record for record in table.records() if '"j1"' in record.value]
    assert json.loads(record.value) == {"id": "j1", "dt": "b"}


def test_after_vacuum_a_rewritten_file_has_a_query_and_no_batch(tmp_path):
    commit(tmp_path, 0, "i0")
    commit(tmp_path, 1, "i1")
    DeltaTable(tmp_path).optimize.compact()
    DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    commit(tmp_path, 2, "i2")
    table = open_table(tmp_path)
    assert came(tmp_path) == {"i0": (QUERY, None), "i1": (QUERY, None), **ours(i2=2)}
    assert "rewritten from files of several batches" in table.notes[0]


def test_rows_that_a_delete_kept_have_the_batch_they_had(tmp_path):
    commit(tmp_path, 0, "i0", "i1")
    commit(tmp_path, 1, "i2", "i3")
    DeltaTable(tmp_path).delete("id = 'i1'")
    table = open_table(tmp_path)
    assert came(tmp_path) == ours(i0=0, i2=1, i3=1)
    assert table.removals == ("version 2 of the table (DELETE) removed rows or replaced them",)


def test_rows_that_an_update_wrote_have_no_batch(tmp_path):
    commit(tmp_path, 0, "i0", "i1")
    commit(tmp_path, 1, "i2")
    DeltaTable(tmp_path).update(predicate="id = 'i1'", updates={"id": "'i9'"})
    assert came(tmp_path) == {"i0": (None, None), "i9": (None, None), **ours(i2=1)}
    assert "(UPDATE)" in open_table(tmp_path).removals[0]


def test_an_overwrite_with_a_batch_is_not_taken_for_that_batch(tmp_path):
    commit(tmp_path, 0, "i0")
    properties = CommitProperties(app_transactions=[Transaction(QUERY, 1)])
    write_deltalake(tmp_path, pa.table({"id": ["i1"]}), mode="overwrite", commit_properties=properties)
    assert came(tmp_path) == {"i1": (None, None)}
    assert open_table(tmp_path).removals


def test_a_checkpoint_does_not_say_who_wrote_a_file(tmp_path):
    commit(tmp_path, 0, "i0")
    commit(tmp_path, 1, "i1")
    DeltaTable(tmp_path).create_checkpoint()
    commit(tmp_path, 2, "i2")
    assert came(tmp_path) == ours(i0=0, i1=1, i2=2)
    for version in range(2):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    table = open_table(tmp_path)
    assert came(tmp_path) == {"i0": (None, None), "i1": (None, None), **ours(i2=2)}
    assert "from version 2 on" in table.notes[0]


def test_files_that_the_log_does_not_name_do_not_count(tmp_path):
    commit(tmp_path, 0, "i0")
    pq.write_table(pa.table({"id": ["i0"]}), tmp_path / "part-00000-failed.parquet")
    assert came(tmp_path) == ours(i0=0)


@pytest.mark.parametrize("way", ["plain", "link"])
def test_rows_that_a_deletion_vector_names_are_gone_and_the_others_keep_their_places(tmp_path, way):
    folder = tmp_path / "real"
    folder.mkdir()
    table = HandWritten(folder, [field("id")], features=["deletionVectors"])
    table.file("a b.parquet", id=[f"i{number}" for number in range(8)])
    table.commit(add("a%20b.parquet"), batch=4)
    cut = deletion_vector(0, 3, 7)
    table.commit(remove("a%20b.parquet"), add("a%20b.parquet", deletionVector=cut), operation("DELETE"))
    (tmp_path / "link").symlink_to(folder)
    read = folder if way == "plain" else tmp_path / "link"
    assert came(read) == ours(i1=4, i2=4, i4=4, i5=4, i6=4)
    assert [record.offset for record in read_delta(read)] == [1, 2, 4, 5, 6]
    assert "version 2 of the table (DELETE)" in open_table(read).removals[0]


def test_a_rewrite_of_files_with_deleted_rows_is_not_undone(tmp_path):
    table = HandWritten(tmp_path, [field("id")], features=["deletionVectors"])
    table.file("a.parquet", id=["i0", "i1"])
    table.file("b.parquet", id=["i1"])
    table.commit(add("a.parquet"), batch=0)
    cut = deletion_vector(0)
    table.commit(remove("a.parquet"), add("a.parquet", deletionVector=cut), operation("DELETE"))
    table.commit(remove("a.parquet", change=False, deletionVector=cut), add("b.parquet", change=False))
    assert came(tmp_path) == ours(i1=0)
    assert open_table(tmp_path).files[0].name == "b.parquet"


def test_a_file_that_a_restore_brings_back_has_the_batch_it_had(tmp_path):
    table = HandWritten(tmp_path, [field("id")])
    table.file("a.parquet", id=["i0"])
    table.commit(add("a.parquet"), batch=5)
    table.commit(remove("a.parquet"), operation("DELETE"))
    table.commit(add("a.parquet"), operation("RESTORE"))
    assert came(tmp_path) == ours(i0=5)


def test_columns_have_the_names_of_the_table(tmp_path):
    def mapped(number: int, name: str, kind: str) -> dict[str, Any]:
        names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        return field(name, kind, **names)

    table = HandWritten(
        tmp_path, [mapped(1, "id", "string"), mapped(2, "at", "timestamp"), mapped(3, "day", "date")],
        configuration={"delta.columnMapping.mode": "name"}, partitionColumns=["at", "day"],
    )  # fmt: skip
    values = {"col-2": "2026-01-01 00:00:00.5", "col-3": "2026-01-01"}
    for batch, name in enumerate(("x/a.parquet", "x/b.parquet")):
        table.file(name, **{"col-1": [f"i{batch}"], "col-9": ["of a column that was dropped"]})
        table.commit(add(name, partitionValues=values), batch=batch)
    expected = [{"id": f"i{n}", "at": "2026-01-01T00:00:00.500Z", "day": "2026-01-01"} for n in range(2)]
    assert [json.loads(record.value) for record in read_delta(tmp_path)] == expected
    table.file("x/c.parquet", **{"col-1": ["i0", "i1"]})
    table.commit(
        remove("x/a.parquet", change=False), remove("x/b.parquet", change=False),
        add("x/c.parquet", change=False, partitionValues=values),
    )  # fmt: skip
    assert [json.loads(record.value) for record in read_delta(tmp_path)] == expected
    assert open_table(tmp_path).knows_batches


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "007", "007"), ("string", None, None), ("integer", "-7", -7), ("boolean", "true", True),
        ("double", "NaN", "NaN"), ("double", "0.5", 0.5), ("decimal(10,2)", "12.30", 12.3), ("long", "", None),
        ("timestamp", "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"),
        ("date", "2026-01-01", "2026-01-01"),
    ],
)  # fmt: skip
def test_a_partition_column_reads_the_same_before_and_after_a_rewrite(tmp_path, kind, text, value):
    table = HandWritten(tmp_path, [field("id"), field("p", kind)], partitionColumns=["p"])
    expected = {"id": "i0"} if value is None else {"id": "i0", "p": value}
    table.file("a.parquet", id=["i0"])
    table.file("b.parquet", id=["i0"])
    table.commit(add("a.parquet", partitionValues={"p": text}), batch=0)
    (record,) = read_delta(tmp_path)
    assert json.loads(record.value) == expected
    table.commit(
        remove("a.parquet", change=False), add("b.parquet", change=False, partitionValues={"p": text})
    )
    (record,) = read_delta(tmp_path)
    assert json.loads(record.value) == expected


def test_a_clone_reads_the_files_of_its_source(tmp_path):
    source, clone = tmp_path / "source", tmp_path / "clone"
    for folder in (source, clone):
        folder.mkdir()
    HandWritten(source, [field("id")]).file("a b.parquet", id=["i0"])
    HandWritten(clone, [field("id")]).commit(add(f"file://{source}/a%20b.parquet"), batch=0)
    table = open_table(clone)
    assert came(clone) == ours(i0=0)
    assert table.place(0, 0).endswith("source/a b.parquet:0")


def refused(folder: Path) -> BrokenTable:
    with pytest.raises(BrokenTable) as caught:
        list(read_delta(folder))
    assert caught.value.hint
    assert "\n" not in caught.value.detail
    return caught.value


def test_a_log_without_a_commit_is_refused(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    assert "cannot be read as the log of a Delta table" in str(refused(tmp_path))


def test_a_cut_commit_is_refused(tmp_path):
    commit(tmp_path, 0, "i0")
    commit(tmp_path, 1, "i1")
    path = tmp_path / "_delta_log" / f"{1:020}.json"
    path.write_bytes(path.read_bytes()[:-30])
    refused(tmp_path)


def test_a_cut_commit_before_a_checkpoint_is_refused(tmp_path):
    commit(tmp_path, 0, "i0")
    commit(tmp_path, 1, "i1")
    DeltaTable(tmp_path).create_checkpoint()
    path = tmp_path / "_delta_log" / f"{0:020}.json"
    path.write_bytes(path.read_bytes()[:-30])
    assert "cannot be read as a commit" in str(refused(tmp_path))


def test_a_log_with_a_gap_is_refused(tmp_path):
    for batch in range(3):
        commit(tmp_path, batch, f"i{batch}")
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    refused(tmp_path)


def test_a_reader_feature_that_is_not_known_is_refused(tmp_path):
    HandWritten(tmp_path, [field("id")], features=["timeTravelBackwards"])
    refused(tmp_path)


def test_a_data_file_that_is_gone_is_refused(tmp_path):
    commit(tmp_path, 0, "i0")
    (path,) = tmp_path.glob("*.parquet")
    path.unlink()
    error = refused(tmp_path)
    assert path.name in error.message
    assert "VACUUM" in error.detail


def test_a_missing_reader_is_said_with_its_name(tmp_path, monkeypatch):
    commit(tmp_path, 0, "i0")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(UsageError, match="pip install deltalake"):
        read_delta(tmp_path)
