"""DuckDB as the engine of a reduction: the default. It scans the files itself, and spills into a temporary folder."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import msgspec

from tidemark.errors import TestbedError
from tidemark.formats.evidence import InputRecord, OutputRecord
from tidemark.oracle.large import output
from tidemark.oracle.large.engine import Engine, LargeRun
from tidemark.oracle.large.record_tables import Database, Records, scanned
from tidemark.oracle.sql.join_answer import QUIET
from tidemark.oracle.sql.relation_tables import DuckDBTables

_LEAST_MB, _RECORDS_OF_A_MB, _MOST_MB = 400, 16_000, 2_500
"""What DuckDB holds in memory: so much, and more with the number of records, but never more than that; the rest is in
its temporary folder.
"""
_FETCHED = 10_000


@contextmanager
def duckdb_engine(run: LargeRun) -> Iterator[Engine]:
    """DuckDB, for the length of the block. Raises ``TestbedError`` if it has neither memory nor disk for the run."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _explained():
        config: dict[str, Any] = {"memory_limit": memory_limit(run.records), "temp_directory": folder}
        with duckdb.connect(":memory:", config=config) as sql:
            sql.execute(QUIET)
            yield _DuckDBEngine(sql, run)


def memory_limit(records: int) -> str:
    """What DuckDB may hold in memory for a run of so many input records."""
    return f"{min(_MOST_MB, _LEAST_MB + records // _RECORDS_OF_A_MB)}MB"


@contextmanager
def _explained() -> Iterator[None]:
    """Say what DuckDB lacked."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise TestbedError(
            "the run could not be judged: DuckDB has too little memory or disk for it",
            detail=str(error).partition("\n")[0],
            hint=f"its temporary files are below {tempfile.gettempdir()!r}: free some space there, or set TMPDIR",
        ) from error


class _DuckDBEngine(DuckDBTables):
    """The tables of one connection, and the scans of the evidence."""

    def __init__(self, sql: Database, run: LargeRun) -> None:
        super().__init__(sql)
        self._history = run.history
        scans = {name: run.evidence.scan(name) for name in ("trace", "flush", "output")}
        self._records = Records(sql, run.history, scanned(scans["trace"] or "", scans["flush"]))
        self._output_scan = scans["output"] or ""

    def make_records(self) -> None:
        """Make the tables of the records."""
        self._records.make()

    def make_came(self) -> None:
        """Make the table of the output records."""
        output.make_came(self._sql, self._history, self._output_scan)

    def inputs(self, chosen: str) -> list[InputRecord]:
        """The chosen records, in order."""
        found = self._sql.execute(
            f"select topic, part, w.position, value, value_base64, is_sentinel from ({self._records.scan}) s"
            f" join ({chosen}) w using (n) order by n"
        )
        rows: list[InputRecord] = []
        while some := found.fetchmany(_FETCHED):
            rows += [
                InputRecord(
                    topic,
                    part,
                    position,
                    value if encoded is None else base64.b64decode(encoded),
                    is_sentinel,
                )
                for topic, part, position, value, encoded, is_sentinel in some
            ]
        return rows

    def outputs(self, chosen: str) -> list[OutputRecord]:
        """The chosen output records, in order."""
        found = self._sql.execute(
            'select partition, "offset", value, key, headers, coalesce(timestamp_ms, 0)'
            f" from (select row_number() over () as o, * from {self._output_scan}) s semi join ({chosen}) c using (o)"
            " order by o"
        )
        decode = msgspec.json.Decoder(list[tuple[str, Any]]).decode
        rows: list[OutputRecord] = []
        while some := found.fetchmany(_FETCHED):
            rows += [
                msgspec.convert(
                    {"partition": part, "offset": offset, "value": value, "key": key,
                     "headers": decode(headers or "[]"), "timestamp_ms": at},
                    OutputRecord,
                )
                for part, offset, value, key, headers, at in some
            ]  # fmt: skip
        return rows
