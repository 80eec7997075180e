"""The tables of a large run have what the reader of small runs reads, whatever a record holds, in their order."""

from __future__ import annotations

import base64
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemark.formats import parquet, trace
from tidemark.formats.contract import Bound, Contract, Delivery, Filter, JoinKind, Output, Side
from tidemark.formats.evidence import FORMAT
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.scans import pick, scan_of
from tidemark.formats.storage import store_trace
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.oracle.input.columns import ColumnReader, Columns
from tidemark.oracle.input.history import empty_history
from tidemark.oracle.large import record_tables
from tidemark.oracle.large.part_tables import PartTables
from tidemark.oracle.large.record_tables import RecordTables

CONTRACT = Contract(
    name="values",
    kind=JoinKind.LEFT_OUTER,
    left=Side("left", "id", ("user", "ad"), "time", 0, filters=(Filter("price", ">", 3),)),
    right=Side("right", "right_id", ("user", "ad"), "at", 0),
    bound=Bound(-1_000, 0),
    output=Output(left_id="id", right_id="right_id"),
)
STARTS = {"1": 100}
MANIFEST = Manifest(
    tidemark_evidence=FORMAT,
    contract=CONTRACT.to_json(),
    delivery=Delivery.EXACTLY_ONCE,
    inputs={"left": InputTopic("left", STARTS, {}), "right": InputTopic("right", {}, {})},
)
HISTORY = empty_history(MANIFEST)
NAMES = ("id", "user", "ad", "time", "price", "right_id", "at", "more")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["NaN", "a\\b", 'q"', "e\u0301", "\U0001f600", "\x01", "7", "null", "\u2028"]),
)
NESTED = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=2) | st.dictionaries(st.sampled_from(NAMES), one)
)
TIMES = st.sampled_from(
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01 23:59:59.1234Z",
        "2026-01-01T24:00:00Z",
        "2026-02-30T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2026-01-01T00:00:00.1234567Z",
        "2026-01-01T00:00:00+02:00",
        "2026-01-01",
        "soon",
        "",
        None,
        12,
        1.5,
    ]
)
ENTRIES = st.one_of(
    st.tuples(st.sampled_from(NAMES), NESTED),
    st.tuples(st.sampled_from(("time", "at")), TIMES),
    st.tuples(st.just("price"), st.integers(-(2**64), 2**64) | st.just(7)),
)


def spelled(entries: Sequence[tuple[str, Any]], style: str) -> str:
    """An object, in which a field may be twice; spelled in one of the ways that programs have."""
    separators = {"close": (",", ":"), "wide": (", ", ": "), "odd": (" ,\t", " :\n"), "comma": (",", ":")}[
        style
    ]
    pairs = [
        json.dumps(name)
        + separators[1]
        + json.dumps(value, separators=separators[:2], ensure_ascii=style == "wide")
        for name, value in entries
    ]
    return "{" + separators[0].join(pairs) + ("," if style == "comma" else "") + "}"


OBJECTS = st.builds(
    spelled,
    st.lists(ENTRIES, max_size=7),
    st.sampled_from(("close", "wide", "odd", "comma", "close", "wide")),
)
SOUND = st.builds(
    lambda number, user, price: json.dumps(
        {
            "id": f"i-{number}",
            "user": user,
            "ad": "a",
            "time": f"2026-01-01T00:00:{number:02d}Z",
            "price": price,
        }
    ),
    st.integers(0, 59),
    st.sampled_from(["u", "v", None]),
    st.sampled_from([1, 7, None]),
)
OTHERS = st.sampled_from(
    [
        None,
        "",
        "{",
        "{}",
        "[]",
        "null",
        '"x"',
        "{} x",
        '{"id":"a"',
        '{"i\\u0064":"a","time":"2026-01-01T00:00:00Z"}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","more":1e400}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","more":NaN}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","more":[-Infinity]}',
        '{"id":"a","id":"b","time":"2026-01-01T00:00:00Z"}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","more":' + "[" * 300 + "]" * 300 + "}",
        '{"id":"a","time":"2026-01-01T00:00:00Z","price":007}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","price":1.0}',
        '{"id":"a","time":"2026-01-01T00:00:00Z","more":"\\ud800"}',
        '\ufeff{"id":"a","time":"2026-01-01T00:00:00Z"}',
        ' {"id":"a","time":"2026-01-01T00:00:00Z"} ',
    ]
)
VALUES = st.one_of(OBJECTS, SOUND, OTHERS, st.binary(max_size=3))


@dataclass
class Files:
    """The trace and the sentinels of a run."""

    trace: Path
    flush: Path

    def file(self, name: str) -> Path:
        return self.trace if name == "trace" else self.flush

    def scan(self, name: str) -> str:
        return scan_of(self.file(name), name)

    def pick(self, name: str, asked: bytes) -> Iterator[Any]:
        return pick(self.file(name), Record, asked)


