"""Reads the state of every operator of a chain from its checkpoint, with Spark's state data source.

Each row of a state becomes a line of JSON (``state.jsonl`` in ``tidemark/formats/evidence.py``). A chain does
not say what the query calls its columns, so keys and values go by their types: a time is microseconds since the epoch,
a window its end, everything else its text.

Stores (Spark 4.2): of a join those that ``pipelines.state`` names; of every other operator one, ``default``, which has
for an aggregate its groups and what its functions have gathered, for a deduplication its keys and, within the
watermark, when they are forgotten (``expiresAtMicros``), for a limit how many rows it has taken.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.functions import array, col, lit, struct, to_json, unix_micros
from pyspark.sql.types import NullType, StructType, TimestampType

from pipelines.state import OPERATOR, StateProblem, has_reader, rows_store, write_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

WINDOW = ["start", "end"]
OF_SPARK = ("index", "matched", "__event_time")
"""Columns of a join's state that are no columns of the query."""


def write_operator_state(session: SparkSession, checkpoint: str, wanted: dict[str, Any]) -> int:
    """Write the rows of all states after each of ``wanted["batches"]`` to the file ``wanted["path"]``.

    ``wanted["format"]`` is the state format of its joins. Returns the number of rows. Raises ``StateProblem``, and
    Spark's errors.
    """
    has_reader(session)
    stores = _stores(session, checkpoint, wanted["format"])
    parts = [_rows(session, checkpoint, batch, store) for batch in wanted["batches"] for store in stores]
    lines = [row[0] for row in reduce(lambda some, more: some.union(more), parts).collect()] if parts else []
    write_lines(wanted["path"], lines)
    return len(lines)


class _Store(NamedTuple):
    """The store that has the rows of an operator, of a join those of a side."""

    operator: int
    name: str
    side: str
    store: str


def _stores(session: SparkSession, checkpoint: str, form: int) -> list[_Store]:
    """Those of all operators; an operator with one input has a left side only."""
    known = session.read.format("state-metadata").load(checkpoint).select("operatorId", "operatorName")
    operators = sorted({(int(number), str(name)) for number, name in known.collect()})
    if not operators:
        raise StateProblem("the query has no operator with a state")
    found: list[_Store] = []
    for number, name in operators:
        if name == OPERATOR:
            found += [_Store(number, name, side, f"{side}-{rows_store(form)}") for side in ("left", "right")]
        else:
            found.append(_Store(number, name, "left", "default"))
    return found


def _rows(session: SparkSession, checkpoint: str, batch: int, place: _Store) -> DataFrame:
    """The lines of one store after a batch."""
    operator, name, side, store = place
    source = session.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    rows = source.option("storeName", store).load(checkpoint)
    spark_own = OF_SPARK if name == OPERATOR else ()
    keys, values = _fields(rows, "key", spark_own), _fields(rows, "value", spark_own)
    flag = col("value.matched") if name == OPERATOR else lit(None)
    times = [_micros(*one) for one in values if _is_time(one[1])] if name == OPERATOR else []
    line = struct(
        lit(batch).alias("batch"),
        lit(operator).alias("operator"),
        lit(name).alias("name"),
        lit(side).alias("side"),
        _array([_text(*one) for one in keys], "string").alias("key"),
        (times[0] if len(times) == 1 else lit(None)).cast("bigint").alias("time_us"),
        lit(None).cast("array<bigint>").alias("ref"),
        flag.cast("boolean").alias("matched"),
        _array([_text(*one) for one in values] if name != OPERATOR else [], "string").alias("values"),
    )
    return rows.select(to_json(line, {"ignoreNullFields": "false"}))


def _fields(rows: DataFrame, part: str, spark_own: Sequence[str]) -> list[tuple[str, StructField]]:
    """The query's columns of a key or a value; what is NULL by its type is none."""
    found = rows.schema[part].dataType
    fields = found.fields if isinstance(found, StructType) else []
    return [
        (f"{part}.`{field.name}`", field)
        for field in fields
        if field.name not in spark_own and not isinstance(field.dataType, NullType)
    ]


def _is_time(field: StructField) -> bool:
    kind = field.dataType
    return isinstance(kind, TimestampType) or (isinstance(kind, StructType) and kind.names == WINDOW)


def _micros(place: str, field: StructField) -> Column:
    return unix_micros(col(f"{place}.end" if isinstance(field.dataType, StructType) else place))


def _text(place: str, field: StructField) -> Column:
    return (_micros(place, field) if _is_time(field) else col(place)).cast("string")


def _array(columns: Sequence[Column], kind: str) -> Column:
    return array(*columns) if columns else lit(None).cast(f"array<{kind}>")
