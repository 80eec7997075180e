"""Spark as the engine of a reduction: it reads Parquet on executors, with the readers of small runs.

The numbers of records are those of the file: Spark knows the place of each row in a Parquet file. JSON Lines have no
such places, so that evidence in them is refused, but for the few sentinels, which are read here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from tidemark.errors import TestbedError, UsageError
from tidemark.formats.evidence import InputRecord, OutputRecord, StateRow
from tidemark.formats.parquet import count_rows
from tidemark.formats.scans import text_of
from tidemark.formats.trace import Base64, TraceReader
from tidemark.oracle.large.engine import Engine, LargeRun, OpenEngine, count_repeated, key_names
from tidemark.oracle.large.output import came_relations, fields_of_output
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_rules import Select, column_of, quoted
from tidemark.oracle.sql.relation_tables import make_tables
from tidemark.sparksql.executor_readers import (
    PICKLED_BY_VALUE,
    EventFields,
    Reader,
    claim_reader,
    event_reader,
    in_order,
)
from tidemark.sparksql.spark_sessions import SPARK_ERRORS, first_lines, open_session
from tidemark.sparksql.spark_tables import SparkTables

_STATE = ("batch", "side", "key", "time_us", "ref_partition", "ref_offset", "matched")
"""The columns of a file of the state."""
_RECORDS_OF_A_PARTITION = 200_000
_FEWEST_PARTITIONS, _MOST_PARTITIONS = 8, 20_000
"""Calibration: a partition of a shuffle is sorted in some 50 MB."""
_TYPES = {"string": StringType(), "bigint": LongType(), "boolean": BooleanType()}
_RECORDS = pa.schema(
    [("n", pa.int64()), ("topic", pa.string()), ("part", pa.int64()), ("value", pa.string()),
     ("value_bytes", pa.binary()), ("is_sentinel", pa.bool_()), ("is_absent", pa.bool_())]
)  # fmt: skip


def spark_engine(master: str | None = None, conf: Sequence[str] = ()) -> OpenEngine:
    """What opens Spark for a run: ``tidemark.sparksql.spark_sessions`` says which; ``conf`` has ``NAME=VALUE``.

    Raises ``UsageError`` for evidence in JSON Lines, and ``TestbedError`` where Spark fails.
    """

    @contextmanager
    def opened(run: LargeRun) -> Iterator[Engine]:
        must_be_parquet(run)
        with open_session(master, conf) as session, engine_of(session)(run) as engine:
            yield engine

    return opened


def engine_of(session: SparkSession) -> Callable[[LargeRun], AbstractContextManager[Engine]]:
    """What makes an engine of a session, which gets the settings that the judgement needs."""

    @contextmanager
    def opened(run: LargeRun) -> Iterator[Engine]:
        must_be_parquet(run)
        with _explained():
            for name, value in _settings(run.records).items():
                session.conf.set(name, value)
            yield _SparkEngine(session, run)

    return opened


def must_be_parquet(run: LargeRun) -> None:
    """Raises ``UsageError`` for a trace, an output or a state in JSON Lines."""
    for name in ("trace", "output", *(["state"] if run.evidence.state() is not None else [])):
        path = run.evidence.file(name)
        if path.suffix != ".parquet":
            raise UsageError(
                f"{str(path)!r} is no Parquet file, and Spark reads no other evidence",
                detail="lines of text have no numbers that Spark knows",
                hint=f"`tidemark convert {path.parent} --to parquet` converts the run directory",
            )


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise TestbedError(
            "the run could not be judged: Spark failed",
            detail=first_lines(error),
            hint="driver and executors must see the run directory under its path, and have pyarrow and msgspec;"
            " --spark-conf sets their memory, --spark-master names another Spark",
        ) from error


def _settings(records: int) -> dict[str, str]:
    """The settings of a session for a run of so many records."""
    partitions = min(_MOST_PARTITIONS, max(_FEWEST_PARTITIONS, records // _RECORDS_OF_A_PARTITION))
    return {
        # Double quotes are of names, as in the standard; what does not fit into a type is an error.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.session.timeZone": "UTC",
        # What is small is broadcast by a hint, or once its size has been seen: a Parquet file is ten times as large in
        # memory, and Spark would take it for small.
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": str(10 << 20),
        "spark.sql.shuffle.partitions": str(partitions),
        # A task reads some 400,000 records.
        "spark.sql.files.maxPartitionBytes": str(16 << 20),
    }


class _SparkEngine(SparkTables):
    """The tables of one session, and the files of the evidence."""

    def __init__(self, session: SparkSession, run: LargeRun) -> None:
        super().__init__(session)
        self._history = run.history
        self._trace, self._flush, self._output, self._state = map(
            run.evidence.file, ("trace", "flush", "output", "state")
        )
        self._keys = key_names(run.history)
        self._numbers = (
            tuple(run.history.pushdown.fields[LEFT]),
            tuple(run.history.pushdown.fields[RIGHT]),
        )
        self._every = {name: column_of(name) for name in (*self._numbers[LEFT], *self._numbers[RIGHT])}

    def make_records(self) -> None:
        """Make the tables of the records. ``starts`` is there."""
        sides = self._history.contract.left, self._history.contract.right
        self._read_trace()
        types = {"n": "bigint", "side": "bigint", "part": "bigint", "is_sentinel": "boolean", "id": "string"}
        types |= {"time_us": "bigint", "readable": "boolean", **dict.fromkeys(self._keys, "string")}
        types |= dict.fromkeys(self._every.values(), "bigint")
        reader = event_reader(EventFields(sides, self._numbers, self._every))
        self._map("decoded", "trace_records", reader, types)
        fields = "".join(f", {quoted(name)}" for name in self._every)
        keys = ", ".join(self._keys)
        self.make(
            "parsed",
            f"select *, case when readable then min(n) over (partition by readable, {keys}) end as key from ("
            " select d.*, 0 as in_part,"
            " coalesce(s.position, 0) + row_number() over (partition by d.side, d.part order by d.n) - 1 as position"
            " from decoded d left join starts s on s.side = d.side and s.part = d.part) placed_records",
        )
        self.view("keys", self._session.sql(f"select key, {keys} from parsed where n = key"))
        is_null = " or ".join(f"{key} is null" for key in self._keys)
        self.make(
            "records",
            f"select n as row, side, part, position, key, {is_null} as has_null_key, time_us, readable{fields}"
            " from parsed",
        )
        topics = " ".join(f"when {text_of(one.topic)} then {side}" for side, one in enumerate(sides))
        self.make(
            "absent",
            f"select n as row, side from (select n, case topic {topics} end as side from trace_records"
            " where is_absent and not is_sentinel) absent_records where side is not null",
        )

    parts = 1
    """All at once: the partitions of a shuffle are its parts."""

    def drop_columns(self, name: str, columns: Sequence[str]) -> None:
        """Nothing: a column that is not read is not computed again, and stays on disk."""

    def make_relations(self, found: Sequence[Select], reader: str) -> None:
        """Make the tables of the relations of a join; those stay that ``reader`` reads."""
        make_tables(self, found, reader)

    def repeated(self, columns: str, text: str) -> int:
        """How many rows of a ``select`` have the values of an earlier one."""
        return count_repeated(self, columns, text)

    def make_came(self) -> None:
        """Make the table of the output records."""
        rows = _parquet(self._session, self._output)
        columns = (
            "partition",
            '"offset"',
            "key",
            "value",
            "headers",
            "coalesce(timestamp_ms, 0) as timestamp_ms",
        )
        self.view("output_records", rows.selectExpr("_metadata.row_index + 1 as o", *columns))
        fields = fields_of_output(self._history.contract.output)
        ids = [name for name in fields if name.endswith("_id")]
        places = [name for name in fields if name not in ids]
        reader = claim_reader(
            self._history.manifest.query_id or "",
            [fields[name] for name in (*ids, *places)],
            has_refs=bool(places),
        )
        types = {"o": "bigint", "part": "bigint", "batch": "bigint", "is_plain": "boolean"}
        types |= dict.fromkeys(ids, "string") | dict.fromkeys(places, "bigint")
        self._map("claims", "output_records", reader, types)
        *found, came = came_relations(self._history.contract.output, "claims", "o", lambda *_: "parsed")
        for relation in found:
            self.view(relation.name, self._session.sql(relation.text))
        self.make(came.name, came.text)

    def make_state(self) -> None:
        """Make the table of the rows of the state."""
        rows = _parquet(self._session, self._state)
        self.view("state_records", rows.selectExpr("_metadata.row_index + 1 as s", *_STATE))
        keys = "".join(f", try_element_at(key, {at}) as {name}" for at, name in enumerate(self._keys, 1))
        self.make(
            "state_rows",
            f"select s, batch, case when side = 'left' then {LEFT} else {RIGHT} end as side, ref_partition as part,"
            f" ref_offset as position, key is not null as has_key{keys}, time_us, matched from state_records",
        )

    def inputs(self, chosen: str) -> list[InputRecord]:
        """The chosen records, in order."""
        found = self._session.sql(
            "select /*+ broadcast(w) */ t.topic, t.part, w.position, t.value, t.value_bytes, t.is_sentinel, t.is_absent"
            f" from trace_records t join ({chosen}) w on w.n = t.n order by t.n"
        ).toArrow()
        return [
            InputRecord(topic, part, position, raw if value is None else value, is_sentinel, is_absent)
            for topic, part, position, value, raw, is_sentinel, is_absent in _rows_of(found)
        ]

    def outputs(self, chosen: str) -> list[OutputRecord]:
        """The chosen output records, in order."""
        found = self._session.sql(
            'select /*+ broadcast(c) */ r.partition, r."offset", r.value, r.key, r.headers, r.timestamp_ms'
            f" from output_records r join ({chosen}) c on c.o = r.o order by r.o"
        ).toArrow()
        return [
            OutputRecord(
                partition=partition, offset=offset, value=value, key=key, timestamp_ms=at,
                headers=[
                    (one["name"], one["value"] if one["value_bytes"] is None else Base64(one["value_bytes"]))
                    for one in headers or ()
                ],
            )
            for partition, offset, value, key, headers, at in _rows_of(found)
        ]  # fmt: skip

    def state(self, chosen: str) -> list[StateRow]:
        """The chosen rows of the state, in order."""
        found = self._session.sql(
            f"select /*+ broadcast(c) */ {', '.join(f'r.{name}' for name in _STATE)}"
            f" from state_records r join ({chosen}) c on c.s = r.s order by r.s"
        ).toArrow()
        return [
            StateRow(
                batch=batch, side=side, key=None if key is None else tuple(key), time_us=time_us,
                ref=None if part is None else (part, position), matched=matched,
            )
            for batch, side, key, time_us, part, position, matched in _rows_of(found)
        ]  # fmt: skip

    def _read_trace(self) -> None:
        """``trace_records``: those of the file, and behind them the sentinels."""
        columns = ("topic", "coalesce(partition, 0) as part", "value", "value_bytes", "false as is_sentinel")
        rows = _parquet(self._session, self._trace)
        is_absent = "coalesce(get_json_object(line, '$.absent') is not null, false) as is_absent"
        rows = rows.selectExpr("_metadata.row_index + 1 as n", *columns, is_absent)
        sentinels = _sentinels(self._flush, count_rows(self._trace))
        self.view("trace_records", rows.unionByName(self.local(sentinels)))

    def _map(self, name: str, source: str, reader: Reader, types: dict[str, str]) -> None:
        """A view of what a reader on executors makes of the rows of another one.

        Connect pickles the function when it sends the view.
        """
        schema = StructType([StructField(column, _TYPES[kind]) for column, kind in types.items()])
        modules = [sys.modules[module] for module in PICKLED_BY_VALUE]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            self.view(name, self._session.table(source).mapInArrow(in_order(reader, list(types)), schema))
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _parquet(session: SparkSession, path: Path) -> DataFrame:
    """The rows of a Parquet file of this machine, whatever its name."""
    return session.read.parquet("file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path.resolve())))


def _sentinels(flush: Path, before: int) -> pa.Table:
    """The records of the flush, with the numbers behind those of the trace."""
    rows: list[dict[str, object]] = []
    if flush.is_file():
        with TraceReader(flush) as reader:
            rows = [
                {
                    "n": number, "topic": one.topic, "part": one.partition, "value": one.value,
                    "value_bytes": one.value_bytes() if one.value is None else None, "is_sentinel": True,
                    "is_absent": one.is_absent,
                }
                for number, one in enumerate(reader, before + 1)
            ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_RECORDS)


def _rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
