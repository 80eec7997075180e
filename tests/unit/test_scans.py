"""A large file is scanned in pieces: together they are the scan of all of it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.unit.oracle.test_record_tables import records_of
from tidemark.formats import parquet
from tidemark.formats.scans import scan_of, scans_in_pieces
from tidemark.formats.storage import store_trace
from tidemark.formats.trace import FORMAT, Header, TopicSpec, write_trace

RECORDS = records_of([("left", number % 3, f'{{"id":"{number}"}}') for number in range(10)])
HEADER = Header(tidemark_trace=FORMAT, pace="backlog", topics={"left": TopicSpec(3)}, slices=1)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    write_trace(path, HEADER, RECORDS)
    return path


def rows(scan: str) -> list[tuple[object, ...]]:
    with duckdb.connect(":memory:") as sql:
        return sql.execute(f"select topic, partition, value from {scan}").fetchall()


@pytest.mark.parametrize(
    ("asked", "pieces"), [(1, [2] * 5), (2, [2] * 5), (5, [4, 4, 2]), (10, [10]), (1_000, [10])]
)
def test_pieces_of_parquet_are_whole_row_groups_and_all_rows_in_order(
    asked: int, pieces: list[int], trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = store_trace(trace, "parquet")
    monkeypatch.setattr(parquet, "GROUP_ROWS", 2)

    scans = scans_in_pieces(stored, "trace", asked)

    assert [len(rows(scan)) for scan in scans] == pieces
    assert [row for scan in scans for row in rows(scan)] == rows(scan_of(stored, "trace"))


def test_json_lines_are_one_piece(trace: Path) -> None:
    assert scans_in_pieces(trace, "trace", 1) == [scan_of(trace, "trace")]


def test_a_file_without_rows_is_one_piece_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    write_trace(path, HEADER, [])

    [scan] = scans_in_pieces(store_trace(path, "parquet"), "trace", 5)

    assert rows(scan) == []
