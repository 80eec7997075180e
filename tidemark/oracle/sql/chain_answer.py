"""The SQL oracle of a chain, run by DuckDB: the rows of each step, with the batch of each, from the offsets on.

Free of Spark and of I/O, and of the model. Batches, the query's watermark, late rows, and when a row is forgotten are
the relations of a single join, asked of each step of the tree (``chain_relations``). A step's watermark is the query's
less a number that the steps below it make. A table has the rows of each step: ``row``, ``batch``, and its fields
(``join_rules.column_of``).

Which of the copies a deduplication keeps is not determined, nor which rows a limit takes: the choice is given, and SQL
says what must be true of any, batch by batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.formats import chain
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.rows import Row
from tidemark.oracle.spark.known_defects import (
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
    UNUSED_SIDE_HOLDS_THE_WATERMARK,
)
from tidemark.oracle.spark.outer_join_elimination import as_run
from tidemark.oracle.spark.spark_versions import rules_of_spark
from tidemark.oracle.sql import chain_relations
from tidemark.oracle.sql.chain_relations import time_of
from tidemark.oracle.sql.join_answer import FEW_ROWS, POPULAR, QUIET, as_one, database
from tidemark.oracle.sql.join_inputs import plan_tables
from tidemark.oracle.sql.join_rules import Select, column_of, quoted
from tidemark.oracle.sql.relation_tables import DuckDBTables
from tidemark.oracle.sql.row_relations import PLACED, watermark_relations

_ARROW = {chain.STRING: pa.string(), chain.BIGINT: pa.int64(), chain.TIME: pa.int64()}

Choices = Iterable[Sequence[Sequence[Row]]]
"""Of each step that chooses, in order: the rows that it takes in each batch."""


@dataclass
class ChainAnswer:
    """What SQL says of a run: of each batch its watermark, and the values that the last step gives.

    ``late`` is the number of late rows of each step but the sources, ``broken`` the promises of a choice that are not
    kept.
    """

    watermarks_ms: list[int] = field(default_factory=list)
    rows: list[list[tuple[Any, ...]]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def ask_chain(history: ChainHistory, choices: Choices, defects: Collection[str]) -> ChainAnswer:
    """Ask SQL what a Spark with these known defects gives."""
    with database().cursor() as sql:  # a connection of its own: what it makes nobody else sees
        sql.execute(QUIET)
        return _Question(history, choices, defects, sql).answer()


@dataclass(frozen=True)
class _Made:
    """The table of a step, whose watermark is ``behind_ms`` behind the query's; ``None``: it has none.

    ``delay_ms`` is the watermark delay of the source that its event time comes from.
    """

    name: str
    behind_ms: int | None = None
    delay_ms: int = 0


class _Question:
    """The tables of one run."""

    def __init__(
        self,
        history: ChainHistory,
        choices: Choices,
        defects: Collection[str],
        sql: duckdb.DuckDBPyConnection,
    ) -> None:
        waits = rules_of_spark(history.manifest.versions).waits_for_unread
        self._plan = as_run(
            history.chain,
            drops_sides=not waits or UNUSED_SIDE_HOLDS_THE_WATERMARK in defects,
            waits_for_unread=waits,
        )
        self._loses = LEFT_SEMI_LOSES_SAME_BATCH_ROWS in defects
        self._history = history
        self._choices = iter(choices)
        self._tables = DuckDBTables(sql)
        rows = sum(len(of_source) for batch in history.batches for of_source in batch.rows)
        self._popular = None if rows <= FEW_ROWS else POPULAR
        self._sources = iter(range(len(self._plan.sources)))
        self._answer = ChainAnswer()

    def answer(self) -> ChainAnswer:
        """Make all tables, and read the last one."""
        self._place_rows()
        last, found = self._run(self._plan.chain.last), self._answer
        text = "select watermark_ms from query_watermarks join plans using (batch) order by batch"
        found.watermarks_ms = [watermark_ms for (watermark_ms,) in self._tables.rows(text)]
        found.rows = [[] for _ in self._history.batches]
        columns = ", ".join(map(quoted, self._plan.chain.output))
        for batch, *values in self._tables.rows(f"select batch, {columns} from {last.name}"):
            found.rows[batch].append(tuple(values))
        return found

    def _place_rows(self) -> None:
        """The batches of all rows, and the query's watermarks."""
        sources, plans = self._plan.chain.sources, [batch.plan for batch in self._history.batches]
        topics = [source.topic for source in sources]
        for name, columns in plan_tables(self._history.manifest, plans, topics).items():
            self._tables.register(name, columns)
        records, first = [], 0
        for side, source in enumerate(sources):
            first += self._read(side, source, first)
            time = quoted(source.time)
            records.append(f"select row, {side} as side, part, position, {time} as time_us from read_{side}")
        self._make("records", " union all ".join(records))
        self._make("placed", PLACED)
        events = (
            "select batch, side, time_us as event_us, true as is_sure from records join placed using (row)"
        )
        delays_ms = [source.watermark_delay_ms for source in (*sources, *self._plan.unread)]
        found = [Select("events", events), *watermark_relations(delays_ms, self._plan.chain.policy)]
        self._make("query_watermarks", f"{as_one(found)} select batch, watermark_ms from watermarks")

    def _read(self, side: int, source: chain.Source, first: int) -> int:
        """Register the records of a source by their places, numbered from ``first`` on; returns how many."""
        number = self._plan.sources[side]
        rows = [row for batch in self._history.batches for row in batch.rows[number]]
        places = [self._history.places[record] for row in rows for record in row.made_of]
        self._register(
            f"read_{side}", source, rows, row=range(first, first + len(rows)),
            part=[part for _, part, _ in places], position=[position for _, _, position in places],
        )  # fmt: skip
        return len(rows)

    def _run(self, step: chain.Step) -> _Made:
        """Make the table of a step, behind those of its inputs."""
        if isinstance(step, chain.Source):
            side, delay_ms = next(self._sources), step.watermark_delay_ms
            text = f"select batch, * exclude (batch, part, position) from read_{side} join placed using (row)"
            return _Made(self._make(f"source_{side}", text), None if delay_ms is None else 0, delay_ms or 0)
        inputs = [self._run(one) for one in chain.inputs_of(step)]
        name = f"step_{len(self._answer.late)}"
        self._answer.late.append(0)
        if isinstance(step, chain.Join):
            return self._join(step, name, inputs)
        (below,) = inputs
        match step:
            case chain.Window() | chain.Where():
                self._make(name, chain_relations.stateless(step, below.name))
            case chain.Aggregate():
                self._divide(chain_relations.one_side(below.name, time_of(step.input), below.behind_ms))
                self._make(name, chain_relations.groups(step, below.name))
            case chain.Deduplicate():
                self._deduplicate(step, name, below)
            case chain.Limit():
                self._load(name, step)
                self._check(chain_relations.broken_limits(step, below.name, name))
        return _Made(name, below.behind_ms, below.delay_ms)

    def _deduplicate(self, step: chain.Deduplicate, name: str, below: _Made) -> None:
        self._divide(chain_relations.one_side(below.name, time_of(step.input), below.behind_ms))
        text = f"select b.* from {below.name} b join rows t on b.row = t.row where not t.is_late"
        accepted = self._make(f"accepted_{name}", text)
        self._load(name, step)
        due = chain_relations.due(step, below.delay_ms)
        self._make("rows", chain_relations.one_side(name, due, below.behind_ms))
        self._check(chain_relations.broken_deduplications(step, accepted, name))

    def _join(self, step: chain.Join, name: str, inputs: Sequence[_Made]) -> _Made:
        left, right = inputs
        behind_ms, names = max(one.behind_ms or 0 for one in inputs), (left.name, right.name)
        self._divide(chain_relations.both_sides(step, names, behind_ms))
        text = chain_relations.joined(step, names, behind_ms, popular=self._popular, loses=self._loses)
        self._make(name, text)
        goes_on = left if step.time == chain.time_of(step.left) else right
        return _Made(name, chain_relations.behind_after(step, behind_ms), goes_on.delay_ms)

    def _divide(self, text: str) -> None:
        """Make ``rows`` of a step: late, and in time; and count the late ones."""
        self._make("rows", text)
        [(self._answer.late[-1],)] = self._tables.rows("select count(*) from rows where is_late")

    def _check(self, promises: Mapping[str, str]) -> None:
        for what, text in promises.items():
            self._answer.broken += [f"{what}: {row}" for row in self._tables.rows(f"{text} limit 3")]

    def _load(self, name: str, step: chain.Step) -> None:
        """Make the table of a step of what it chose."""
        chosen = next(self._choices)
        rows = [row for of_batch in chosen for row in of_batch]
        batches = [number for number, of_batch in enumerate(chosen) for _ in of_batch]
        self._register(f"chosen_{name}", step, rows, row=range(len(rows)), batch=batches)
        self._make(name, f"select * from chosen_{name}")

    def _register(self, name: str, step: chain.Step, rows: Sequence[Row], **numbers: Sequence[int]) -> None:
        """Name a table of these numbers and of the fields of a step's rows."""
        columns = {column: pa.array(values, pa.int64()) for column, values in numbers.items()}
        for column, kind in chain.types_of(step).items():
            columns[column_of(column)] = pa.array([row.values[column] for row in rows], _ARROW[kind])
        self._tables.sql.register(name, pa.table(columns))

    def _make(self, name: str, text: str) -> str:
        self._tables.make(name, text)
        return name
