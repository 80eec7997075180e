"""The SQL oracle of a join, run by DuckDB: what comes, in which batch, and what is right.

Free of Spark and of I/O. It takes what was read and planned, as columns (``input.history``), and gives columns;
``join_relations`` has the rules.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np

from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, Disposition, History
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.oracle.spark.spark_spans import takes_right_first
from tidemark.oracle.sql.interruptible import interruptible
from tidemark.oracle.sql.join_inputs import input_tables
from tidemark.oracle.sql.join_relations import relations
from tidemark.oracle.sql.join_rules import DUCKDB, JoinRules, Select
from tidemark.oracle.sql.relation_tables import DuckDBTables, make_tables

QUIET = "set enable_progress_bar = false"
"""DuckDB writes a bar to standard output, where a verdict may be, if a statement takes more than two seconds."""
FEW_ROWS = 2_000
"""Up to so many input rows all relations are one statement, and no key is popular: a statement costs more than that."""
POPULAR = 16
_COMES, _IS_RIGHT, _DEFECT = 1, 2, 4
_DEFECTS = tuple(defect.name for defect in DEFECTS)
_NUMBER_OF_DEFECT = " ".join(f"when '{name}' then {_DEFECT * (at + 1)}" for at, name in enumerate(_DEFECTS))
_PARTS = f"""
select 0 as part, coalesce(l, r) * {1 << ROW_BITS} + case when l is null then 0 else coalesce(r + 1, 0) end as one,
    batch as two, case when is_right then {_IS_RIGHT} else 0 end + case when comes then {_COMES} else 0 end
    + case defect {_NUMBER_OF_DEFECT} else 0 end as three
from answers
union all select 1, batch, watermark_ms, 0 from watermarks
union all select 2, row, batch, coalesce(removed, {NO_BATCH}) from stored
union all select 3, row, case when is_late then 1 else 0 end, 0 from rows where is_sure
"""


@dataclass(frozen=True)
class SqlAnswer:
    """What SQL says of a run, in columns.

    ``identity``, ``batch``, ``is_right``, ``comes`` and ``defect`` are of the rows that are right, and of those that
    this Spark gives: ``defect`` is the known one that makes the difference, or ``None``. ``stored`` and ``removed`` are
    the batches in which an input row enters and leaves the state, ``NO_BATCH`` if it does not.
    """

    watermarks_ms: list[int]
    disposition: np.ndarray
    identity: np.ndarray
    batch: np.ndarray
    is_right: np.ndarray
    comes: np.ndarray
    defect: np.ndarray
    stored: np.ndarray
    removed: np.ndarray


def rules_of(history: History, *, by_checkpoint: bool = False) -> JoinRules:
    """The rules of a run's join, in the Spark that ran it."""
    right_first, left_first = takes_right_first(history.manifest)
    popular = None if len(history.rows) <= FEW_ROWS else POPULAR
    return JoinRules(
        history.contract, history.pushdown, history.by_time, history.misses_rows, by_checkpoint, popular,
        semi_right_first=right_first, left_first=left_first,
    )  # fmt: skip


def ask(history: History, *, by_checkpoint: bool = False) -> SqlAnswer:
    """Ask SQL; ``by_checkpoint``: with the watermarks that the checkpoint names, not those that the rows give."""
    rest = history.rest
    rules = rules_of(history, by_checkpoint=by_checkpoint or rest is not None)
    found = relations(rules, DUCKDB)
    with database().cursor() as sql:  # a connection of its own: what it makes nobody else sees
        sql.execute(QUIET)
        for name, columns in input_tables(history).items():
            sql.register(name, columns)
        if rules.popular is not None:
            make_tables(DuckDBTables(sql), found, _PARTS)
        answer = _read(history, sql, as_one(found) if rules.popular is None else "")
    return answer if rest is None else replace(answer, watermarks_ms=list(rest.watermarks_ms))


def as_one(found: Sequence[Select]) -> str:
    """The relations in one statement, as the beginning of a query."""
    return "with " + ", ".join(f"{one.name} as materialized ({one.text})" for one in found)


def _read(history: History, sql: duckdb.DuckDBPyConnection, begin: str) -> SqlAnswer:
    """All parts of the answer by one query: a statement costs more than the rows of a small run."""
    columns = interruptible(sql, lambda: sql.execute(f"{begin} {_PARTS}").fetchnumpy())
    part, one, two, three = (np.ma.getdata(columns[name]) for name in ("part", "one", "two", "three"))
    rows, watermarks, stored, inputs = (np.flatnonzero(part == number) for number in range(4))
    watermarks = watermarks[np.argsort(one[watermarks])]
    disposition = np.frombuffer(bytes(history.rows.disposition), dtype=np.uint8).copy()
    disposition[one[inputs]] = np.where(two[inputs] == 1, Disposition.LATE, Disposition.ACCEPTED)
    return SqlAnswer(
        watermarks_ms=two[watermarks].tolist(),
        disposition=disposition,
        identity=one[rows],
        batch=two[rows],
        is_right=three[rows] & _IS_RIGHT > 0,
        comes=three[rows] & _COMES > 0,
        defect=np.array([None, *_DEFECTS], dtype=object)[three[rows] // _DEFECT],
        stored=_spread(history, one[stored], two[stored]),
        removed=_spread(history, one[stored], three[stored]),
    )


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """One empty database in memory for all judgements of a process: opening one takes as long as a small run."""
    return duckdb.connect(":memory:", config={"threads": 2})


def _spread(history: History, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = np.full(len(history.rows), NO_BATCH, dtype=np.int32)
    found[rows] = values
    return found
