"""Tables of one Spark session: each is computed once, and stays in the local storage of the executors.

A table is a local checkpoint: its plan begins with it, so that plans stay short, and no folder is needed that all
executors see. An executor that is lost takes its share of the tables along, and ends the judgement. A small table is
fetched and sent back with the plans that read it, so that Spark knows its size, and broadcasts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession

from tidemark.oracle.sql.join_inputs import Columns
from tidemark.oracle.sql.join_rules import SPARK
from tidemark.oracle.sql.relation_tables import Rows

_SMALL_ROWS = 5_000
_BROADCAST_BYTES = 16 << 20
_ARROW = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "string": pa.string(),
}
_SQL = {kind: name for name, kind in _ARROW.items()}


class SparkTables:
    """Tables by name: temporary views of a session."""

    each_number = SPARK
    bucket_us: int | None = 60_000_000

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._frames: dict[str, DataFrame] = {}
        self._stored: dict[str, set[int]] = {}

    def make(self, name: str, text: str) -> None:
        """Make the table of a ``select``, in the place of one of this name."""
        self._describe(name)
        before = self._persistent()
        frame = self._owned(self._session.sql(text).localCheckpoint(storageLevel=StorageLevel.DISK_ONLY))
        made = set(self._persistent()) - set(before)
        some = frame.limit(_SMALL_ROWS + 1).collect()
        if len(some) <= _SMALL_ROWS:
            frame = self.local(_as_arrow(some, frame.dtypes))
            self._release(made)
            made = set()
        elif made and self._size_bytes(made) <= _BROADCAST_BYTES:
            frame = frame.hint("broadcast")
        self._replace(name, frame, made)

    def view(self, name: str, frame: DataFrame) -> None:
        """Let a frame be read by name; it is computed each time."""
        self._replace(name, frame, set())

    def register(self, name: str, columns: Columns) -> None:
        """Make a small table of columns."""
        self.view(name, self.local(pa.table({one: pa.array(of) for one, of in columns.items()})))

    def local(self, table: pa.Table) -> DataFrame:
        """The rows of a small table of this process, with the plan; Connect infers no types where there are none."""
        if table.num_rows:
            return self._session.createDataFrame(table).hint("broadcast")
        columns = ", ".join(f"cast(null as {_SQL[field.type]}) as `{field.name}`" for field in table.schema)
        return self._session.sql(f"select {columns} where false")

    def drop(self, name: str) -> None:
        """Forget a table, and what is stored of it."""
        self._session.catalog.dropTempView(name)
        self._frames.pop(name, None)
        self._release(self._stored.pop(name, set()))

    def rows(self, text: str) -> Rows:
        """The rows of a query, all of them."""
        self._describe(text)
        return [tuple(row) for row in self._session.sql(text).collect()]

    def _describe(self, what: str) -> None:
        """Name the jobs that follow, for Spark's own pages and logs."""
        if is_classic(self._session):
            self._session.sparkContext.setJobDescription(what)

    def _owned(self, frame: Any) -> DataFrame:
        """A checkpoint as this session's: Connect gives it to the session that is active in this thread."""
        if not is_classic(self._session):
            frame._session = frame._plan._spark_session = self._session
        owned: DataFrame = frame
        return owned

    def _replace(self, name: str, frame: DataFrame, stored: set[int]) -> None:
        frame.createOrReplaceTempView(name)
        self._frames[name] = frame
        self._release(self._stored.pop(name, set()))
        self._stored[name] = stored

    def _persistent(self) -> dict[int, Any]:
        """What a session of this process stores, by number; a Connect server forgets it with the frame."""
        if not is_classic(self._session):
            return {}
        return dict(self._session.sparkContext._jsc.getPersistentRDDs())

    def _size_bytes(self, stored: set[int]) -> int:
        """How much is stored; Spark takes the size of a checkpoint for what its plan was estimated to give."""
        found = self._session.sparkContext._jsc.sc().getRDDStorageInfo()
        return sum(one.memSize() + one.diskSize() for one in found if one.id() in stored)

    def _release(self, stored: set[int]) -> None:
        for number, rdd in self._persistent().items() if stored else ():
            if number in stored:
                rdd.unpersist()


def _as_arrow(rows: Sequence[Row], types: Sequence[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[at] for row in rows], _ARROW[kind]) for at, (name, kind) in enumerate(types)}
    )


def is_classic(session: SparkSession) -> bool:
    """Whether the session's driver is of this process."""
    return type(session).__module__ != "pyspark.sql.connect.session"