def records_of(rows: Sequence[tuple[str, int, str | bytes | None]]) -> list[Record]:
    return [
        Record(
            topic=topic,
            partition=partition,
            arrival_ms=0,
            value=value if not isinstance(value, bytes) else None,
            value_base64=base64.b64encode(value).decode() if isinstance(value, bytes) else None,
        )
        for topic, partition, value in rows
    ]


@dataclass
class Tables:
    """The rows of ``parsed`` in order, and how many records were left to the reader of small runs."""

    rows: list[tuple[Any, ...]]
    last: int
    odd: int


def tables_of(
    folder: Path, rows: Sequence[Record], sentinels: Sequence[Record], *, in_parquet: bool, parts: int = 1
) -> Tables:
    """In Parquet, pieces are of four rows."""
    header = Header(tidemark_trace=trace.FORMAT, pace="backlog", topics={"left": TopicSpec(3)}, slices=1)
    files = Files(folder / "trace.jsonl", folder / "flush.jsonl")
    for path, records in ((files.trace, rows), (files.flush, sentinels)):
        write_trace(path, header, records)
    if in_parquet:
        files = Files(store_trace(files.trace, "parquet"), store_trace(files.flush, "parquet"))
    odd = Counter[str]()
    read = ColumnReader.read

    def counted(reader: ColumnReader, values: Sequence[bytes | str | None]) -> Columns:
        odd["odd"] += len(values)
        return read(reader, values)

    with duckdb.connect(":memory:") as sql, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ColumnReader, "read", counted)
        patch.setattr(parquet, "GROUP_ROWS", 4)
        made = RecordTables(PartTables(sql, parts, 4), HISTORY, files)  # type: ignore[arg-type]
        made.make()
        found = sql.execute(
            "select n, p.side, p.part, p.position, id, k0, k1, p.time_us, p.readable, p.price_ from parsed p"
            " join records r on r.row = n left join keys k on k.key = r.key order by n"
        )
        return Tables(found.fetchall(), made.last, odd["odd"])


def expected(rows: Sequence[tuple[str, int, str | bytes | None]]) -> Iterator[tuple[Any, ...]]:
    """The same of each row of either side, without its number."""
    ends = Counter[tuple[str, int]]()
    for topic, part, value in rows:
        if topic not in ("left", "right"):
            continue
        side = int(topic == "right")
        start = STARTS.get(str(part), 0) if topic == "left" else 0
        columns = ColumnReader(HISTORY.side(side), HISTORY.pushdown.fields[side]).read([value])
        is_readable = columns.time_us[0] is not None
        price = columns.numbers["price"][0] if side == 0 else None
        yield (
            side, part, start + ends[topic, part], columns.id[0] if is_readable else None,
            *(columns.key[0] if is_readable else (None, None)), columns.time_us[0], is_readable, price,
        )  # fmt: skip
        ends[topic, part] += 1


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # the machine may be busy
@given(
    st.lists(st.tuples(st.sampled_from(("left", "right", "other")), st.integers(0, 2), VALUES), max_size=25),
    st.lists(st.tuples(st.sampled_from(("left", "right")), st.integers(0, 2), SOUND), max_size=2),
    st.booleans(),
    st.sampled_from((1, 3)),
)
@pytest.mark.not_smoke
def test_a_table_has_what_the_reader_of_small_runs_reads(
    rows: list[tuple[str, int, Any]], sentinels: list[tuple[str, int, Any]], in_parquet: bool, parts: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = tables_of(
            Path(folder), records_of(rows), records_of(sentinels), in_parquet=in_parquet, parts=parts
        )

    assert [row[1:] for row in tables.rows] == list(expected([*rows, *sentinels]))
    assert [row[0] for row in tables.rows] == [
        number + 1 + (not in_parquet) * (1 if number < len(rows) else 2)
        for number, (topic, *_) in enumerate([*rows, *sentinels])
        if topic != "other"
    ]
    assert sum(row[0] > tables.last for row in tables.rows) == len(sentinels)


@pytest.mark.not_smoke
def test_what_programs_write_is_not_left_to_the_reader_of_small_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of a file that two threads read: its order is that of the file."""
    monkeypatch.setattr(record_tables, "_NUMBERED", 40_001)
    styles = ((",", ":"), (", ", ": "))
    more = [1, {"a": 0.125}, None]
    rows = [
        ("left", number % 3, json.dumps(
            {"id": f"i-{number}", "user": "\u00e9" * (number % 5), "ad": None, "more": more[: number % 3],
             "price": number, "time": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z"},
            separators=styles[number % 2], ensure_ascii=False,
        ))
        for number in range(150_000)
    ]  # fmt: skip

    tables = tables_of(tmp_path, records_of(rows), [], in_parquet=False)

    assert tables.odd == 0
    assert [row[0] for row in tables.rows] == list(range(2, len(rows) + 2))
    assert [row[4] for row in tables.rows] == [f"i-{number}" for number in range(len(rows))]
    assert [row[3] for row in tables.rows[:7]] == [0, 100, 0, 1, 101, 1, 2]
