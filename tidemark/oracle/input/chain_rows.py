"""From output records to rows: which batch wrote which values. Free of I/O; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidemark.formats import chain
from tidemark.formats.contract import Delivery
from tidemark.formats.events import field_reader, read_time_us
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.field_values import as_text, from_json
from tidemark.formats.record_fields import type_of
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.output_rows import header_problem
from tidemark.oracle.input.rows import Row
from tidemark.oracle.spark.time_ranges import US_PER_MS

if TYPE_CHECKING:
    from tidemark.oracle.model.operators import Machine

Values = tuple[Any, ...]


class ChainOutputRow(NamedTuple):
    """A row that came: its batch, its values as :class:`Shape` has them, its place in the output."""

    batch: int
    values: Values
    place: str


class Shape:
    """The output's columns; a time is in milliseconds, which is all that its JSON says of it."""

    def __init__(self, described: chain.Chain) -> None:
        self.names = described.output
        types = chain.types_of(described.last)
        self.types = [types[name] for name in described.output]

    def of(self, row: Row) -> Values:
        """What a row of the last step is in the output."""
        return self.shorten(row.get(self.names))

    def shorten(self, values: Iterable[Any]) -> Values:
        """Values of the last step, as the output has them."""
        return tuple(
            [
                value // US_PER_MS if kind == chain.TIME and value is not None else value
                for value, kind in zip(values, self.types, strict=True)
            ]
        )

    def read(self, name: str, value: Any) -> Any:
        """A field of an output record; raises ``ValueError`` if it is not of its type."""
        kind = self.types[self.names.index(name)]
        if value is None or kind == chain.STRING:
            return as_text(value)
        found = _time_ms(value) if kind == chain.TIME else from_json(value, type_of(kind))
        if found is None:
            raise ValueError(f"{name} is {value!r}, which is no {kind}")
        return found


def _time_ms(value: Any) -> int | None:
    time_us = read_time_us(value) if type(value) is str else None
    return None if time_us is None else time_us // US_PER_MS


class ChainOutput:
    """All records of the output topic; ``corrupt`` are those that cannot be read: place and problem."""

    def __init__(self, history: ChainHistory, records: Iterable[OutputRecord]) -> None:
        self.shape = Shape(history.chain)
        self.came: list[ChainOutputRow] = []
        self.corrupt: list[tuple[str, str]] = []
        self._query = history.manifest.query_id
        first = self.shape.names[0]
        read = field_reader((first, *self.shape.names))
        for record in records:
            place = f"{record.partition}/{record.offset}"
            try:
                fields = read(record.value)
                if fields is None:
                    raise ValueError("its value is not a JSON object")
                pairs = zip(self.shape.names, fields[1:], strict=True)
                values = tuple([self.shape.read(name, value) for name, value in pairs])
                self.came.append(ChainOutputRow(self._batch(record), values, place))
            except ValueError as error:
                self.corrupt.append((place, str(error)))
        self.by_batch: dict[int, Counter[Values]] = {}
        for one in self.came:
            self.by_batch.setdefault(one.batch, Counter())[one.values] += 1

    def _batch(self, record: OutputRecord) -> int:
        if problem := header_problem(record):
            raise ValueError(problem)
        text, query = record.header("batch") or "", record.header("query")
        self._query = self._query or query  # the manifest may not say: then the first record does
        if query is None or query != self._query:
            raise ValueError(f"its header 'query' is {query!r}; this query is {self._query!r}")
        return int(text)


class Offered(NamedTuple):
    """Rows of which the last step took some in a batch that ran again; both as the output has them."""

    rows: list[Values]
    taken: list[Values]


class Choice:
    """Settles what Spark's rules leave open by what came, where that is to be seen: at the last step.

    ``unseen`` counts the choices that are not. ``offered`` has, by batch, what an attempt of a batch that ran again, or
    of which a task failed, may have taken instead. Of a deduplication within the watermark the event time of the row
    that is kept says when its key is forgotten. Where rows with several times may be the one that Spark kept last,
    ``turns`` is how many at most, and ``turn`` says which of them is taken.
    """

    def __init__(self, history: ChainHistory, output: ChainOutput, turn: int = 0) -> None:
        self._last = history.chain.last
        self._output = output
        self._turn = turn
        self._ran_again = [one.plan.runs > 1 or one.plan.failed_tasks > 0 for one in history.batches]
        self._is_exactly_once = history.manifest.delivery is Delivery.EXACTLY_ONCE
        self.batch = 0
        self.unseen = 0
        self.turns = 1
        self.offered: dict[int, list[Offered]] = {}

    def __call__(self, machine: Machine, rows: list[Row], many: int) -> list[Row]:
        """The rows that came, then others, as they were read."""
        if machine.step is not self._last:
            self.unseen += 1
            return rows[:many]
        shape, left = self._output.shape, Counter(self._output.by_batch.get(self.batch, Counter()))
        first: list[Row] = []
        rest: list[Row] = []
        for row in rows:
            values = shape.of(row)
            if left[values] > 0 and len(first) < many:
                left[values] -= 1
                first.append(row)
            else:
                rest.append(row)
        taken = (first + rest)[:many]
        if isinstance(self._last, chain.Deduplicate) and self._last.within_watermark:
            kept = self._kept_perhaps(rows, taken[0])
            self.turns = max(self.turns, len(kept))
            taken = [kept[self._turn % len(kept)]]
        if self._ran_again[self.batch]:
            of_batch = self.offered.setdefault(self.batch, [])
            of_batch.append(Offered([shape.of(row) for row in rows], [shape.of(row) for row in taken]))
        return taken

    def _kept_perhaps(self, rows: list[Row], taken: Row) -> list[Row]:
        """Of each event time a row that Spark may have kept last, that of ``taken`` first."""
        came, shape = self._output.by_batch.get(self.batch, Counter()), self._output.shape
        if not self._ran_again[self.batch]:
            possible = [row for row in rows if shape.of(row) == shape.of(taken)]
        elif self._is_exactly_once:  # the output may be of one attempt, and the state of another
            possible = rows
        else:
            possible = [row for row in rows if came[shape.of(row)] > 0]
        time, by_time = str(chain.time_of(self._last)), dict[Any, Row]()
        for row in [taken, *possible]:
            by_time.setdefault(row.values[time], row)
        return list(by_time.values())
