"""DuckDB as the engine of a reduction: the default. It scans the files itself, and spills into a temporary folder."""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb

from tidemark.errors import BrokenEvidence, TestbedError, TidemarkError, UsageError
from tidemark.formats.evidence import InputRecord, OutputRecord, StateRow
from tidemark.formats.scans import scans_in_pieces
from tidemark.oracle.large import output
from tidemark.oracle.large.engine import Engine, LargeRun, OpenEngine
from tidemark.oracle.large.part_tables import PartTables
from tidemark.oracle.large.record_tables import Database, RecordTables, asked_for
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_answer import QUIET

_LEAST_MB, _RECORDS_OF_A_MB, _MOST_MB = 350, 15_000, 2_500
"""What DuckDB holds in memory: so much, and more with the number of records, but never more than that; the rest is in
its temporary folder.
"""
_PART_ROWS_OF_A_MB = 5_000
"""The joins of so many records are made with a megabyte at a time."""
_PIECE_ROWS_OF_A_MB = 2_000
"""So many rows of a file are read with a megabyte at a time, beside what is in the parts by then."""
_SIZE = re.compile(r"([1-9][0-9]{0,5}) ?([MGT]B)").fullmatch
_MEGABYTES = {"MB": 1, "GB": 1_000, "TB": 1_000_000}


@contextmanager
def duckdb_engine(run: LargeRun, memory: str | None = None) -> Iterator[Engine]:
    """DuckDB, for the length of the block.

    Raises ``TestbedError`` if it has neither memory nor disk for the run, and ``BrokenEvidence`` or ``BrokenTrace``, as
    the judgement of a small run does, for evidence that cannot be read.
    """
    limit = memory or memory_limit(run.records)
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _explained(run, limit):
        config: dict[str, Any] = {"memory_limit": limit, "temp_directory": folder}
        with duckdb.connect(":memory:", config=config) as sql:
            sql.execute(QUIET)
            if (parts := parts_of(limit, run.records)) > 1:  # the memory is full most of the time
                sql.execute(f"set block_allocator_memory = '{limit}'")
            yield _DuckDBEngine(sql, run, parts, megabytes(limit) * _PIECE_ROWS_OF_A_MB)


def engine_with(memory: str | None) -> OpenEngine:
    """DuckDB with so much memory (``"8GB"``); ``None``: as much as the run needs (:func:`memory_limit`).

    Raises ``UsageError`` for what is no size.
    """
    if memory is not None and not _SIZE(memory):
        raise UsageError(f"{memory!r} is no amount of memory", hint="write it as 500MB, or 8GB")
    return partial(duckdb_engine, memory=memory)


def memory_limit(records: int) -> str:
    """What DuckDB may hold in memory for a run of so many input records."""
    return f"{min(_MOST_MB, _LEAST_MB + records // _RECORDS_OF_A_MB)}MB"


def parts_of(limit: str, records: int) -> int:
    """In how many parts so many input records are joined with so much memory."""
    return 1 + records // (megabytes(limit) * _PART_ROWS_OF_A_MB)


def megabytes(limit: str) -> int:
    """An amount of memory in megabytes."""
    size = _SIZE(limit)
    assert size is not None
    return int(size[1]) * _MEGABYTES[size[2]]


@contextmanager
def _explained(run: LargeRun, limit: str) -> Iterator[None]:
    """Say what DuckDB lacked, or what is wrong with the evidence: what reads it as in small runs says where."""
    try:
        yield
    except TidemarkError:
        raise
    except duckdb.OutOfMemoryException as error:
        raise TestbedError(
            f"the run could not be judged: DuckDB needs more memory than {limit}",
            detail=_first_line(error),
            hint="`tidemark check DIR --memory 8GB` gives it more; a run that no machine holds is for --engine spark",
        ) from error
    except Exception as error:
        _read_all(run)
        if isinstance(error, duckdb.IOException):
            raise TestbedError(
                "the run could not be judged: DuckDB has too little disk for it",
                detail=_first_line(error),
                hint=f"its temporary files are below {tempfile.gettempdir()!r}: free some space there, or set TMPDIR",
            ) from error
        if isinstance(error, duckdb.Error):
            raise BrokenEvidence(
                "the evidence cannot be read",
                detail=f"{type(error).__name__}: {_first_line(error)}",
                hint="the docstring of tidemark/formats/evidence.py describes each file; a time may be too large",
            ) from error
        raise


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _read_all(run: LargeRun) -> None:
    """Read what DuckDB reads of the evidence, record by record; raises what is wrong with it."""
    for records in (run.evidence.inputs(), run.evidence.output(), run.evidence.state() or ()):
        deque(records, maxlen=0)


class _DuckDBEngine(PartTables):
    """The tables of one connection, and the scans of the evidence."""

    def __init__(self, sql: Database, run: LargeRun, parts: int, piece_rows: int) -> None:
        super().__init__(sql, parts, piece_rows)
        self._run = run
        self._records = RecordTables(self, run.history, run.evidence)

    def make_records(self) -> None:
        """Make the tables of the records."""
        self._records.make()

    def make_came(self) -> None:
        """Make the table of the output records."""
        history, evidence = self._run.history, self._run.evidence
        query = history.manifest.query_id or ""
        written = output.WrittenOutput(
            query,
            evidence.scan("output", query) or "",
            scans_in_pieces(evidence.file("output"), "output", self.piece_rows, query),
            partial(evidence.pick, "output"),
        )
        output.make_came(self, history.contract.output, written)

    def make_state(self) -> None:
        """Make the table of the rows of the state."""
        keys = "".join(f", key[{at}] as {name}" for at, name in enumerate(self._records.keys, 1))
        self.make_in_order(
            "scanned_state",
            f"select batch, case when side = 'left' then {LEFT} else {RIGHT} end as side, part, position,"
            f" key is not null as has_key{keys}, time_us, matched from {self._run.evidence.scan('state')}",
        )
        self.sql.execute("create temp view state_rows as select rowid + 1 as s, * from scanned_state")

    def inputs(self, chosen: str) -> list[InputRecord]:
        """The chosen records, in order."""
        found = self.sql.execute(f"select n, position from ({chosen}) chosen_records order by n").fetchnumpy()
        numbers, positions = found["n"], found["position"]
        return [
            InputRecord(
                record.topic,
                record.partition,
                position,
                record.text_or_bytes(),
                number > self._records.last,
                record.is_absent,
            )
            for record, number, position in zip(
                self._records.records(numbers), numbers.tolist(), positions.tolist(), strict=True
            )
        ]

    def outputs(self, chosen: str) -> list[OutputRecord]:
        """The chosen output records, in order."""
        numbers = self.sql.execute(f"select o from ({chosen}) chosen_records order by o").fetchnumpy()["o"]
        return list(self._run.evidence.pick("output", asked_for(numbers)))

    def state(self, chosen: str) -> list[StateRow]:
        """The chosen rows of the state, in order."""
        numbers = self.sql.execute(f"select s from ({chosen}) chosen_rows order by s").fetchnumpy()["s"]
        return list(self._run.evidence.pick("state", asked_for(numbers)))
